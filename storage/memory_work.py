"""Work in memory: wake-ups and all that workers, sweepers and services tell each other, within one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from protocol.errors import Unavailable
from protocol.ids import Address
from protocol.subjects import Actor, Lane, Verb

from .list_ports import Document
from .memory import MemoryLog
from .ports import EventLog
from .sweep_ports import LogChange, SweepMark
from .work_ports import BegunWork, DeadLetter, Request, Slot, StoredLetter


@dataclass
class MemorySlot:
    """`Slot` of `MemoryWakes`."""

    at: Address
    headers: Mapping[str, str]
    owner: MemoryWakes
    actor: Actor
    lane: Lane = "normal"
    deliveries: int = 1
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    makes_room: asyncio.Event = field(default_factory=asyncio.Event)
    body: bytes = b""

    @property
    def place(self) -> tuple[Actor, Lane, Address]:
        """Return the place that it fills."""
        return (self.actor, self.lane, self.at)

    async def done(self) -> None:
        """See `Slot.done`."""
        if self.owner.holds(self):
            del self.owner.filled[self.place]
        self.ended.set()
        self.makes_room.set()

    async def later(self, seconds: float) -> None:
        """See `Slot.later`."""
        loop = asyncio.get_running_loop()
        again = MemorySlot(self.at, self.headers, self.owner, self.actor, self.lane, self.deliveries + 1)
        again.body = self.body
        if self.owner.holds(self):
            self.owner.filled[self.place] = again
            loop.call_later(seconds, self.owner.queue(self.actor, self.lane).put_nowait, again)
        self.ended.set()
        self.makes_room.set()

    def release_credit(self) -> None:
        """See `Slot.release_credit`."""
        self.makes_room.set()

    async def hold(self) -> None:
        """See `Slot.hold`."""


@dataclass
class MemoryWakes:
    """`Wakes` of one process."""

    filled: dict[tuple[Actor, Lane, Address], MemorySlot] = field(default_factory=dict)
    queues: dict[tuple[Actor, Lane], asyncio.Queue[MemorySlot]] = field(default_factory=dict)
    _pauses: int = 0
    _goes_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def wake(
        self, actor: Actor, at: Address, *, body: bytes = b"", headers: Mapping[str, str], lane: Lane = "normal"
    ) -> bool:
        """See `Wakes.wake`."""
        if (actor, lane, at) in self.filled:
            return False
        slot = MemorySlot(at, dict(headers), self, actor, lane, body=body)
        self.filled[slot.place] = slot
        self.queue(actor, lane).put_nowait(slot)
        return True

    def holds(self, slot: MemorySlot) -> bool:
        """Tell whether *slot* fills its place: where that was emptied within a pause, another may by now."""
        return self.filled.get(slot.place) is slot

    async def partitions(self) -> int:
        """See `Wakes.partitions`."""
        return 1

    async def slots(
        self, actor: Actor, *, credits: int, lane: Lane = "normal", partition: int = 0
    ) -> AsyncIterator[Slot]:
        """See `Wakes.slots`."""
        unfinished: list[MemorySlot] = []
        while True:
            unfinished = [slot for slot in unfinished if not slot.makes_room.is_set()]
            if len(unfinished) >= credits:
                waits = [asyncio.create_task(slot.makes_room.wait()) for slot in unfinished]
                try:
                    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in waits:
                        one.cancel()
                continue
            slot = await self.queue(actor, lane).get()
            while self._pauses:
                await self._goes_on.wait()
            if self.holds(slot):
                unfinished.append(slot)
                yield slot

    async def untaken(self, actor: Actor) -> int:
        """See `Wakes.untaken`."""
        return self.queue(actor, "normal").qsize()

    def queue(self, actor: Actor, lane: Lane) -> asyncio.Queue[MemorySlot]:
        """Return the waiting slots of *actor* in a *lane*."""
        return self.queues.setdefault((actor, lane), asyncio.Queue())

    def pause(self, more: int) -> None:
        """Give nobody a slot until as many pauses ended as began: *more* is 1 at the beginning, -1 at the end."""
        self._pauses += more
        if self._pauses:
            self._goes_on.clear()
        else:
            self._goes_on.set()

    def forget(self, actor: Actor, at: Address, lane: Lane) -> int:
        """Empty the slot; return how many there were."""
        if (actor, lane, at) not in self.filled:
            return 0
        del self.filled[actor, lane, at]
        queue = self.queue(actor, lane)
        for slot in [queue.get_nowait() for _ in range(queue.qsize())]:
            if slot.at != at:
                queue.put_nowait(slot)
        return 1


class MemoryDeadLetters:
    """`DeadLetters` of one process."""

    def __init__(self) -> None:
        self._letters: dict[tuple[Actor, Address], StoredLetter] = {}
        self._revision = 0

    async def put(self, letter: DeadLetter, *, headers: Mapping[str, str]) -> None:
        """See `DeadLetters.put`."""
        self._revision += 1
        trace = headers.get("traceparent", "")
        stored = StoredLetter(letter=letter, revision=self._revision, time="", trace=trace)
        self._letters[letter.actor, letter.at] = stored

    async def all(self) -> AsyncIterator[StoredLetter]:
        """See `DeadLetters.all`."""
        for stored in sorted(self._letters.values(), key=lambda one: one.revision):
            yield stored

    async def drop(self, stored: StoredLetter) -> None:
        """See `DeadLetters.drop`."""
        place = stored.letter.actor, stored.letter.at
        if self._letters.get(place) == stored:
            del self._letters[place]

    def forget(self, actor: Actor, at: Address) -> int:
        """Forget the letter of *actor* for *at*; return how many there were."""
        return int(self._letters.pop((actor, at), None) is not None)


class MemoryInProgress:
    """`InProgress` of one process."""

    def __init__(self) -> None:
        self._begun: dict[tuple[Actor, Address], BegunWork] = {}

    async def find(self, actor: Actor, at: Address) -> BegunWork | None:
        """See `InProgress.find`."""
        return self._begun.get((actor, at))

    async def put(self, actor: Actor, at: Address, begun: BegunWork) -> None:
        """See `InProgress.put`."""
        self._begun[actor, at] = begun

    async def wipe(self, actor: Actor, at: Address) -> None:
        """See `InProgress.wipe`."""
        self._begun.pop((actor, at), None)


class MemoryLogChanges:
    """`LogChanges` of a `MemoryLog`."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._mark, self._revision = SweepMark(), 0

    async def partitions(self) -> int:
        """See `LogChanges.partitions`."""
        return 1

    async def after(self, seq: int, *, upto: int) -> AsyncIterator[LogChange]:
        """See `LogChanges.after`."""
        everything = self._log.everything()
        newest = {(at, record.side): record.seq for at, record in everything}
        for at, record in everything:
            if seq < record.seq <= upto and (seq or newest[at, record.side] == record.seq):
                yield LogChange(seq=record.seq, at=at)

    async def tail(self, seq: int, *, most: int, partition: int = 0) -> list[LogChange]:
        """See `LogChanges.tail`."""
        return [LogChange(seq=one.seq, at=at) for at, one in self._log.everything() if one.seq > seq][:most]

    async def mark(self, partition: int = 0) -> tuple[SweepMark, int]:
        """See `LogChanges.mark`."""
        return self._mark, self._revision

    async def put_mark(self, mark: SweepMark, *, expected: int, partition: int = 0) -> int:
        """See `LogChanges.put_mark`."""
        if expected != self._revision:
            return 0
        self._mark, self._revision = mark, self._revision + 1
        return self._revision


