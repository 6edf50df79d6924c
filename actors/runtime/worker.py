"""Worker: one actor's shell. Take a slot, work (`stepping.py`), hand over (`hand_over.py`), free the slot, look again.

The slot keeps other workers of the same actor away while it is held; the expected sequence of the append
keeps a zombie's late result out; looking again after the slot is free makes a lost wake-up impossible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from actors.core.flow import next_actor
from actors.telemetry.service_metrics import record_letter
from protocol.errors import JettisonError, LogUnavailable, NotProvisioned, Unavailable
from protocol.ids import Address
from protocol.outages import Outage
from protocol.subjects import LANES, Actor, Lane
from protocol.tasks import heed_cancellation
from storage.work_ports import Announcer, DeadLetters, Slot, Wakes

from .conversations import Conversations
from .delivery import Delivery, carried, delivery_span, give_back, held, said_seq
from .hand_over import HandOver
from .handed import handed_over
from .quarantine import Quarantine
from .registry import asks_model
from .retries import (
    ATTEMPTS_MAX,
    RETRY_SECONDS,
    Failures,
    letter_of,
    pause,
    pause_after,
)
from .stepping import Effects, Stepping
from .under_way import UnderWay

log = logging.getLogger("jettison.worker")

CREDITS = {"normal": 8, "priority": 4}
"""Slots of each lane that one worker holds at once: enough to hide waiting for S3, few enough to share the load.
What an agent waits for has its own, so that no flood of background work takes them all."""

CREDITS_MIN = 2
"""Of one of many partitions: one slot in work, and one behind it."""

PARTITIONS_SECONDS = 5.0
"""Between two looks whether there are more partitions."""

IDLE_SECONDS = 0.003
"""Where nothing is left to do, who waits for a view of this process goes first."""

GRACE_SECONDS = 5.0
"""How long a worker that is told to stop finishes what it holds; below the ten seconds after which Docker kills."""


@dataclass(kw_only=True)
class Worker:
    """One program of one actor; run as many as needed."""

    actor: Actor
    wakes: Wakes
    conversations: Conversations
    effects: Effects
    dead_letters: DeadLetters
    quarantine: Quarantine
    announcer: Announcer
    name: str = ""
    """Written into dead letters, for people."""
    grace_seconds: float = GRACE_SECONDS
    under_way: UnderWay = field(default_factory=UnderWay)
    stepping: Stepping = field(init=False)
    _hand_over: HandOver = field(init=False)
    _failures: Failures = field(default_factory=Failures)
    _outages: dict[str, Outage] = field(default_factory=dict)
    _unbegun: dict[int, Slot] = field(default_factory=dict)
    _places: WeakValueDictionary[Address, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def __post_init__(self) -> None:
        self.stepping = Stepping(
            actor=self.actor,
            conversations=self.conversations,
            effects=self.effects,
            announcer=self.announcer,
            failures=self._failures,
        )
        self._hand_over = HandOver(
            actor=self.actor, wakes=self.wakes, conversations=self.conversations, announcer=self.announcer
        )

    async def run(self) -> None:
        """Work until cancelled; then take nothing new, and finish or give back what was taken.

        Raises what makes all work impossible. A second cancellation ends the grace.
        """
        stopping = asyncio.Event()
        serving = asyncio.create_task(self._serve(stopping))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            stopping.set()
            await asyncio.wait({serving}, timeout=self.grace_seconds)
            raise
        finally:
            serving.cancel()
            # shielded: what is taken is given back, however often the end is asked for
            await asyncio.shield(self._ended(serving))

    async def _ended(self, serving: asyncio.Future[None]) -> None:
        await asyncio.gather(serving, return_exceptions=True)
        # a delivery that was cancelled before its first step never learned of its slot
        for slot in self._unbegun.values():
            await give_back(slot, 0.0)
        self._unbegun.clear()

    async def _serve(self, stopping: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as deliveries, asyncio.TaskGroup() as lanes:
            pulls = [lanes.create_task(self._pull_all(lane, deliveries), name=f"{self.actor} {lane}") for lane in LANES]
            lanes.create_task(_cancel_after(stopping, pulls))

    async def _pull_all(self, lane: Lane, deliveries: asyncio.TaskGroup) -> None:
        """Take slots of all partitions, also of those that are made meanwhile."""
        begun = 0
        async with asyncio.TaskGroup() as parts:
            while True:
                try:
                    count = await self.wakes.partitions()
                except LogUnavailable:
                    count = max(begun, 1)  # who pulls says what is wrong
                heed_cancellation()
                for partition in range(begun, count):
                    credits = max(CREDITS_MIN, -(-CREDITS[lane] // count))
                    parts.create_task(self._pull(lane, deliveries, partition=partition, credits=credits))
                begun = max(begun, count)
                await asyncio.sleep(PARTITIONS_SECONDS)

    async def _pull(self, lane: Lane, deliveries: asyncio.TaskGroup, *, partition: int, credits: int) -> None:
        async for slot in self.wakes.slots(self.actor, credits=credits, lane=lane, partition=partition):
            self._unbegun[id(slot)] = slot
            work = self._deliver(slot)
            try:
                deliveries.create_task(work, name=f"{self.actor} of {slot.at}")
            except RuntimeError:
                # another delivery has just ended everything; this slot is given back with those that had not begun
                return work.close()

    async def _deliver(self, slot: Slot) -> None:
        """Do what one slot asks for, and free it; whatever happens, the slot is not lost."""
        del self._unbegun[id(slot)]
        delivery = Delivery(slot)
        try:
            with delivery_span(self.actor, slot):
                async with held(slot), self._place(slot):
                    await self._work_and_free(delivery)
            self._failures.forget(slot.at)
            self.quarantine.know(slot.at)
            for outage in self._outages.values():
                outage.succeeded(who=slot.at)
        except asyncio.CancelledError:
            await asyncio.shield(self._put_back(delivery, 0.0))
            raise
        except NotProvisioned:
            await self._put_back(delivery, 0.0)
            raise
        except Unavailable as error:
            if error.fields.get("copying"):
                # who writes the copy wakes whom it needs when all of it is there
                await self.quarantine.end(delivery)
                return await slot.done()
            what = f"{self.actor} waits ({type(error).__name__})"
            outage = self._outages.setdefault(what, Outage(log.warning, what))
            outage.failed(f"{error} (for {slot.at})", who=slot.at)
            await self._put_back(delivery, pause_after(error, slot.deliveries))
        except Exception as error:
            await self._failed(delivery, error)

    def _place(self, slot: Slot) -> asyncio.Lock:
        """Return the conversation's lock: its slot may come again, or in the other lane, while a delivery works."""
        place = self._places.setdefault(slot.at, asyncio.Lock())
        if place.locked():
            slot.release_credit()
        return place

    async def _work_and_free(self, delivery: Delivery) -> None:
        slot = delivery.slot
        await self.quarantine.begin(delivery)
        async for state in self.stepping.work(
            slot.at, given=handed_over(slot.body), upto=said_seq(slot), release_credit=slot.release_credit
        ):
            delivery.state = state
            if next_actor(state) == self.actor and asks_model(self.actor):
                await self.quarantine.ask(delivery, state)
        assert delivery.state is not None
        if next_actor(delivery.state) is None and self.under_way.agents:
            await asyncio.sleep(IDLE_SECONDS)
        await self._hand_over.after(slot, delivery.state)
        await self.quarantine.end(delivery)
        delivery.is_ending = True
        await slot.done()
        delivery.is_free = True
        await self._hand_over.look_again(slot.at, delivery.state)

    async def _put_back(self, delivery: Delivery, seconds: float) -> None:
        """Let somebody go on: with the slot, and where it is free or may be, by filling it again."""
        # first: whoever gets the slot next must not take this delivery for one that nobody ended
        await self.quarantine.end(delivery)
        if not delivery.is_free:
            await give_back(delivery.slot, seconds)
        if not delivery.is_ending:
            return
        try:
            await self.wakes.wake(self.actor, delivery.slot.at, headers=carried(delivery.slot))
        except Unavailable as error:
            log.info("%s of %s was not woken again: %s", self.actor, delivery.slot.at, error)

    async def _failed(self, delivery: Delivery, error: Exception) -> None:
        """Count a failure that no waiting mends; after the last one the slot gives way to a dead letter."""
        slot = delivery.slot
        if delivery.is_free:
            # found on the second look; whoever takes the slot meets it again, and can give it up
            told = error if isinstance(error, JettisonError) else type(error).__name__
            log.error("%s of %s failed: %s", self.actor, slot.at, told)
            return await self._put_back(delivery, 0.0)
        await self.quarantine.end(delivery)
        attempts = self._failures.add(slot.at)
        if isinstance(error, JettisonError):
            log.error("%s of %s failed (%d of %d): %s", self.actor, slot.at, attempts, ATTEMPTS_MAX, error)
        else:
            log.exception("%s of %s failed (%d of %d)", self.actor, slot.at, attempts, ATTEMPTS_MAX)
        if attempts < ATTEMPTS_MAX:
            return await give_back(slot, pause(attempts))
        await self._give_up(delivery, error, attempts)

    async def _give_up(self, delivery: Delivery, error: Exception, attempts: int) -> None:
        """Put a dead letter in the place of a slot whose work failed in so many *attempts*."""
        slot = delivery.slot
        letter = letter_of(slot, error, actor=self.actor, attempts=attempts, state=delivery.state, worker=self.name)
        try:
            # first the letter, then the slot: a crash in between writes it twice, and loses nothing
            await self.dead_letters.put(letter, headers=carried(slot))
            record_letter(letter.actor, letter.reason)
            await slot.done()
            log.error("%s of %s is given up; see `jettison dlq show %s`", self.actor, slot.at, slot.at)
        except JettisonError as unkept:
            log.error("the dead letter of %s cannot be kept: %s", slot.at, unkept)
            await give_back(slot, RETRY_SECONDS[-1])


async def _cancel_after(stopping: asyncio.Event, pulls: Iterable[asyncio.Task[None]]) -> None:
    await stopping.wait()
    for pull in pulls:
        pull.cancel()
