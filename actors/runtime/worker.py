"""Worker: one actor's shell. Take a slot, load, decide, act, append, free the slot, look again.

The slot keeps other workers of the same actor away while it is held; the expected sequence of the append
keeps a zombie's late result out; looking again after the slot is free makes a lost wake-up impossible.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import msgspec

from actors.core.flow import next_actor
from actors.core.pressure import pressure
from actors.core.state import State
from protocol.errors import Contended, JettisonError, LogUnavailable, NotProvisioned, Unavailable
from protocol.facts import DoneFact, HookFired
from protocol.ids import Address
from protocol.limits import APPEND_ATTEMPTS_MAX
from protocol.outages import Outage
from protocol.service_messages import Ready
from protocol.subjects import LANES, Actor, Lane
from protocol.tracing import traced
from storage.ports import Announcer, DeadLetters, Slot, Wakes

from .conversations import Conversations
from .delivery import Delivery, carried, delivery_span, give_back, held
from .dispatch import Steps, given_up, tell
from .quarantine import Quarantine
from .registry import asks_model
from .retries import (
    ATTEMPTS_MAX,
    FAULTS_MAX,
    RETRY_SECONDS,
    Failures,
    is_passed_by,
    letter_of,
    pause,
    pause_after,
)
from .step_span import step_span

log = logging.getLogger("jettison.worker")

CREDITS = {"normal": 8, "priority": 4}
"""Slots of each lane that one worker holds at once: enough to hide waiting for S3, few enough to share the load.
What an agent waits for has its own, so that no flood of background work takes them all."""

GRACE_SECONDS = 5.0
"""How long a worker that is told to stop finishes what it holds; below the ten seconds after which Docker kills."""


@dataclass(kw_only=True)
class Worker:
    """One program of one actor; run as many as needed."""

    actor: Actor
    wakes: Wakes
    conversations: Conversations
    steps: Steps
    dead_letters: DeadLetters
    quarantine: Quarantine
    announcer: Announcer
    name: str = ""
    """Written into dead letters, for people."""
    grace_seconds: float = GRACE_SECONDS
    _failures: Failures = field(default_factory=Failures)
    _outages: dict[str, Outage] = field(default_factory=dict)
    _unbegun: dict[int, Slot] = field(default_factory=dict)
    _places: WeakValueDictionary[Address, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    async def run(self) -> None:
        """Work until cancelled; then take nothing new, and finish or give back what was taken.

        Raises what makes all work impossible. A second cancellation ends the grace.
        """
        stopping = asyncio.Event()
        serving = asyncio.ensure_future(self._serve(stopping))
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
            pulls = [lanes.create_task(self._pull(lane, deliveries), name=f"{self.actor} {lane}") for lane in LANES]
            lanes.create_task(_cancel_after(stopping, pulls))

    async def _pull(self, lane: Lane, deliveries: asyncio.TaskGroup) -> None:
        async for slot in self.wakes.slots(self.actor, credits=CREDITS[lane], lane=lane):
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
            slot.make_room()
        return place

    async def _work_and_free(self, delivery: Delivery) -> None:
        slot = delivery.slot
        await self.quarantine.begin(delivery)
        async for state in self.work(slot.at, make_room=slot.make_room):
            delivery.state = state
            if next_actor(state) == self.actor and asks_model(self.actor):
                await self.quarantine.ask(delivery, state)
        assert delivery.state is not None
        await self._hand_over(slot, delivery.state)
        await self.quarantine.end(delivery)
        delivery.is_ending = True
        await slot.done()
        delivery.is_free = True
        await self._look_again(slot.at, delivery.state)

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
            log.error(
                "%s of %s failed: %s",
                self.actor,
                slot.at,
                error if isinstance(error, JettisonError) else type(error).__name__,
            )
            return await self._put_back(delivery, 0.0)
        await self.quarantine.end(delivery)
        attempts = self._failures.add(slot.at)
        if isinstance(error, JettisonError):
            log.error("%s of %s failed (%d of %d): %s", self.actor, slot.at, attempts, ATTEMPTS_MAX, error)
        else:
            log.exception("%s of %s failed (%d of %d)", self.actor, slot.at, attempts, ATTEMPTS_MAX)
        if attempts < ATTEMPTS_MAX:
            return await give_back(slot, pause(attempts))
        letter = letter_of(slot, error, actor=self.actor, attempts=attempts, state=delivery.state, worker=self.name)
        try:
            # first the letter, then the slot: a crash in between writes it twice, and loses nothing
            await self.dead_letters.put(letter, headers=carried(slot))
            await slot.done()
            log.error("%s of %s is given up; see `jettison dlq show %s`", self.actor, slot.at, slot.at)
        except JettisonError as unkept:
            log.error("the dead letter of %s cannot be kept: %s", slot.at, unkept)
            await give_back(slot, RETRY_SECONDS[-1])

    async def work(self, at: Address, *, make_room: Callable[[], None] = lambda: None) -> AsyncIterator[State]:
        """Step until this actor has nothing left to do; yield the state before each step, and the last one."""
        state = await self.conversations.load(at)
        yield state
        for _ in range(APPEND_ATTEMPTS_MAX * 64):
            if next_actor(state) != self.actor:
                return
            after = await self._one_step(at, state, make_room)
            if after is None:
                await asyncio.sleep(random.uniform(0, 0.01))
                after = await self.conversations.load(at)
            state = after
            yield state
        raise Contended(f"{self.actor} of {at}: other writers were faster, too often", address=str(at))

    async def _one_step(self, at: Address, state: State, make_room: Callable[[], None]) -> State | None:
        """Decide and commit once; return the state with it, or None if another writer came first."""
        with step_span(self.actor, at, state) as recorded:
            headers = traced()
            try:
                step = await self.steps.step(self.actor, at, state, rules=self.conversations.rules, make_room=make_room)
                await self._call_hooks(at, step.facts, headers)
                landed = await self.conversations.commit(at, state, step.facts, headers=headers, adopt=step.adopt)
            except Exception as error:
                if not is_passed_by(error) or self._failures.of(at) + 1 < FAULTS_MAX:
                    raise
                log.exception("%s of %s gives up", self.actor, at)
                try:
                    step = given_up(self.actor, state, error)
                except Exception:
                    raise error from None  # there is nothing to pass by: the first reason is the one to tell
                landed = await self.conversations.commit(at, state, step.facts, headers=headers, adopt=step.adopt)
            after = await self.conversations.load(at) if landed else None
            if landed:
                tell(at, step)
            recorded.decided(step, after)
        return after

    async def _call_hooks(self, at: Address, facts: tuple[DoneFact, ...], headers: dict[str, str]) -> None:
        """Publish what hooks of the policy call. It comes before the commit: at least once, and never not at all."""
        for fact in facts:
            if isinstance(fact, HookFired) and fact.action == "call":
                body = msgspec.json.encode({"hook": fact.hook, "number": fact.number, "name": fact.detail})
                await self.announcer.call(at, fact.detail, body, headers=headers)

    async def _hand_over(self, slot: Slot, state: State) -> None:
        """Wake who comes next, or announce that the state is ready."""
        follower = next_actor(state)
        headers = traced()
        if follower is not None and follower != self.actor:
            lane: Lane = "normal" if asks_model(follower) else slot.lane
            await self.wakes.wake(follower, slot.at, body=_reference(state), headers=headers, lane=lane)
        elif follower is None:
            await self._announce(slot.at, state, headers)

    async def _announce(self, at: Address, state: State, headers: Mapping[str, str]) -> None:
        """Say that *state* is ready; who did not hear it asks for the context anyway."""
        if state.policy is None:
            return
        ready = Ready(
            version=state.version,
            upto=state.messages,
            tokens=state.live_tokens,
            pressure=round(pressure(state), 4),
        )
        try:
            await self.announcer.ready(at, msgspec.json.encode(ready), headers=headers)
        except LogUnavailable as error:
            log.info("ready of %s was not announced: %s", at, error)

    async def _look_again(self, at: Address, seen: State) -> None:
        """Wake whoever is needed for what came between our last look and the slot's release.

        The slot is free by now and will not come again, so bad luck is waited out here.
        """
        for seconds in RETRY_SECONDS:
            try:
                return await self._wake_follower(at, seen)
            except Unavailable as error:
                log.info("%s of %s looks again: %s", self.actor, at, error)
                await asyncio.sleep(seconds)
        await self._wake_follower(at, seen)

    async def _wake_follower(self, at: Address, seen: State) -> None:
        state = await self.conversations.load(at)
        follower = next_actor(state)
        headers = traced()
        if follower is not None:
            await self.wakes.wake(follower, at, body=_reference(state), headers=headers)
        elif state.seq != seen.seq:
            # its wake-up found the slot filled, so nobody else will say that it is ready
            await self._announce(at, state, headers)


def _reference(state: State) -> bytes:
    """Return the body of a wake-up: the state's place in the log, not its content."""
    return msgspec.json.encode(
        {
            "version": state.version,
            "hash": state.hash.hex(),
            "stage": state.episode.stage if state.episode else "",
            "boundary": state.episode.boundary if state.episode else 0,
            "tokens": state.live_tokens,
        }
    )


async def _cancel_after(stopping: asyncio.Event, pulls: Iterable[asyncio.Task[None]]) -> None:
    await stopping.wait()
    for pull in pulls:
        pull.cancel()
