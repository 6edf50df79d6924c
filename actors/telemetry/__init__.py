"""Spans and metrics: how they are set up, written to files and drawn."""
