"""Shutdown: what is under way is finished within the grace or handed back, and the next worker goes on at once."""

import asyncio
import dataclasses
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, cast

import pytest

from actors.core.seal import Step
from actors.core.state import State
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from actors.runtime.stepping import Effects
from actors.runtime.worker import Worker
from protocol import subjects
from protocol.client import Client
from protocol.errors import NotProvisioned
from protocol.ids import Address, address, fresh_id
from protocol.subjects import LANES, Actor, Lane
from storage.jetstream_snapshots import JetStreamSnapshots
from storage.memory_work import MemorySlot, MemoryWakes
from storage.streams import consumer, provision
from storage.wakes import JetStreamWakes
from storage.work_ports import Slot
from tests.conftest import settled


class SlowEffects(Effects):
    """The steps as they are, each after a while."""

    seconds = 0.4
    begun: Address | None = None

    async def step(self, actor: Actor, at: Address, state: State, **keywords: Any) -> Step:
        self.begun = at
        await asyncio.sleep(self.seconds)  # slow
        return await super().step(actor, at, state, **keywords)


class VerySlowEffects(SlowEffects):
    seconds = 3600.0


def slow(running: Runtime, kind: type[SlowEffects], *, grace_seconds: float) -> Worker:
    worker = dataclasses.replace(running, effects=kind(artifacts=running.artifacts)).worker("spill")
    return dataclasses.replace(worker, grace_seconds=grace_seconds)


@asynccontextmanager
async def at_it(worker: Worker) -> AsyncIterator[asyncio.Task[None]]:
    """Run *worker*, and leave nothing of it behind, whatever the test does."""
    task = asyncio.create_task(worker.run())
    try:
        yield task
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=0.2)


async def begun(worker: Worker, at: Address) -> None:
    """Wait until *worker* is at a step of *at*."""
    async with asyncio.timeout(180):
        while cast(SlowEffects, worker.effects).begun != at:
            await asyncio.sleep(0.01)


async def ended(task: asyncio.Task[None]) -> float:
    """Cancel *task*; return the seconds until it had ended."""
    started = time.monotonic()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    return time.monotonic() - started


async def stopped_taking(worker: Worker) -> None:
    """Wait until *worker*, just cancelled and the only one of its actor, takes from no lane any more."""
    names = {f"{worker.actor} {lane}" for lane in LANES}
    pulls = [task for task in asyncio.all_tasks() if task.get_name() in names]
    assert len(pulls) == len(LANES)
    _, taking = await asyncio.wait(pulls, timeout=180)
    assert not taking


async def next_slot(running: Runtime, at: Address) -> Slot:
    """Take the slot of *at*, and give others back."""
    slots = cast("AsyncGenerator[Slot, None]", running.wakes.slots("spill", credits=64))
    async with asyncio.timeout(180), aclosing(slots):
        async for slot in slots:
            if slot.at == at:
                return slot
            await slot.done()
    raise AssertionError("slots end by an error only")


async def test_what_is_under_way_is_finished_within_the_grace(running: Runtime, client: Client) -> None:
    talk = await client.open(f"finished-{fresh_id()}")
    worker = slow(running, SlowEffects, grace_seconds=180.0)
    async with at_it(worker) as task:
        await begun(worker, talk.at)
        # the grace is the longest that it may take
        assert await ended(task) < worker.grace_seconds
        state = await running.conversations.load(talk.at)
        assert state.version == 1
        assert await running.wakes.wake("spill", talk.at, headers={}) is True, "its slot is free"
        await (await next_slot(running, talk.at)).done()


async def test_nothing_new_is_taken_in_the_grace(running: Runtime, client: Client) -> None:
    talk = await client.open(f"first-{fresh_id()}")
    worker = slow(running, SlowEffects, grace_seconds=180.0)
    async with at_it(worker) as task:
        await begun(worker, talk.at)
        task.cancel()
        await stopped_taking(worker)
        late = await client.open(f"late-{fresh_id()}")
        await asyncio.gather(task, return_exceptions=True)
        assert (await running.conversations.load(talk.at)).version == 1
        slot = await next_slot(running, late.at)
        assert slot.deliveries == 1
        await slot.done()


