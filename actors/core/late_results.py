"""Late results: others spoke between a call and its result, and no provider takes that order.

Until the result comes, a written one says that the call is running; then it stands in its place, as if it had come in
time. What is kept does not change for it: only a view shows it there, if the call is in that view.
"""

from __future__ import annotations

from collections.abc import Sequence

from protocol.formats.render import Piece

from .entry import Entry
from .units import units
from .written_words import BELOW, OVERDUE, RUNNING, written


def pieces_of(staying: Sequence[Entry], entries: Sequence[Entry]) -> list[tuple[Entry, tuple[Piece, ...]]]:
    """Return what a view shows of each of *staying*, in its order, where *entries* are all that could be shown."""
    if not any(entry.awaited or entry.late for entry in staying):
        return [(entry, entry.pieces) for entry in staying]
    awaited = {call for entry in staying if entry.awaited for call in entry.answers}
    late = {call: entry for entry in staying for call in entry.late if call in awaited}
    below = {result.late for entry in staying for result in entry.results if result.late}
    ended = _turn_ended(entries)
    out: list[tuple[Entry, tuple[Piece, ...]]] = []
    for unit in units(staying):
        for entry in unit.entries:
            if any(call in late for call in entry.late):
                out.append((entry, ()))
                continue
            pieces = entry.pieces
            if entry.awaited:
                nothing = OVERDUE if entry.number < ended else RUNNING
                pieces = (*pieces[:1], *_answers(entry, late, below, nothing))
            out.append((entry, pieces))
    return out


def _answers(entry: Entry, late: dict[str, Entry], below: set[str], nothing: str) -> list[Piece]:
    out: list[Piece] = []
    shown: set[int] = set()
    for call in entry.answers:
        found = late.get(call)
        if found is None:
            out.append(written(call, BELOW if call in below else nothing))
        elif found.number not in shown:
            shown.add(found.number)
            out += found.placed
    return out


def _turn_ended(entries: Sequence[Entry]) -> int:
    """Return the number of the newest answer that asks no tool: with it the agent ended its turn."""
    goes_on = False  # with a call, as the next item of the same answer
    for entry in reversed(entries):
        if entry.role == "assistant" and not entry.call_ids and not goes_on:
            return entry.number
        goes_on = entry.joins
    return 0
