"""Units and blocks: where a conversation may be parted.

A unit is a user message, or an assistant message with all results of its calls; it is kept, digested or
cut as a whole. A block is a user message and everything up to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from .entry import Entry


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The atom of every cut: one or more entries, in order."""

    entries: tuple[Entry, ...]

    @property
    def tokens(self) -> int:
        """Return the shown tokens of all its entries."""
        return sum(entry.tokens for entry in self.entries)

    @property
    def first(self) -> int:
        """Return the number of its first message."""
        return self.entries[0].number

    @property
    def last(self) -> int:
        """Return the number of its last message."""
        return self.entries[-1].number

    @property
    def opens_block(self) -> bool:
        """Tell whether a user begins to speak here."""
        return self.entries[0].role == "user"


def instructions(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the instructions at the head of a conversation; they are never parted from it."""
    return tuple(takewhile(lambda entry: entry.leading, entries))


def units(entries: Sequence[Entry]) -> tuple[Unit, ...]:
    """Return *entries* grouped into units, all of them, in order."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry.role == "tool" and not entry.loose and groups:
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return tuple(Unit(entries=tuple(group)) for group in groups)


def last_user(entries: Sequence[Entry]) -> int:
    """Return the number of the newest user message, 0 if there is none."""
    return next((entry.number for entry in reversed(entries) if entry.role == "user"), 0)


def first_user(entries: Sequence[Entry]) -> int:
    """Return the number of the oldest user message, 0 if there is none."""
    return next((entry.number for entry in entries if entry.role == "user"), 0)
