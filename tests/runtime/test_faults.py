"""Faults of ours: a stage is passed by where it can be; else the wake-up is given up, and its letter quotes nothing."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.runtime.retries import ATTEMPTS_MAX, FAULTS_MAX, pause
from actors.runtime.stepping import Effects
from actors.runtime.worker import Worker
from actors.spill.act import Storing
from actors.spill.policy_layers import Layers
from protocol import subjects
from protocol.client import Client
from protocol.facts import ToolOutputTrimmed
from protocol.ids import fresh_id
from tests.conftest import at_work, done_facts, layer, settled
from tests.runtime.test_outages import LOG, call_and_result, without_store
from tests.runtime.test_poison import SECRET, freed, letter, letters, slot_is_filled


@asynccontextmanager
async def at_fault(running: Runtime, **parts: Any) -> AsyncIterator[Worker]:
    """Run a spill worker whose steps have a fault of ours: *parts* that no program of ours passes."""
    effects = Effects(**{"artifacts": running.artifacts, **parts})
    worker = dataclasses.replace(running, effects=effects).worker("spill")
    task = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


NO_POLICY = {"layers": Layers(service=cast(Any, 5))}
"""A layer that is no table: no policy can be adopted, and without one there is nothing to go on with."""


async def test_a_fault_that_nothing_passes_by_is_given_up_and_can_be_tried_again(
    running: Runtime, client: Client, settings: Settings
) -> None:
    async with at_fault(running, **NO_POLICY):
        talk = await client.open(f"fault-{fresh_id()}")
        await talk.append([{"role": "user", "content": SECRET}])
        kept = await letter(running, talk.at)
        assert (kept.letter.reason, kept.letter.error, kept.letter.attempts) == ("fault", "BadPolicy", ATTEMPTS_MAX)
        assert kept.letter.detail == "policy: a layer must be an object, not int"
        assert kept.letter.seq > 0, "the state could be loaded, and the letter says where it stood"
        await freed(running, talk.at)
        # said again, it is tried once more and given up at once
        await talk.append([{"role": "user", "content": "still there?"}])
        async with asyncio.timeout(180):
            while (again := await letter(running, talk.at)).revision == kept.revision:
                await asyncio.sleep(0.05)
        assert again.letter.attempts == ATTEMPTS_MAX + 1
        assert len(await letters(running, talk.at)) == 1
    await running.dead_letters.drop(again)
    await running.dead_letters.drop(again)
    assert await letters(running, talk.at) == []
    await running.wakes.wake("spill", talk.at, headers={})
    async with at_work(settings) as healthy:
        assert (await settled(healthy, talk.at)).messages == 2


async def test_a_letter_carries_the_trace_and_no_text_of_the_conversation(running: Runtime, client: Client) -> None:
    async with at_fault(running, **NO_POLICY):
        talk = await client.open(f"traced-{fresh_id()}")
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        await running.wakes.wake("spill", talk.at, headers={"traceparent": trace})
        await talk.append([{"role": "user", "content": SECRET}])
        await letter(running, talk.at)
        found = await running.connection.jetstream().get_last_msg(
            subjects.DEAD_LETTER_STREAM, subjects.dead_letter("spill", talk.at)
        )
        headers = found.headers or {}
        assert {name: headers[name] for name in headers if name.startswith("Jettison-")} == {
            "Jettison-Reason": "fault",
            "Jettison-Error": "BadPolicy",
            "Jettison-Attempts": str(ATTEMPTS_MAX),
            "Jettison-Version": "0",
        }
        assert SECRET not in str(headers) + (found.data or b"").decode()


async def test_a_fault_that_can_be_passed_by_costs_detail_and_no_letter(running: Runtime, client: Client) -> None:
    # no store at all: every try to keep an artifact is a fault, not bad luck
    async with at_fault(running, artifacts=cast(Any, None)):
        talk = await client.open(f"passed-{fresh_id()}", policy=layer())
        await talk.append(call_and_result("a", LOG))
        await settled(running, talk.at)
        facts = done_facts(await running.log.read(talk.at, after=0))
        assert [fact.reason for fact in facts if isinstance(fact, ToolOutputTrimmed)] == ["fault: AttributeError"]
        assert await letters(running, talk.at) == []


async def test_bad_luck_is_never_given_up(
    settings: Settings, running: Runtime, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    talk = await client.open(f"luck-{fresh_id()}", policy=layer(spill={"on_store_error": "wait"}))
    async with runtime(without_store(settings), role="test") as dry:
        worker = dry.worker("spill")
        storing = cast(Storing, worker.effects.by_actor["spill"])
        task = asyncio.create_task(worker.run())
        await talk.append(call_and_result("a", LOG))
        # tried and put back, more often than a fault passes by
        async with asyncio.timeout(180):
            while storing.outages.get(talk.at, 0) <= FAULTS_MAX:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert worker._failures.of(talk.at) == 0
    assert caplog.text.count("spill waits (ArtifactsUnavailable): ") == 1, "an outage is told when it begins"
    assert await letters(running, talk.at) == []
    assert await slot_is_filled(running, "spill", talk.at)
    async with at_work(settings) as healthy:
        assert (await settled(healthy, talk.at)).messages == 3


def test_pauses_grow_to_a_bound_and_are_spread() -> None:
    seen = [pause(deliveries) for deliveries in range(1, 50)]
    assert all(0.16 <= one <= 18 for one in seen)
    assert len({pause(3) for _ in range(20)}) > 10
    assert min(seen[10:]) > 10
