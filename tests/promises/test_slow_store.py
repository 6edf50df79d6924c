"""A slow store: who spills waits for it, and nobody else (promise 23b)."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import msgspec
import pytest

from actors.audit.replay import replay
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.runtime.stepping import Effects
from actors.runtime.worker import CREDITS
from actors.spill.act import STORING_MAX, Storing
from protocol import subjects
from protocol.client import Client
from protocol.errors import NotReady
from protocol.facts import ToolOutputSpilled
from protocol.ids import fresh_id
from tests.conftest import at_work, done_facts, layer, settled
from tests.promises.harness import only_in_chaos
from tests.protocol.test_client import said, user
from tests.runtime.test_outages import LOG, call_and_result
from tests.runtime.test_poison import letters
from tests.stack import LOOPBACK

ANSWER_SECONDS = 2.0
"""How late the store answers. Four conversations at a time (`storage.s3.THREADS`) wait for two answers: to the head of
a put, and to its body."""

SLOTS = sum(CREDITS.values())

SPILLING = 2 * SLOTS
"""More than the store has threads, and more than a worker holds slots: those that wait for the store hold none."""

OTHERS = 3


@asynccontextmanager
async def slow(settings: Settings) -> AsyncIterator[Settings]:
    """Yield *settings* whose store gives each answer late."""
    port = urlsplit(settings.s3.endpoint).port
    serving: set[asyncio.Task[None]] = set()

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, late: float) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await asyncio.sleep(late)
                sink.write(data)
                await sink.drain()
        sink.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(LOOPBACK, port)
        try:
            await asyncio.gather(carry(reader, back, late=0.0), carry(there, writer, late=ANSWER_SECONDS))
        finally:
            for end in (writer, back):
                end.transport.abort()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    server = await asyncio.start_server(begin, LOOPBACK, 0)
    try:
        endpoint = f"http://{LOOPBACK}:{server.sockets[0].getsockname()[1]}"
        yield msgspec.structs.replace(settings, s3=msgspec.structs.replace(settings.s3, endpoint=endpoint))
    finally:
        server.close()
        for task in (left := tuple(serving)):
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


@only_in_chaos
@pytest.mark.slow
async def test_a_slow_store_holds_up_who_spills_and_no_other(
    settings: Settings, running: Runtime, client: Client
) -> None:
    async with slow(settings) as late, at_work(late) as busy:
        spilling = [await client.open(f"spills-{fresh_id()}", policy=layer()) for _ in range(SPILLING)]
        started = time.monotonic()
        for number, talk in enumerate(spilling):
            await talk.append(call_and_result("a", f"{number}\n{LOG}"))
        # their agents ask at once, and so hold slots of both lanes
        asking = [asyncio.create_task(talk.context(patience=180)) for talk in spilling]
        for _ in range(OTHERS):
            other = await client.open(f"other-{fresh_id()}", policy=layer())
            await other.append([user("hello")])
            assert (await other.context(patience=180)).messages == [user("hello")]
            # told by who was first, and by no clock: that is the machine's as well. In the slots of those that came
            # before, it would have waited until only the last of them had one
            assert sum(one.done() for one in asking) < SPILLING - SLOTS
        with pytest.raises(NotReady, match="spill"):
            await spilling[-1].context(patience=0.1)
        assert [context.upto for context in await asyncio.gather(*asking)] == [3] * SPILLING
        for number, talk in enumerate(spilling):
            assert (await settled(busy, talk.at)).messages == 3
            records = await busy.log.read(talk.at, after=0)
            # slow is not down: it is spilled, and not shortened in its place
            (spilled,) = [fact for fact in done_facts(records) if isinstance(fact, ToolOutputSpilled)]
            assert (await running.artifacts.get(talk.at.tenant, spilled.sha256)).decode() == f"{number}\n{LOG}"
            assert await said(busy, talk.at) == call_and_result("a", f"{number}\n{LOG}")
            assert replay(talk.at, records).divergence is None
            assert await letters(busy, talk.at) == []
        assert time.monotonic() - started > ANSWER_SECONDS


async def test_who_finds_too_many_at_the_store_comes_back_and_loses_nothing(running: Runtime, client: Client) -> None:
    full = Effects(artifacts=running.artifacts)
    storing = full.by_actor["spill"]
    assert isinstance(storing, Storing)
    storing.at_store = STORING_MAX
    worker = asyncio.create_task(dataclasses.replace(running, effects=full).worker("spill").run())
    try:
        talk = await client.open(f"crowded-{fresh_id()}", policy=layer())
        await talk.append(call_and_result("a", LOG))
        async with asyncio.timeout(180):
            while not await given_back(running):
                await asyncio.sleep(0.05)
        facts = done_facts(await running.log.read(talk.at, after=0))
        assert [fact for fact in facts if isinstance(fact, ToolOutputSpilled)] == []
        storing.at_store = 0
        assert (await settled(running, talk.at)).messages == 3
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)
    facts = done_facts(await running.log.read(talk.at, after=0))
    assert [fact.number for fact in facts if isinstance(fact, ToolOutputSpilled)] == [3]
    assert await letters(running, talk.at) == []


async def given_back(running: Runtime) -> bool:
    info = await running.connection.jetstream().consumer_info(subjects.WAKE_STREAM, subjects.durable("spill"))
    return bool(info.num_redelivered)
