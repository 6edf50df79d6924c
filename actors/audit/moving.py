"""Moving: more partitions of a log that is in use, shard by shard, while agents speak and actors work.

A shard that moves is frozen first: no stream listens to it, and who writes tries again, for some seconds at most. What
is behind the freeze is copied record by record, as an import does it, and then the new partition listens. The old
records stay until every process has looked where its conversations are, and are overwritten then. What is to be done is
read from the streams themselves, so that a move which was killed goes on wherever it stood. It is a matter of these
streams alone: no other store has partitions, so there is no port for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import stamina
from nats.aio.client import Client as NatsConnection

from actors.runtime.task_group import together
from protocol import subjects
from protocol.connection import publish
from protocol.errors import Busy, Contended, LogUnavailable, NotPermitted
from protocol.ids import Address, fresh_id
from storage.archives import left_behind
from storage.erasure import overwritten, removed
from storage.known_layout import FRESH_SECONDS
from storage.partition_growth import begun, ended, frozen, listening, thawed, wanted
from storage.partitions import Layout, partition_at, shard_of, stream_of
from storage.ports import EventLog, Record
from storage.work_ports import Wakes

from .heads import positions
from .importing import origin_headers

T = TypeVar("T")

SEEN_SECONDS = FRESH_SECONDS + 1.0
"""After it every process has asked where its conversations are."""

AT_ONCE = 8
"""Conversations that are copied at the same time."""

ROUNDS_MAX = 10
"""Times that one record is tried; each waits as long as any publish."""

PATIENCE_SECONDS = 30.0

INSIST_SECONDS, WAIT_SECONDS, WAIT_SECONDS_MAX = 300.0, 0.5, 5.0
"""So long after it got something done last a server is waited for: who gives up leaves a shard to which nobody can
write until the next run."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What one run did."""

    partitions: int
    shards: int = 0
    conversations: int = 0
    records: int = 0


