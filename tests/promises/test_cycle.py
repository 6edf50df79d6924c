"""The worker's cycle: killed or stopped at any point, a step lands once and nobody waits for ever (9-12, 23)."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeGuard

import msgspec
import pytest
from nats.aio.msg import Msg

from actors.audit.replay import replay
from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol import codec, subjects
from protocol.client import Client
from protocol.errors import Unavailable
from protocol.facts import DoneFact, ToolOutputSpilled
from protocol.formats import messages
from protocol.ids import fresh_id
from protocol.subjects import LANES, Actor
from storage.streams import consumer
from storage.work_ports import Slot
from tests.conftest import SAMPLE, done_facts, layer, settled
from tests.promises.harness import environment
from tests.promises.victim import POINTS
from tests.runtime.test_outages import LOG, call_and_result
from tests.stack import ROOT, scripted_llm

ACK_WAIT_SECONDS = 1.0


@pytest.fixture(scope="module")
async def apart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Settings]:
    """Yield servers of their own, whose slots come back after a second."""
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("cycle")))) as (ours, _):
        async with runtime(ours, role="test") as running:
            for actor in subjects.ACTORS:
                for lane in LANES:
                    await running.connection.jetstream().add_consumer(
                        subjects.WAKE_STREAM, dataclasses.replace(consumer(actor, lane), ack_wait=ACK_WAIT_SECONDS)
                    )
        yield ours


@pytest.fixture
async def idle(apart: Settings) -> AsyncIterator[Runtime]:
    async with runtime(apart, role="test") as running:
        yield running


@asynccontextmanager
async def victim(settings: Settings, actor: Actor, point: str, how: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a worker that ends itself at *point*."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.promises.victim", actor, point, how),
        cwd=ROOT,
        env=dict(environment(settings)),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def healthy(settings: Settings, *actors: Actor) -> AsyncIterator[Runtime]:
    """Run workers alone: no sweeper that would mend what they do not."""
    async with runtime(settings, role="test") as running:
        tasks = [asyncio.create_task(running.worker(actor).run()) for actor in actors]
        try:
            yield running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
async def test_a_worker_that_is_killed_anywhere_delays_a_step_and_neither_loses_nor_doubles_it(
    apart: Settings, idle: Runtime, point: str
) -> None:
    said = call_and_result("a", LOG)
    async with Client.connect(apart.nats.url) as client, victim(apart, "spill", point, "KILL") as process:
        talk = await client.open(f"killed-{fresh_id()}", policy=layer())
        await talk.append(said)
        assert await asyncio.wait_for(process.wait(), 180) == -signal.SIGKILL
        async with healthy(apart, "spill"):
            # after the ack wait at the latest
            state = await settled(idle, talk.at)
            await talk.append([{"role": "user", "content": "And now?"}])
            async with asyncio.timeout(180):
                while state.messages < 4:
                    state = await settled(idle, talk.at)
    records = await idle.log.read(talk.at, after=0)
    spilled = [fact for fact in done_facts(records) if isinstance(fact, ToolOutputSpilled)]
    assert [fact.number for fact in spilled] == [3]
    assert await idle.artifacts.get(talk.at.tenant, spilled[0].sha256) == LOG.encode(), "stored before it is pointed to"
    assert replay(talk.at, records).divergence is None


@pytest.mark.slow
async def test_a_worker_that_was_stopped_too_long_cannot_overwrite_what_others_did(
    apart: Settings, idle: Runtime
) -> None:
    said = call_and_result("a", LOG)
    async with Client.connect(apart.nats.url) as client, victim(apart, "spill", "after_effect", "STOP") as process:
        talk = await client.open(f"stopped-{fresh_id()}", policy=layer())
        await talk.append(said)
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), 180) == b"after_effect\n"
        async with healthy(apart, "spill"):
            await settled(idle, talk.at)
        os.kill(process.pid, signal.SIGCONT)
        assert await asyncio.wait_for(process.stdout.readline(), 180) == b"refused\n", "its late commit"
        # the one that came back works on as if nothing had been
        await talk.append(call_and_result("b", f"More. {LOG}"))
        assert await asyncio.wait_for(process.stdout.readline(), 180) == b"landed\n"
        assert (await settled(idle, talk.at)).messages == 6
    commits = [codec.decode_commit(one.body) for one in await idle.log.read(talk.at, after=0) if one.side == "done"]
    assert [commit.version for commit in commits] == list(range(1, len(commits) + 1))
    spilled = [(one.writer == "victim", fact.number) for one in commits for fact in one.facts if _is_spilled(fact)]
    assert spilled == [(False, 3), (True, 6)]
    assert replay(talk.at, await idle.log.read(talk.at, after=0)).divergence is None


@dataclasses.dataclass
class LateSlot:
    """A slot that somebody speaks into in the last moment before it is freed."""

    slot: Slot
    speak: asyncio.Future[None]
    spoken: asyncio.Event

    def __getattr__(self, name: str) -> object:
        return getattr(self.slot, name)

    async def done(self) -> None:
        if not self.speak.done():
            self.speak.set_result(None)
            await self.spoken.wait()
        await self.slot.done()


async def test_what_is_said_between_the_last_look_and_the_freed_slot_is_worked_on(
    apart: Settings, idle: Runtime
) -> None:
    speak: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    spoken = asyncio.Event()

    class LateWakes:
        def __getattr__(self, name: str) -> object:
            return getattr(idle.wakes, name)

        async def slots(self, actor: Actor, **asked: Any) -> AsyncIterator[object]:
            async for slot in idle.wakes.slots(actor, **asked):
                yield LateSlot(slot, speak, spoken)

    worker = dataclasses.replace(idle.worker("spill"), wakes=LateWakes())  # type: ignore[arg-type]
    task = asyncio.create_task(worker.run())
    async with Client.connect(apart.nats.url) as client:
        talk = await client.open(f"late-{fresh_id()}")
        await asyncio.wait_for(speak, 180)
        came = asyncio.Event()

        async def come(message: Msg) -> None:
            came.set()

        # its own wake-up, which finds the slot filled
        listening = await idle.connection.subscribe(subjects.wake("spill", talk.at), cb=come)
        await idle.connection.flush()
        await talk.append([{"role": "user", "content": "just now"}])
        await asyncio.wait_for(came.wait(), 180)
        await listening.unsubscribe()
        spoken.set()
        assert (await settled(idle, talk.at)).messages == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.slow
async def test_a_hot_conversation_has_one_step_in_flight_and_no_answer_is_paid_twice(
    settings: Settings, running: Runtime
) -> None:
    async with scripted_llm([0.3]) as llm:
        model = msgspec.structs.replace(settings, llm=msgspec.structs.replace(settings.llm, base_url=llm.base_url))
        sections = {"target": {"low_water": 0.05, "min_gain": 0.01}, "window": 6_000}
        squeeze = {"mode": "squeeze", "model": "scripted", "attempts": 1, "deadline_seconds": 120.0}
        async with (
            Client.connect(settings.nats.url) as client,
            healthy(model, "spill", "digest", "cut", "squeeze", "squeeze"),
            healthy(model, "squeeze", "squeeze"),
        ):
            talk = await client.open(f"hot-{fresh_id()}", policy=layer(squeeze=squeeze, **sections))  # type: ignore[arg-type]
            stopping = asyncio.Event()
            woken = 0

            async def wake_again_and_again() -> None:
                nonlocal woken
                while not stopping.is_set():
                    with suppress(Unavailable):
                        await running.wakes.wake("squeeze", talk.at, headers={})
                        woken += 1
                    await asyncio.sleep(0.002)

            waking = asyncio.create_task(wake_again_and_again())
            for message in SAMPLE[:80]:
                await talk.append([message])
            await settled(running, talk.at, seconds=180)
            stopping.set()
            await waking
        records = await running.log.read(talk.at, after=0)
    outcomes = [fact for fact in done_facts(records) if getattr(fact, "stage", "") == "squeeze" or _is_prose(fact)]
    assert woken > 100
    bodies = [messages.encode(request.body) for request in llm.requests]
    assert len(set(bodies)) == len(bodies), "nothing was asked twice"
    assert 0 < len(llm.requests) <= len(outcomes), "each answer that was paid for is recorded"
    assert replay(talk.at, records).divergence is None


def _is_spilled(fact: DoneFact) -> TypeGuard[ToolOutputSpilled]:
    return isinstance(fact, ToolOutputSpilled)


def _is_prose(fact: object) -> bool:
    return type(fact).__name__ in ("DigestSqueezed", "HistorySummarized")