async def test_what_takes_longer_is_handed_back_and_goes_on_at_once(running: Runtime, client: Client) -> None:
    talk = await client.open(f"longer-{fresh_id()}")
    worker = slow(running, VerySlowEffects, grace_seconds=0.2)
    # what was not handed back comes after the ack wait, and that is too late here
    for lane in LANES:
        wanted = consumer("spill", lane).evolve(ack_wait=3600.0)
        await running.connection.jetstream().add_consumer(subjects.WAKE_STREAM, wanted)
    try:
        async with at_it(worker) as task:
            await begun(worker, talk.at)
            assert await ended(task) >= 0.2
            next_one = asyncio.create_task(running.worker("spill").run())
            await settled(running, talk.at)
            await ended(next_one)
    finally:
        await provision(running.connection)


async def test_a_second_signal_ends_the_grace(running: Runtime, client: Client) -> None:
    talk = await client.open(f"twice-{fresh_id()}")
    worker = slow(running, VerySlowEffects, grace_seconds=180.0)
    async with at_it(worker) as task:
        await begun(worker, talk.at)
        task.cancel()
        await asyncio.sleep(0.1)  # nothing
        assert not task.done()
        assert await ended(task) < worker.grace_seconds
        slot = await next_slot(running, talk.at)
        assert slot.deliveries == 2
        await slot.done()


@dataclasses.dataclass
class Flood(MemoryWakes):
    """A slot at every turn of the loop, so that some are taken in the moment when everything ends."""

    given: list[MemorySlot] = dataclasses.field(default_factory=list)

    async def slots(
        self, actor: Actor, *, credits: int, lane: Lane = "normal", partition: int = 0
    ) -> AsyncIterator[Slot]:
        while True:
            self.given.append(MemorySlot(address(f"flood-{len(self.given)}"), {}, self, actor, lane))
            yield self.given[-1]
            await asyncio.sleep(0)


class Gone(Conversations):
    """Conversations of a server that lost its streams."""

    async def load(self, at: Address, *, upto: int = 0) -> State:
        raise NotProvisioned("the streams do not exist on this server; run `jettison provision`")


async def test_a_turn_that_had_not_begun_when_all_ended_is_handed_back(running: Runtime) -> None:
    wakes = Flood()
    gone = Gone(log=running.log, snapshots=JetStreamSnapshots(running.connection), writer="test")
    worker = dataclasses.replace(running.worker("spill"), wakes=wakes, conversations=gone)
    with pytest.raises(BaseExceptionGroup) as failed:
        await worker.run()
    assert failed.group_contains(NotProvisioned, match="jettison provision", depth=None)
    assert failed.value.split(NotProvisioned)[1] is None, "nothing else, so that the process ends with one sentence"
    assert [slot.at for slot in wakes.given if not slot.ended.is_set()] == []


class Stalling(Conversations):
    """Conversations whose second look at *stalls* does not end; what others left in the queue is looked at as ever."""

    stalls: Address
    loads = 0

    async def load(self, at: Address, *, upto: int = 0) -> State:
        if at == self.stalls:
            self.loads += 1
            if self.loads == 2:
                await asyncio.Event().wait()
        return await super().load(at, upto=upto)


async def test_who_is_stopped_between_freeing_a_slot_and_looking_again_fills_it_again(running: Runtime) -> None:
    at = address(f"between-{fresh_id()}")
    stalling = Stalling(
        log=running.log,
        snapshots=JetStreamSnapshots(running.connection),
        writer="test",
    )
    stalling.stalls = at
    worker = dataclasses.replace(running, conversations=stalling).worker("spill")
    async with at_it(dataclasses.replace(worker, grace_seconds=0.1)) as task:
        await running.wakes.wake("spill", address(f"stranger-{fresh_id()}"), headers={})
        await running.wakes.wake("spill", at, headers={})
        async with asyncio.timeout(180):
            while stalling.loads < 2:
                await asyncio.sleep(0.01)
        await ended(task)
        slot = await next_slot(running, at)
        assert slot.deliveries == 1
        await slot.done()


class Swallowing(JetStreamWakes):
    """Queues of a server whose answer comes just as nobody waits for it any more."""

    def __init__(self, running: Runtime) -> None:
        super().__init__(running.connection)
        self.asked = asyncio.Event()

    async def _check(self, *_: object) -> None:
        with suppress(asyncio.CancelledError):  # as `asyncio.wait_for` does
            self.asked.set()
            await asyncio.sleep(3600)


async def test_a_worker_that_is_stopped_as_a_server_answers_stops(running: Runtime) -> None:
    wakes = Swallowing(running)
    worker = dataclasses.replace(running.worker("spill"), wakes=wakes)
    async with at_it(worker) as task:
        async with asyncio.timeout(180):
            await wakes.asked.wait()
        task.cancel()
        await asyncio.wait({task}, timeout=180)
        assert task.done()
