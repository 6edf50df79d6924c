"""Sweeper: find conversations that somebody has to work on though nobody was told, and wake who must act.

A wake-up can be lost: its stream was purged, a republished message found no room, a worker died between freeing its
slot and looking again. The sweeper needs no lock, since a filled slot is not filled twice; any number of them share
one mark of how far the log was looked at, and each sweep looks only at what came since, and at what was left open.
It also writes the list of all conversations (`actors/runtime/listing.py`): it looks at each one that changed anyhow.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import cast

import msgspec

from actors.core.flow import next_actor
from actors.core.listed import ERASED, NAME_CHARS, NOT_READ, ROWS_MAX, About, Listed, about
from actors.runtime.conversations import Conversations
from actors.runtime.listing import Listing
from protocol.errors import (
    JettisonError,
    KeysUnavailable,
    LogUnavailable,
    NotPermitted,
    NotProvisioned,
    Unavailable,
)
from protocol.ids import Address, written_address
from protocol.jsonbytes import without_surrogates
from protocol.outages import Outage
from protocol.subjects import FIRST_ACTOR
from protocol.tasks import heed_cancellation
from protocol.tracing import traced
from storage.ports import EventLog
from storage.sweep_ports import LogChange, LogChanges, StuckSlots, SweepMark
from storage.work_ports import DeadLetter, DeadLetters, Wakes

log = logging.getLogger("jettison.sweeper")

SWEEP_SECONDS = 15.0
"""Between two sweeps of all sweepers together: what is lost waits for two of them at most."""

UNSETTLED_MAX = 1000
"""Conversations that a mark remembers as open. Where more are, the sweep stays there: the workers are behind anyhow."""


class Swept(msgspec.Struct, frozen=True, kw_only=True):
    """What one sweep came to."""

    looked_at: int = 0
    open: int = 0
    """Those that somebody has to work on."""
    woken: int = 0
    """Those of them whose slot was empty: nobody had been told."""
    parked: int = 0
    """Those of them that are dead letters, and wait for a person."""
    freed: int = 0
    """Slots that were done and still filled: nobody could have been told in them again."""
    complete: bool = True
    """It reached the end that it set out for, and no other sweeper was faster."""


COUNTS = ("looked_at", "open", "woken", "parked", "freed")


@dataclass(kw_only=True)
class Sweeper:
    """One of any number."""

    log: EventLog
    changes: LogChanges
    conversations: Conversations
    wakes: Wakes
    dead_letters: DeadLetters
    stuck_slots: StuckSlots
    listing: Listing
    sweep_seconds: float = SWEEP_SECONDS
    unlisted: set[Address] = field(default_factory=set)
    """Those whose record tells only that they could not be read when they were looked at."""

    outage: Outage = field(default_factory=lambda: Outage(log.warning, "no list of conversations is kept"))

    async def run(self) -> None:
        """Sweep now and then until cancelled, whenever no other sweeper did. Raises `NotProvisioned`."""
        seen = -1
        while True:
            try:
                _, revision = await self.changes.mark()
                if revision in (0, seen):
                    await self.sweep()
                    _, revision = await self.changes.mark()
                seen = revision
            except Unavailable as error:
                log.info("no sweep: %s", error)
            except NotProvisioned:
                raise
            except Exception:
                # what one conversation says must not end what all the others need
                log.exception("a sweep failed")
            heed_cancellation()
            await asyncio.sleep(self.sweep_seconds * random.uniform(0.8, 1.2))

    async def sweep(self, *, everything: bool = False) -> Swept:
        """Look at what changed between the last two sweeps, or at *everything*, and wake who must act."""
        swept = [
            await self._sweep(partition, everything=everything) for partition in range(await self.changes.partitions())
        ]
        counts = {name: sum(getattr(one, name) for one in swept) for name in COUNTS}
        return Swept(**counts, complete=all(one.complete for one in swept))

    async def _sweep(self, partition: int, *, everything: bool) -> Swept:
        mark, revision = await self.changes.mark(partition)
        end = await self.log.end(partition)
        if mark.seq > end:
            # the log was made anew, or lost its end: what the mark says is of another one
            mark = SweepMark()
        listed = await self._listed(partition, end=end)
        if everything or not mark.upto:
            mark = msgspec.structs.replace(mark, seq=0, upto=end)
        elif listed < mark.seq:
            # the list is not there, or its writer was interrupted, or an older release sweeps too
            mark = msgspec.structs.replace(mark, seq=listed)
        claimed = await self.changes.put_mark(mark, expected=revision, partition=partition)
        if not claimed:
            return Swept(complete=False)
        freed = 0 if partition else await self.stuck_slots.free()
        round_ = _Round(self, letters=[stored.letter async for stored in self.dead_letters.all()])
        for written in mark.unsettled:
            await round_.visit(written_address(written))
        reached = await self._new(mark, round_)
        if not await self._list(round_, seq=reached, partition=partition):
            return msgspec.structs.replace(round_.swept, freed=freed, complete=False)
        unsettled = tuple(str(at) for at in round_.unsettled)
        next_mark = SweepMark(seq=reached, upto=end, unsettled=unsettled)
        done = await self.changes.put_mark(next_mark, expected=claimed, partition=partition)
        complete = bool(done) and reached >= mark.upto
        return msgspec.structs.replace(round_.swept, freed=freed, complete=complete)

    async def _new(self, mark: SweepMark, round_: _Round) -> int:
        """Visit what changed; return the sequence up to which everything was."""
        reached = mark.seq
        changed = cast("AsyncGenerator[LogChange]", self.changes.after(mark.seq, upto=mark.upto))
        try:
            async with aclosing(changed):
                async for change in changed:
                    if len(round_.unsettled) >= UNSETTLED_MAX:
                        return reached
                    round_.change(change)
                    await round_.visit(change.at)
                    reached = change.seq
                    if len(round_.rows) >= ROWS_MAX:
                        await self._list(round_)
        except LogUnavailable as error:
            log.info("the next sweep goes on from %d: %s", reached, error)
            return reached
        return max(reached, mark.upto)

    async def _listed(self, partition: int, *, end: int) -> int:
        """Return how far the list goes; *end*, as if it had all, where none is kept or this user may not write it."""
        try:
            head = await self.listing.head()
            if head.seq(partition) > end:
                await self.listing.begin_anew()
                return 0
        except (NotProvisioned, NotPermitted) as error:
            self.outage.failed(str(error))
            return end
        return head.seq(partition)

    async def _list(self, round_: _Round, *, seq: int | None = None, partition: int = 0) -> bool:
        """Write the records of what was visited; false if another sweeper wrote at the same time."""
        rows = list(round_.rows.values())
        try:
            # a sweep that saw an erased one before it was may have written its record after it was
            await self.listing.forget({one.at for one in rows if one.about.fault == ERASED})
            written = await self.listing.record(rows, seq=seq, partition=partition)
        except (NotProvisioned, NotPermitted) as error:
            self.outage.failed(str(error))
            return True
        self.outage.succeeded()
        if written:
            round_.rows.clear()
        return written


class _Round:
    """One sweep under way: each conversation is visited once."""

    def __init__(self, sweeper: Sweeper, *, letters: Sequence[DeadLetter]) -> None:
        self._sweeper = sweeper
        self._parked = {(letter.actor, letter.at) for letter in letters}
        # to look at one may be enough to die of it
        self._deadly = {letter.at for letter in letters if letter.reason == "deadly"}
        self._seen: set[Address] = set()
        self.changed: dict[Address, LogChange] = {}
        self.rows: dict[Address, Listed] = {}
        """Records that the list has not got yet."""
        self.unsettled: list[Address] = []
        self.swept = Swept()

    def change(self, change: LogChange) -> None:
        """Take note of a change; of one that was visited before, only when it was."""
        self.changed[change.at] = change
        if (row := self.rows.get(change.at)) is not None:
            self.rows[change.at] = msgspec.structs.replace(row, at_ms=change.at_ms or row.at_ms)

    async def visit(self, at: Address) -> None:
        """Wake who must act on *at*. One that cannot be looked at now is left open."""
        if at in self._seen:
            return
        self._seen.add(at)
        self._count(looked_at=1)
        if at in self._deadly:
            self._list(at, About(fault="dead letter", why="to look at it ends the process that does"))
            return self._count(open=1, parked=1)
        try:
            state = await self._sweeper.conversations.load(at)
            actor = next_actor(state)
            told = about(state)
            msgspec.msgpack.encode(told)  # what does not fit into a record is of this one, and not of all in its chunk
            self._list(at, told, seq=state.seq, at_ms=state.counters.now_ms)
        except Unavailable as error:
            log.info("%s is looked at later: %s", at, error)
            self._list(at, About(fault="no key" if isinstance(error, KeysUnavailable) else NOT_READ))
            self._sweeper.unlisted.add(at)
            self.unsettled.append(at)
            return
        except NotProvisioned:
            raise
        except Exception as error:
            if not isinstance(error, JettisonError):
                log.exception("%s cannot be looked at", at)
            self._list(at, About(fault="damaged", why=without_surrogates(str(error))[:NAME_CHARS]))
            # not ours to judge: the worker that takes the slot fails, and writes the dead letter
            actor = FIRST_ACTOR
        if actor is None:
            return
        self._count(open=1)
        if (actor, at) in self._parked:
            return self._count(parked=1)
        self.unsettled.append(at)
        if await self._sweeper.wakes.wake(actor, at, headers=traced()):
            self._count(woken=1)

    def _list(self, at: Address, told: About, *, seq: int = 0, at_ms: int = 0) -> None:
        """Take what is *told* of *at* for the list, if it changed, or was not known."""
        change = self.changed.get(at)
        if change is None and at not in self._sweeper.unlisted:
            return
        self._sweeper.unlisted.discard(at)
        change = change or LogChange(seq=seq, at=at)
        self.rows[at] = Listed(at=at, seq=seq or change.seq, at_ms=change.at_ms or at_ms, about=told)

    def _count(self, **more: int) -> None:
        totals = {name: getattr(self.swept, name) + value for name, value in more.items()}
        self.swept = msgspec.structs.replace(self.swept, **totals)