class MemoryKeptList:
    """`KeptList` of one process."""

    def __init__(self) -> None:
        self._documents: dict[str, Document] = {}
        self._revision = 0

    async def read(self, *, after: int = 0) -> list[Document]:
        """See `KeptList.read`."""
        newer = [one for one in self._documents.values() if one.revision > after]
        return sorted(newer, key=lambda one: one.revision)

    async def find(self, name: str) -> Document | None:
        """See `KeptList.find`."""
        return self._documents.get(name)

    async def put(self, name: str, body: bytes, *, expected: int) -> int:
        """See `KeptList.put`."""
        there = self._documents.get(name)
        if (there.revision if there else 0) != expected:
            return 0
        self._revision += 1
        self._documents[name] = Document(name=name, body=body, revision=self._revision)
        return self._revision

    async def drop(self, name: str) -> None:
        """See `KeptList.drop`."""
        self._documents.pop(name, None)


class MemoryStuckSlots:
    """`StuckSlots` of one process, which loses sight of none."""

    async def free(self) -> int:
        """See `StuckSlots.free`."""
        return 0


@dataclass(kw_only=True)
class Saying:
    """What somebody said to a `MemoryHearing`, and waits to be confirmed."""

    at: Address
    body: bytes
    message_id: str
    stored: asyncio.Future[int] = field(default_factory=asyncio.Future)


class MemoryHearing:
    """`Hearing` of one process, whose agents call `say`; *stored* keeps what is heard."""

    def __init__(self, stored: EventLog) -> None:
        self._stored = stored
        self._said: asyncio.Queue[Saying] = asyncio.Queue()

    async def say(self, at: Address, body: bytes, *, message_id: str) -> int:
        """Return the sequence of what is said; none comes while it cannot be stored, and it is to be said again."""
        saying = Saying(at=at, body=body, message_id=message_id)
        self._said.put_nowait(saying)
        return await saying.stored

    async def run(self) -> None:
        """See `Hearing.run`."""
        while True:
            one = await self._said.get()
            with suppress(Unavailable):
                seq = await self._stored.say(one.at, one.body, message_id=one.message_id, headers={})
                if not one.stored.done():
                    one.stored.set_result(seq)


class MemoryAnnouncer:
    """`Announcer` of one process: *heard* holds whatever was told, by name."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Address, bytes, Mapping[str, str]]] = []

    async def ready(self, at: Address, body: bytes, *, headers: Mapping[str, str]) -> None:
        """See `Announcer.ready`."""
        self.heard.append(("ready", at, body, headers))

    async def call(self, at: Address, hook: str, body: bytes, *, headers: Mapping[str, str]) -> None:
        """See `Announcer.call`."""
        self.heard.append((hook, at, body, headers))


@dataclass(kw_only=True)
class MemoryRequest:
    """`Request` of `MemoryRequests`."""

    verb: Verb
    at: Address
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    answered: asyncio.Future[list[bytes]] = field(default_factory=asyncio.Future)

    async def working(self) -> None:
        """See `Request.working`."""

    async def answer(self, frames: Sequence[bytes]) -> None:
        """See `Request.answer`."""
        if not self.answered.done():
            self.answered.set_result(list(frames))


class MemoryRequests:
    """`Requests` of one process."""

    def __init__(self) -> None:
        self._asked: asyncio.Queue[MemoryRequest] = asyncio.Queue()

    async def ask(self, verb: Verb, at: Address, body: bytes) -> list[bytes]:
        """Return the frames of the answer, whoever gives it."""
        request = MemoryRequest(verb=verb, at=at, body=body)
        self._asked.put_nowait(request)
        return await request.answered

    async def asked(self) -> AsyncIterator[Request]:
        """See `Requests.asked`."""
        while True:
            yield await self._asked.get()
