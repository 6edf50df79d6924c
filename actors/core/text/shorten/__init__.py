"""Shorten a text by its kind, one file a kind; `by_kind` chooses."""
