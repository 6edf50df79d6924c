"""Strings only: kinds of text, previews, values, secrets. Imports nothing else of the core."""
