"""Worker: one actor's shell. Take a slot, load, decide, act, append, free the slot, look again.

The slot keeps other workers of the same actor away while it is held; the expected sequence of the append
keeps a zombie's late result out; looking again after the slot is free makes a lost wake-up impossible.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from nats.aio.client import Client as NatsConnection
from opentelemetry.context import Context

from protocol import semconv, subjects
from protocol.ask import Ready
from protocol.errors import Contended, Damaged, JettisonError, LogUnavailable, Unavailable
from protocol.ids import Address
from protocol.limits import APPEND_ATTEMPTS_MAX
from protocol.subjects import Actor
from protocol.tracing import extract, inject, link_to, span
from storage.ports import Slot, Wakes
from storage.streams import ACK_WAIT_SECONDS

from .conversations import Conversations
from .rules.budget import pressure
from .rules.flow import next_actor
from .rules.state import State
from .steps import Steps, given_up
from .stepspan import step_span

log = logging.getLogger("jettison.worker")

CREDITS = 8
"""Slots that one worker holds at once: enough to hide waiting for S3, few enough to share the load."""

RETRY_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0, 15.0)
"""Pauses of a conversation whose step met bad luck; the last one repeats."""

DAMAGED_SECONDS = 60.0
"""Pause of a conversation whose log or artifacts are damaged: nothing is written until a person looked."""

FAULTS_MAX = 3
"""Deliveries of a slot whose step fails by a fault of ours, before the stage is recorded as failed."""


@dataclass(kw_only=True)
class Worker:
    """One program of one actor; run as many as needed."""

    actor: Actor
    wakes: Wakes
    conversations: Conversations
    steps: Steps
    announcer: NatsConnection | None = None

    async def run(self) -> None:
        """Work until cancelled; then give the taken slots back. Raises what makes all work impossible."""
        async with asyncio.TaskGroup() as group:
            async for slot in self.wakes.slots(self.actor, credits=CREDITS):
                group.create_task(self._turn(slot), name=f"{self.actor} of {slot.at}")

    async def _turn(self, slot: Slot) -> None:
        """Do what one slot asks for, and free it; whatever happens, the slot is not lost."""
        # a first delivery belongs to the agent's own trace; a later one only refers to it
        first = slot.deliveries <= 1
        parent = extract(slot.headers) if first else Context()
        links = () if first else link_to(slot.headers)
        attributes = {
            semconv.MESSAGING_SYSTEM: "nats",
            semconv.MESSAGING_OPERATION_NAME: "process",
            semconv.GEN_AI_CONVERSATION_ID: slot.at.conversation,
            semconv.NATS_NUM_DELIVERED: slot.deliveries,
        }
        name = f"process {semconv.wake_template(self.actor)}"
        try:
            with span(name, kind="consumer", parent=parent, links=links, attributes=attributes):
                async with _held(slot):
                    state = await self._work(slot)
                    await self._hand_over(slot.at, state)
                await slot.done()
                await self._look_again(slot.at)
        except asyncio.CancelledError:
            await asyncio.shield(_give_back(slot, 0.0))
            raise
        except Damaged as error:
            log.error("%s of %s stops: %s", self.actor, slot.at, error)
            await _give_back(slot, DAMAGED_SECONDS)
        except Unavailable as error:
            log.warning("%s of %s waits: %s", self.actor, slot.at, error)
            await _give_back(slot, _pause(slot.deliveries))
        except Exception as error:
            log.exception("%s of %s failed: %s", self.actor, slot.at, type(error).__name__)
            await _give_back(slot, _pause(slot.deliveries))

    async def _work(self, slot: Slot) -> State:
        """Step until this actor has nothing left to do."""
        at = slot.at
        state = await self.conversations.load(at)
        for _ in range(APPEND_ATTEMPTS_MAX * 64):
            if next_actor(state) != self.actor:
                return state
            after = await self._one_step(at, state, slot.deliveries)
            if after is None:
                await asyncio.sleep(random.uniform(0, 0.01))
                after = await self.conversations.load(at)
            state = after
        raise Contended(f"{self.actor} of {at}: other writers were faster, too often", address=str(at))

    async def _one_step(self, at: Address, state: State, deliveries: int) -> State | None:
        """Decide and commit once; return the state with it, or none if another writer came first."""
        with step_span(self.actor, at, state) as recorded:
            try:
                step = await self.steps.step(self.actor, at, state, deliveries=deliveries)
            except JettisonError:
                raise
            except Exception as error:
                if deliveries < FAULTS_MAX:
                    raise
                log.exception("%s of %s gives up", self.actor, at)
                step = given_up(self.actor, state, error)
            headers: dict[str, str] = {}
            inject(headers)
            landed = await self.conversations.commit(at, state, step.facts, headers=headers, adopt=step.adopt)
            after = await self.conversations.load(at) if landed else None
            recorded.decided(step, after)
        return after

    async def _hand_over(self, at: Address, state: State) -> None:
        """Wake who comes next, or announce that the state is ready."""
        follower = next_actor(state)
        headers: dict[str, str] = {}
        inject(headers)
        if follower is not None and follower != self.actor:
            await self.wakes.wake(follower, at, body=_reference(state), headers=headers)
        elif follower is None and self.announcer is not None and state.policy is not None:
            ready = Ready(
                version=state.version,
                upto=state.messages,
                tokens=state.live_tokens,
                pressure=round(pressure(state), 4),
            )
            try:
                await self.announcer.publish(subjects.ready(at), msgspec.json.encode(ready), headers=headers)
            except Exception as error:
                log.warning("ready of %s was not announced: %s", at, type(error).__name__)

    async def _look_again(self, at: Address) -> None:
        """Wake whoever is needed for what came between our last look and the slot's release.

        The slot is free by now and will not come again, so bad luck is waited out here.
        """
        for seconds in RETRY_SECONDS:
            try:
                return await self._wake_follower(at)
            except Unavailable as error:
                log.warning("%s of %s looks again: %s", self.actor, at, error)
                await asyncio.sleep(seconds)
        await self._wake_follower(at)

    async def _wake_follower(self, at: Address) -> None:
        state = await self.conversations.load(at)
        follower = next_actor(state)
        if follower is not None:
            headers: dict[str, str] = {}
            inject(headers)
            await self.wakes.wake(follower, at, body=_reference(state), headers=headers)


def _reference(state: State) -> bytes:
    """Return what a wake-up says of the state: where it is, not what it holds."""
    return msgspec.json.encode(
        {
            "version": state.version,
            "hash": state.hash.hex(),
            "stage": state.episode.stage if state.episode else "",
            "boundary": state.episode.boundary if state.episode else 0,
            "tokens": state.live_tokens,
        }
    )


def _pause(deliveries: int) -> float:
    seconds = RETRY_SECONDS[min(deliveries, len(RETRY_SECONDS)) - 1]
    return seconds * random.uniform(0.8, 1.2)


async def _give_back(slot: Slot, seconds: float) -> None:
    try:
        await slot.later(seconds)
    except LogUnavailable as error:
        # not lost: the server delivers it again when the ack wait is over
        log.warning("the slot of %s: %s", slot.at, error)


@asynccontextmanager
async def _held(slot: Slot) -> AsyncIterator[None]:
    """Tell the server every third of the ack wait that work goes on."""

    async def hold() -> None:
        while True:
            await asyncio.sleep(ACK_WAIT_SECONDS / 3)
            try:
                await slot.hold()
            except LogUnavailable as error:
                log.warning("the slot of %s: %s", slot.at, error)

    task = asyncio.create_task(hold())
    try:
        yield
    finally:
        task.cancel()
