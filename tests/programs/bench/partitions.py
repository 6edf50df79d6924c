"""Partitions: what agents append in a second to a log in one stream and in four, each on a cluster of three."""

from __future__ import annotations

import asyncio
import tempfile
import time
from pathlib import Path

from protocol.client import Client
from protocol.ids import fresh_id
from tests.programs.bench.figures import Figure, number
from tests.programs.bench.servers import Bench
from tests.promises.harness import Rights, three

AGENTS = 64
"""At once, each with a conversation of its own."""

APPENDS = 60
"""Of each."""

WARM_APPENDS = 5
TEXT = "where is my order? " * 50
SHARDS = (Path(__file__).parents[3] / "infra" / "nats" / "shards.conf").read_text()


async def partition_figures(bench: Bench) -> list[Figure]:
    """Measure what four leaders take beside one; nobody works on what is said."""
    rates = {partitions: await _rate(bench.folder, partitions) for partitions in (1, 4)}
    return [
        Figure(
            goal="P22",
            what="appends a second on a cluster of three, 64 agents, log in 4 partitions / in 1",
            value=rates[4] / rates[1],
            bound=None,
            detail=f"{number(rates[4])}/s / {number(rates[1])}/s, three servers and the agents on one machine",
        )
    ]


async def _rate(folder: Path, partitions: int) -> float:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        async with three(Path(name), rights=Rights(include=SHARDS), partitions=partitions) as servers:
            url = ",".join(server.url for server in servers)
            async with Client.connect(url) as client:
                await asyncio.gather(*(_appended(client, WARM_APPENDS) for _ in range(AGENTS)))
                began = time.perf_counter()
                await asyncio.gather(*(_appended(client, APPENDS) for _ in range(AGENTS)))
                return AGENTS * APPENDS / (time.perf_counter() - began)


async def _appended(client: Client, count: int) -> None:
    talk = await client.open(f"bench-{fresh_id()}")
    for index in range(count):
        await talk.append([{"role": "user", "content": f"{index}: {TEXT}"}])
