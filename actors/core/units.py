"""Units and blocks: where a conversation may be parted.

A unit is a user message, or an assistant message with all results of its calls, or the observation that answers it,
or a notice; it is kept, digested or cut as a whole. A block is a user message and everything up to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import msgspec

from protocol.policy_sections import Floor

from .entry import Entry, shown_message, text_of


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
        return speaks(self.entries[0])


def instructions(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the instructions at the head of a conversation; they are never parted from it."""
    return tuple(takewhile(lambda entry: entry.leading, entries))


def goes_on(entry: Entry) -> bool:
    """Tell whether *entry* belongs to the unit of the one before it."""
    return entry.joins or (entry.observed and not entry.notice) or bool(entry.results and not entry.orphan)


def speaks(entry: Entry) -> bool:
    """Tell whether a user speaks in *entry*, and nothing in the user's place."""
    return entry.role == "user" and not entry.observed


def units(entries: Sequence[Entry]) -> tuple[Unit, ...]:
    """Return *entries* grouped into units, all of them, in order."""
    groups: list[list[Entry]] = []
    for entry in entries:
        if entry.late and groups and _is_open(groups[-1]):
            # nobody speaks between a call and its results, wherever the late ones are shown
            groups.insert(len(groups) - 1, [entry])
        elif groups and goes_on(entry):
            groups[-1].append(entry)
        else:
            groups.append([entry])
    return tuple(Unit(entries=tuple(group)) for group in groups)


def _is_open(group: Sequence[Entry]) -> bool:
    """Tell whether a call of *group* has neither a result nor a written one yet."""
    calls = {call for entry in group for call in entry.call_ids}
    given = {result.call for entry in group for result in entry.results}
    return bool(calls - given - {call for entry in group for call in entry.answers})


def blocks_first(all_units: Sequence[Unit], blocks: int) -> int:
    """Return the place of the first unit of the newest *blocks* blocks; the newest unit is in any case among them."""
    left = blocks
    for index in range(len(all_units) - 1, -1, -1):
        if left <= 0:
            return min(index + 1, len(all_units) - 1)
        left -= all_units[index].opens_block
    return 0


def floor_units(every: Sequence[Unit], floor: Floor) -> int:
    """Return the number of newest units that the floor holds: the most of its three measures."""
    blocks = messages_ = tokens = 0
    guarded = 0
    for index, unit in enumerate(reversed(every), 1):
        if blocks < floor.blocks or messages_ < floor.messages or tokens < floor.tokens:
            guarded = index
        blocks += unit.opens_block
        messages_ += len(unit.entries)
        tokens += unit.tokens
    return guarded


def floor_pairs(every: Sequence[Unit], floor: Floor) -> frozenset[int]:
    """Return the numbers in the floor that stay where its calls leave: of each block the request and the last answer.

    Instructions among them stay too.
    """
    stays: list[Unit] = []
    answered = False
    for unit in reversed(every[len(every) - floor_units(every, floor) :]):
        answers = unit.entries[0].role == "assistant" and not unit.entries[0].call_ids
        calls = bool(unit.entries[0].call_ids)
        if not calls and not (answers and answered):
            stays.append(unit)
        answered = not unit.opens_block and (answered or answers)
    return frozenset(entry.number for unit in stays for entry in unit.entries)


def answered_through(entries: Sequence[Entry]) -> int:
    """Return the number of the newest final answer: the assistant spoke last, asked nothing, and the user went on."""
    for index in range(len(entries) - 2, -1, -1):
        entry = entries[index]
        if speaks(entries[index + 1]) and entry.role == "assistant" and not entry.call_ids:
            text = text_of(shown_message(entry)).rstrip("\"'*_) \n")
            if text and not text.endswith(("?", "？", ";", ":")):
                return entry.number
    return 0


def last_user(entries: Sequence[Entry]) -> int:
    """Return the number of the newest user message, 0 if there is none."""
    return next((entry.number for entry in reversed(entries) if speaks(entry)), 0)


def first_user(entries: Sequence[Entry]) -> int:
    """Return the number of the oldest user message, 0 if there is none."""
    return next((entry.number for entry in entries if speaks(entry)), 0)
