"""Real servers and real worker processes for a measurement, and the floor: raw publishes of the same bytes."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nats.aio.client import Client as NatsConnection
from nats.js.api import StorageType, StoreCompression, StreamConfig

from actors.cli.session import started_stack
from actors.host.settings import Settings
from protocol.client import Client
from protocol.ids import fresh_id

Json = dict[str, Any]

FLOOR_STREAM = "BENCH_FLOOR"
FLOOR_SUBJECT = "bench.floor"
ASYNC_WINDOW = 2_000
"""Publishes on their way at once; nats-py's own limit is 4,000, and more gains nothing (measured)."""

START_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Running servers, one connected client, and the folder that everything lives in."""

    settings: Settings
    folder: Path
    client: Client

    @property
    def connection(self) -> NatsConnection:
        """Return the client's own connection."""
        return self.client.connection


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    """Run NATS and S3 on loopback in a folder that is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="jettison-bench-") as name:
        folder = Path(name)
        async with started_stack(Settings(data=name)) as (settings, _), Client.connect(settings.nats.url) as client:
            # as the log's own stream: what differs is what we add
            config = StreamConfig(
                name=FLOOR_STREAM,
                subjects=[FLOOR_SUBJECT],
                storage=StorageType.FILE,
                compression=StoreCompression.S2,
                allow_direct=True,
            )
            await client.connection.jetstream().add_stream(config)
            yield Bench(settings=settings, folder=folder, client=client)


@asynccontextmanager
async def workers(bench: Bench, actors: Sequence[str], *, traced: bool = False) -> AsyncIterator[list[int]]:
    """Run one process for each of *actors*; yield their process ids once each has said that it works."""
    command = ("-c", "from actors.cli import main; main()", "worker")
    commands = [(*command, actor, "--data", str(bench.folder)) for actor in actors]
    async with processes(commands, traced=traced) as pids:
        yield pids


@asynccontextmanager
async def processes(commands: Sequence[Sequence[str]], *, traced: bool = False) -> AsyncIterator[list[int]]:
    """Run Python once for each of *commands* until each has said that it works; end them after."""
    variables = {**os.environ, "OTEL_SDK_DISABLED": str(not traced).lower()}
    started = [
        await asyncio.create_subprocess_exec(sys.executable, *command, stderr=asyncio.subprocess.PIPE, env=variables)
        for command in commands
    ]
    drains = []
    try:
        for process in started:
            assert process.stderr is not None
            async with asyncio.timeout(START_SECONDS):
                while b"works on" not in (line := await process.stderr.readline()):
                    assert line, "a worker ended"
            drains.append(asyncio.create_task(_drained(process.stderr)))
        await asyncio.sleep(0.3)
        yield [process.pid for process in started]
    finally:
        for process in started:
            with suppress(ProcessLookupError):
                process.terminate()
        for process in started:
            await process.wait()
        for drain in drains:
            drain.cancel()


async def _drained(stream: asyncio.StreamReader) -> None:
    while line := await stream.readline():
        if b"WARNING" in line or b"ERROR" in line:
            sys.stderr.write(f"worker: {line.decode(errors='replace')}")


async def serial_publishes(connection: NatsConnection, bodies: Sequence[bytes]) -> list[float]:
    """Return the milliseconds of each of *bodies* published raw, one after the other acknowledged."""
    jetstream = connection.jetstream()
    spent = []
    for body in bodies:
        started = time.perf_counter()
        await jetstream.publish(FLOOR_SUBJECT, body, headers={"Nats-Msg-Id": fresh_id()})
        spent.append((time.perf_counter() - started) * 1e3)
    return spent


async def asynchronous_publishes(connection: NatsConnection, bodies: Sequence[bytes]) -> float:
    """Return the seconds in which all *bodies* are published raw and acknowledged, `ASYNC_WINDOW` at once."""
    jetstream = connection.jetstream(publish_async_max_pending=ASYNC_WINDOW)
    started = time.perf_counter()
    futures = [
        await jetstream.publish_async(FLOOR_SUBJECT, body, headers={"Nats-Msg-Id": fresh_id()}, wait_stall=10)
        for body in bodies
    ]
    await asyncio.gather(*futures)
    return time.perf_counter() - started


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
