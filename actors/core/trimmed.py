"""Trimmed: entries with parts of them shortened in place."""

from __future__ import annotations

from collections.abc import Iterable

from protocol.account import Trim

from .entry import Entry


def trimmed(entries: Iterable[Entry], trims: Iterable[Trim]) -> list[Entry]:
    """Return *entries* with the texts that *trims* put into their place."""
    by_number: dict[int, list[Trim]] = {}
    for trim in trims:
        by_number.setdefault(trim.number, []).append(trim)
    out = []
    for entry in entries:
        for trim in by_number.get(entry.number, ()):
            entry = entry.with_shown(trim.pointer, trim.text, trim.tokens)
        out.append(entry)
    return out
