"""Count: how a text is measured. Which tokenizer counts is the caller's choice."""

from __future__ import annotations

from collections.abc import Callable

Count = Callable[[str], int]
"""Tokens of a text."""
