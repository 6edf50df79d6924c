"""Encryption: what it adds to the CPU time of an agent's append and of everybody's work for a turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import KeysSection, Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import fresh_id
from protocol.subjects import ACTORS
from tests.programs.bench.figures import Figure, median, spread
from tests.programs.bench.histories import turns
from tests.programs.bench.servers import Bench

ROUNDS = 15
APPEND_ROUNDS = 40
APPENDS = 50
TURNS = 60
RESULT_BYTES = 3_000


async def encrypting_figures(bench: Bench) -> list[Figure]:
    """Measure everything in one process, which is agent and actors, with and without keys by turns."""
    plain = msgspec.structs.replace(bench.settings, keys=KeysSection())
    variants = {True: bench.settings, False: plain}
    appends: dict[bool, list[float]] = {True: [], False: []}
    whole: dict[bool, list[float]] = {True: [], False: []}
    async with _connected(variants[True]) as (_, closed), _connected(variants[False]) as (_, plain_client):
        for _ in range(APPEND_ROUNDS + 1):
            appends[True].append(await _appended(closed))
            appends[False].append(await _appended(plain_client))
    # with keys first: what the appends left for the actors can be read by no others
    for encrypted in (True, False) * (ROUNDS + 1):
        async with _connected(variants[encrypted]) as (running, client):
            # no sweeper: it would look at what the others said
            working = [asyncio.create_task(running.worker(actor).run()) for actor in ACTORS]
            working.append(asyncio.create_task(running.context_service().run()))
            whole[encrypted].append(await _lived(client))
            await _finished(running)
            for task in working:
                task.cancel()
            await asyncio.gather(*working, return_exceptions=True)
    # the first round of each imports and warms what the others have
    return [
        _figure("an agent's append", appends),
        _figure("agent and actors for a turn, from append to view", whole),
    ]


def _figure(what: str, spent: dict[bool, list[float]]) -> Figure:
    on, off = spent[True][1:], spent[False][1:]
    return Figure(
        goal="issue",
        what=f"CPU of {what}, encrypted / in plain text",
        value=median(on) / median(off),
        bound=1.10,
        detail=f"{spread(on, unit=' ms')} / {spread(off, unit=' ms')}",
    )


@asynccontextmanager
async def _connected(settings: Settings) -> AsyncIterator[tuple[Runtime, Client]]:
    async with (
        runtime(settings, role="bench") as running,
        Client.connect(settings.nats.url, keys=running.tenants) as client,
    ):
        yield running, client


async def _appended(client: Client) -> float:
    """Return the milliseconds of CPU of one append; nobody works yet on what it says."""
    talk = await client.open(f"bench-{fresh_id()}")
    await talk.append([{"role": "user", "content": "Begin."}])
    before = time.process_time()
    for index in range(APPENDS):
        await talk.append([{"role": "user", "content": f"{index}: {'where is my order? ' * 50}"}])
    return (time.process_time() - before) / APPENDS * 1e3


async def _finished(running: Runtime) -> None:
    while (await running.connection.jetstream().stream_info(subjects.WAKE_STREAM)).state.messages:
        await asyncio.sleep(0.05)


async def _lived(client: Client) -> float:
    talk = await client.open(f"bench-{fresh_id()}", policy={"budget": {"window": 16_000, "reserve": 0}})
    before = 0.0
    for index, new in enumerate(turns(TURNS, result_bytes=RESULT_BYTES)):
        if index == TURNS // 6:
            before = time.process_time()
        await talk.append(new)
        await talk.context(patience=30)
    return (time.process_time() - before) / (TURNS * 5 / 6) * 1e3
