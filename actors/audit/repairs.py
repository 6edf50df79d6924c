"""Repairs: what a log says of its own repairs, and which heads an anchor may have seen that are gone since."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from protocol import codec
from protocol.errors import BadEnvelope
from protocol.facts import ConversationRepaired
from storage.ports import Record

from .heads import Head, positions


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair as its log tells it: all fields of `ConversationRepaired`, by their names, and where that stands."""

    version: int
    at_ms: int
    by: str
    problem: str
    dropped: int
    from_copy: int
    unreadable: tuple[int, ...]
    missing: tuple[tuple[str, int, int], ...]
    export: str
    anchor: int
    gone: tuple[tuple[int, int, int], ...]
    after: tuple[int, ...]
    """Sequences of the last commit that stayed, one for each stack that the log was in, the present one first."""
    until: tuple[int, ...]
    """Those of the repair's own commit: between the two it put something else."""

    def replaced(self, head: Head, *, anchor: int) -> bool:
        """Tell whether *head*, as *anchor* saw it, was in the part that this repair put something else in place of."""
        if anchor <= self.anchor and head.seq > self.after[0]:
            return True  # an end that the server itself forgot may have lain behind the place of the repair
        ends = (*self.until, *(head.seq + 1 for _ in self.after))  # in an older stack it may have had no end
        return any(first < head.seq < last for first, last in zip(self.after, ends, strict=False))


def repairs_in(records: Iterable[Record]) -> tuple[Repair, ...]:
    """Return the repairs that *records* tell of, in order."""
    found: list[Repair] = []
    before: tuple[int, ...] = (0,)
    for record in records:
        if record.side != "done":
            continue
        if b"ConversationRepaired" in record.body:
            found += _repairs(record, before)
        before = positions(record)[::-1]
    return tuple(found)


def _repairs(record: Record, before: tuple[int, ...]) -> list[Repair]:
    try:
        commit = codec.decode_commit(record.body)
    except BadEnvelope:
        return []
    return [
        Repair(version=commit.version, after=before, until=positions(record)[::-1], **msgspec.structs.asdict(fact))
        for fact in commit.facts
        if isinstance(fact, ConversationRepaired)
    ]
