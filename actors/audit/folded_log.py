"""Folded log: the records of a conversation with the commits that they were folded to, for who asks again and again.

It stands wherever records are asked for; `trail` takes the commits from it and folds nothing. It never changes:
what is new makes another one, and only that is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from actors.core.rewind import Transition
from actors.runtime.fold import Decision, decisions
from protocol.errors import BadEnvelope, ChainBroken
from protocol.ids import Address
from storage.ports import Record
from storage.tombstones import is_erasure


class Folded(Sequence[Record]):
    """All records of *at*, and their commits as far as the log is sound."""

    def __init__(
        self,
        at: Address,
        *,
        records: tuple[Record, ...] = (),
        commits: tuple[Decision, ...] = (),
        damage: ChainBroken | BadEnvelope | None = None,
    ) -> None:
        self.at = at
        self.commits = commits
        self.damage = damage
        """Why there is no commit after the last one, although the log goes on."""
        self._records = records

    def extended(self, new: Iterable[Record]) -> Folded:
        """Return the fold of these records and the *new* ones behind them."""
        more = tuple(new)
        if not more:
            return self
        erased = next((index for index in range(len(more) - 1, -1, -1) if is_erasure(more[index])), None)
        if erased is not None and (erased or self._records):
            # nothing of what was may be told any more
            return Folded(self.at).extended(more[erased:])
        records = (*self._records, *more)
        if self.damage is not None:
            return Folded(self.at, records=records, commits=self.commits, damage=self.damage)
        last = self.commits[-1] if self.commits else None
        waiting = self._unseen(last)
        found: list[Decision] = []
        damage: ChainBroken | BadEnvelope | None = None
        try:
            past = {one.commit.version: Transition(before=one.before, after=one.after) for one in self.commits}
            for decision in decisions(self.at, (*waiting, *more), behind=last, past=past):
                found.append(decision)  # one by one: those before the damage count
        except (ChainBroken, BadEnvelope) as error:
            damage = error
        return Folded(self.at, records=records, commits=(*self.commits, *found), damage=damage)

    def decisions(self) -> Iterator[Decision]:
        """Yield every commit, in order. Raises `ChainBroken`, `BadEnvelope` behind the last sound one."""
        yield from self.commits
        if self.damage is not None:
            raise self.damage

    def _unseen(self, last: Decision | None) -> list[Record]:
        """Return the messages at the end that no commit has covered."""
        covered = last.after.position.said_seq if last else 0
        found: list[Record] = []
        for record in reversed(self._records):
            if record.seq <= covered:
                break
            if record.side == "said":
                found.append(record)
        return found[::-1]

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)
