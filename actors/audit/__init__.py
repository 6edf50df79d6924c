"""Audit: versions of a conversation listed, compared and explained, from the records of its log alone.

Pure functions: nothing in here reads a store, a clock or the network.
"""