class Moving:
    """One growth; any number of runs come to the same end, one after the other.

    *log_of* gives the log as one partition has it.
    """

    def __init__(
        self,
        connection: NatsConnection,
        *,
        log_of: Callable[[int], EventLog],
        wakes: Wakes,
        told: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._log_of = log_of
        self._wakes = wakes
        self._told = told
        self._copies: dict[int, tuple[int, int]] = {}
        """Of each shard that was brought how many conversations, and records of them, are in its new partition."""
        self._done = 0
        """Records that were written, and conversations that were left, by this run."""

    async def grow(self, partitions: int) -> Moved:
        """Make it so many *partitions*. Raises `Rejected` for fewer, `Unavailable`, after which it can be run again."""
        layout, target = await wanted(self._connection, partitions)
        if target is None:
            # who ended the growth may not have come to the end of it
            await ended(self._connection, layout)
            return Moved(partitions=layout.partitions)
        layout = await begun(self._connection, layout, target)
        await asyncio.sleep(SEEN_SECONDS)
        moves = [shard for shard in range(subjects.SHARDS) if layout.shards[shard] != target.shards[shard]]
        for number, shard in enumerate(moves, 1):
            await self._insisted(partial(self._brought, shard, target))
            self._told(f"{number} of {len(moves)} shards are in their new partition")
        await asyncio.sleep(SEEN_SECONDS)
        for partition, shard in await self._insisted(partial(listening, self._connection, target)):
            await self._insisted(partial(self._leave, shard, partition, target))
        await self._insisted(partial(ended, self._connection, target))
        conversations, records = (sum(counts[which] for counts in self._copies.values()) for which in (0, 1))
        return Moved(partitions=partitions, shards=len(moves), conversations=conversations, records=records)

    async def _brought(self, shard: int, target: Layout) -> None:
        """Bring a *shard* to where it belongs, unless it is there: what nobody answered to may have been done."""
        layout, _ = await wanted(self._connection, target.partitions)
        if layout.shards[shard] != target.shards[shard]:
            await self._move(shard, layout.shards[shard], target)

    async def _move(self, shard: int, source: int, target: Layout) -> None:
        """Bring a *shard* from partition *source* to where it belongs."""
        await frozen(self._connection, shard, source, target)
        moved = await self._addresses(shard, source)
        limit = asyncio.Semaphore(AT_ONCE)

        async def copy(at: Address) -> int:
            async with limit:
                return await self._copied(at, source, target)

        async with together() as group:
            copies = [group.create_task(copy(at)) for at in moved]
        self._copies[shard] = len(moved), sum(copied.result() for copied in copies)
        await thawed(self._connection, shard, source, target)
        for at in moved:
            # whoever was woken meanwhile could not write; a sweep finds what is lost here
            with suppress(LogUnavailable, Busy):
                await self._wakes.wake(subjects.FIRST_ACTOR, at, headers={})

    async def _leave(self, shard: int, source: int, target: Layout) -> None:
        """Overwrite what is left of a *shard* in partition *source*: all of it is elsewhere."""
        stream, snapshots = (stream_of(one, source) for one in (subjects.LOG_STREAM, subjects.SNAPSHOT_STREAM))
        for at in await self._addresses(shard, source):
            there = await self._log_of(target.partition(at)).read(at, after=0)
            places = [place for record in there for place in positions(record) if partition_at(place) == source]
            here = await self._log_of(source).read(at, after=0)
            # where nothing is from here, it was erased or repaired since
            for stray in (record for record in here if places and record.seq > max(places)):
                await self._stray(at, stray, target)
            # who is killed here finds the conversation again by its records: they go last
            await overwritten(self._connection, stream=snapshots, subject=subjects.snapshot(at))
            await removed(self._connection, stream=stream, seqs=[record.seq for record in reversed(here)])
            self._done += 1
        await thawed(self._connection, shard, source, target, left=True)

    async def _copied(self, at: Address, source: int, target: Layout) -> int:
        """Write the log of *at* where it belongs; return how many records it has."""
        for _ in range(ROUNDS_MAX):
            # each time: who erased when it was frozen may still be at it
            records = await self._log_of(source).read(at, after=0)
            gone = {record.seq for record in left_behind(records)}
            # what its archive has goes no further, however much of it an archiver has taken away by now
            records = [record for record in records if record.seq not in gone]
            there = await self._log_of(target.partition(at)).read(at, after=0)
            if not _is_beginning(there, records):
                # nothing is ever removed there: another run may be ahead of this one
                raise Contended(f"{at} goes on in its new partition already; is this running twice?", address=str(at))
            if len(there) == len(records):
                return len(records)
            # unknown, or tried twice: what is there says more
            with suppress(LogUnavailable):
                await self._append(at, records[len(there) :], there, target)
        raise LogUnavailable(f"{at} could not be copied to another partition; run it again", address=str(at))

    async def _append(self, at: Address, records: Sequence[Record], there: Sequence[Record], target: Layout) -> None:
        last = {side: max((one.seq for one in there if one.side == side), default=0) for side in ("said", "done")}
        for record in records:
            # who moves the same at the same time is refused
            expected = {"Nats-Expected-Last-Subject-Sequence": str(last[record.side])}
            last[record.side] = await self._written(at, record, expected, target)

    async def _stray(self, at: Address, record: Record, target: Layout) -> None:
        """Bring along what a server stored behind the freeze; a commit there would have been lost, and is said."""
        if record.side == "done":
            raise Contended(f"a commit of {at} came behind its move: look at it", address=str(at), seq=record.seq)
        await self._written(at, record, {}, target)

    async def _written(self, at: Address, record: Record, expected: dict[str, str], target: Layout) -> int:
        subject = subjects.said(at) if record.side == "said" else subjects.done(at)
        seq = await publish(
            self._connection,
            subjects.arriving(subject, target.partition(at)),
            record.body,
            headers={**origin_headers(record), **expected, "Nats-Msg-Id": fresh_id()},
            deadline_seconds=PATIENCE_SECONDS,
        )
        self._done += 1
        return seq

    async def _insisted(self, step: Callable[[], Awaitable[T]]) -> T:
        """Take a *step* that is harmless where it was taken before, again and again while the server is away."""
        since, done = time.monotonic(), self._done

        def goes_on(error: Exception) -> bool:
            nonlocal since, done
            if done != self._done:
                since, done = time.monotonic(), self._done
            return _passes(error) and time.monotonic() - since < INSIST_SECONDS

        async for attempt in stamina.retry_context(
            on=goes_on, attempts=None, timeout=None, wait_initial=WAIT_SECONDS, wait_max=WAIT_SECONDS_MAX
        ):
            with attempt:
                found = await step()
        return found

    async def _addresses(self, shard: int, partition: int) -> list[Address]:
        found = await self._log_of(partition).addresses()
        return [at for at in found if shard_of(at) == shard]


def _passes(error: Exception) -> bool:
    return isinstance(error, LogUnavailable | Busy) and not isinstance(error, NotPermitted)


def _is_beginning(there: Sequence[Record], records: Sequence[Record]) -> bool:
    """Tell whether *there* are the first of *records*."""
    pairs = list(zip(there, records, strict=False))
    return len(there) <= len(records) and all((a.side, a.body) == (b.side, b.body) for a, b in pairs)
