"""Repairs: what a log says of its own repairs, and which heads an anchor may have seen that are gone since."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from protocol import codec
from protocol.errors import BadEnvelope
from protocol.facts import ConversationRepaired
from storage.ports import Record

from .heads import Head, positions


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """One repair, with the sequences of the last commit that stayed and of its own: between them it put something else.

    There is one for each stack that the log was in, the present one first.
    """

    version: int
    fact: ConversationRepaired
    after: tuple[int, ...]
    until: tuple[int, ...]

    def replaced(self, head: Head, *, anchor: int) -> bool:
        """Tell whether *head*, as *anchor* saw it, was in the part that this repair put something else in place of."""
        if anchor <= self.fact.anchor and head.seq > self.after[0]:
            return True  # an end that the server itself forgot may have lain behind the place of the repair
        ends = (*self.until, *(head.seq + 1 for _ in self.after))  # in an older stack it may have had no end
        return any(first < head.seq < last for first, last in zip(self.after, ends, strict=False))


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """One repair as a verdict tells it: with all fields of `ConversationRepaired`, by their names."""

    version: int
    at_ms: int
    by: str
    problem: str
    dropped: int
    from_copy: int
    unreadable: tuple[int, ...]
    missing: tuple[tuple[str, int, int], ...]
    export: str
    anchor: int = 0
    gone: tuple[tuple[int, int, int], ...] = ()


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


def as_verdict(repairs: Sequence[Repair]) -> tuple[Repaired, ...]:
    """Return *repairs* for a verdict."""
    return tuple(Repaired(version=one.version, **msgspec.structs.asdict(one.fact)) for one in repairs)


def _repairs(record: Record, before: tuple[int, ...]) -> list[Repair]:
    try:
        commit = codec.decode_commit(record.body)
    except BadEnvelope:
        return []
    return [
        Repair(version=commit.version, fact=fact, after=before, until=positions(record)[::-1])
        for fact in commit.facts
        if isinstance(fact, ConversationRepaired)
    ]
