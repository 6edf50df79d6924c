"""Limits: what one partition, one worker and one turn take on this machine, the inputs of `infra/docs/sizing.md`."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from actors.cli.session import started_stack
from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from protocol import codec, subjects
from protocol.codec import genesis
from protocol.connecting import connect
from protocol.facts import ContextServed
from protocol.ids import Address, address, fresh_id
from storage.ports import EventLog
from tests.programs.bench.figures import Figure, number
from tests.programs.bench.histories import turns
from tests.programs.bench.path import Bytes, body_of
from tests.programs.bench.servers import Bench, cpu_seconds, resident_mb, workers

AT_ONCE = 64
CONVERSATIONS = 256
APPENDS_EACH = 24
TURNS = 120
TURNS_FIRST = 20
RESULT_BYTES = 8_000
WINDOW_TOKENS = 32_000
"""In which an 8 KB result is shortened and stored: the dearest turn."""

ACTORS = ("spill", "digest", "cut")
KEPT_CONVERSATIONS = 100_000
RESTART_SECONDS = 120.0
LOOK_SECONDS = 0.02


async def limits_figures(bench: Bench) -> list[Figure]:
    """Measure what the model of sizes is made of."""
    return [*await _turn(bench), *await _rates(bench), *await _recovered()]


async def _turn(bench: Bench) -> list[Figure]:
    """Measure a turn: CPU time by process, and the bytes that are kept of it."""
    written = Bytes()
    await written.listen(bench)
    talk = await bench.client.open(f"bench-{fresh_id()}", policy={"budget": {"window": WINDOW_TOKENS, "reserve": 0}})
    server = _children()["nats-server"]
    before: list[float] = []
    kept = 0
    async with workers(bench, ACTORS) as pids:
        for index, new in enumerate(turns(TURNS + TURNS_FIRST, result_bytes=RESULT_BYTES)):
            if index == TURNS_FIRST:  # imported, connected, and as large as it becomes
                before, kept = [cpu_seconds(pid) for pid in (*pids, server)], _all(written)
            await talk.append(new)
            await talk.context(patience=30)
        used = [(cpu_seconds(pid) - was) / TURNS * 1e3 for pid, was in zip((*pids, server), before, strict=True)]
    what = f"a turn with an {RESULT_BYTES // 1000} KB result in a window of {WINDOW_TOKENS:,}"
    by_actor = ", ".join(f"{actor} {number(ms)}" for actor, ms in zip(ACTORS, used, strict=False))
    return [
        Figure(
            goal="issue",
            what=f"CPU of all workers for {what}",
            value=sum(used[:-1]),
            bound=8.0,
            unit="ms",
            detail=f"{by_actor} ms (who answers agents is in cut); mean of {TURNS} turns, compactions among them",
        ),
        Figure(goal="", what=f"CPU of nats-server for {what}", value=used[-1], bound=None, unit="ms"),
        Figure(
            goal="",
            what=f"bytes written to all streams for {what}",
            value=(_all(written) - kept) / TURNS,
            bound=None,
            unit="bytes",
            detail="messages, commits, snapshots, wake-ups",
        ),
    ]


def _all(written: Bytes) -> int:
    return written.said + written.done + written.snapshots + written.wakes


def _children() -> dict[str, int]:
    """Return the processes that this one has started, by name."""
    listed = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return {Path(f"/proc/{pid}/comm").read_text().strip(): int(pid) for pids in listed for pid in pids}


async def _rates(bench: Bench) -> list[Figure]:
    """Measure appends and commits a second in one partition, by one client process."""
    async with runtime(bench.settings, role="bench") as running:
        places = [address(f"bench-{fresh_id()}") for _ in range(CONVERSATIONS)]
        said, saying = await _in_turn(places, lambda at: _appended(running.log, at))
        done, doing = await _in_turn(places, lambda at: _committed(running.log, at))
    told = f"{AT_ONCE} at once over {CONVERSATIONS} conversations"
    out = []
    for what, rate, client, server in (("append", *said, saying), ("commit", *done, doing)):
        detail = f"and {number(client)} ms of the client"
        out += [
            Figure(
                goal="",
                what=f"CPU of nats-server for one {what}, {told}",
                value=server,
                bound=None,
                unit="ms",
                detail=detail,
            ),
            Figure(
                goal="",
                what=f"{what}s a second of one partition, {told}",
                value=rate,
                bound=None,
                least=True,
                unit="/s",
                detail="by one client process, beside whatever else the machine does",
            ),
        ]
    return out


async def _in_turn(
    places: Sequence[Address], work: Callable[[Address], Awaitable[None]]
) -> tuple[tuple[float, float], float]:
    """Have *work* done for each place, `AT_ONCE` at a time.

    Return acts a second with the client's CPU milliseconds of each, and the server's.
    """
    queue, server = list(places), _children()["nats-server"]

    async def next_ones() -> None:
        while queue:
            await work(queue.pop())

    began, ours, theirs = time.perf_counter(), time.process_time(), cpu_seconds(server)
    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(next_ones())
    seconds, count = time.perf_counter() - began, len(places) * APPENDS_EACH
    client, of_server = time.process_time() - ours, cpu_seconds(server) - theirs
    return (count / seconds, client / count * 1e3), of_server / count * 1e3


async def _appended(log: EventLog, at: Address) -> None:
    for index in range(APPENDS_EACH):
        body = body_of([{"role": "user", "content": f"{index}: {'where is my order? ' * 50}"}])
        await log.say(at, body, message_id=fresh_id(), headers={})


async def _committed(log: EventLog, at: Address) -> None:
    seq, prev = 0, genesis(at)
    for index in range(APPENDS_EACH):
        commit = codec.seal(_commit(prev, index + 1))
        body, prev = codec.encode_commit(commit), commit.hash
        landed = await log.append(at, body, expected_seq=seq, commit_id=commit.commit_id, headers={})
        assert landed is not None
        seq = landed


def _commit(prev: bytes, version: int) -> codec.Commit:
    served = ContextServed(
        upto=version, budget=1, profile="openai-chat", view_hash="0" * 64, tokens=1, level="none", asked=0
    )
    return codec.Commit(
        version=version,
        commit_id=fresh_id(),
        writer="bench",
        upto=0,
        prev_hash=prev,
        said_hash=prev,
        policy_hash="",
        rules_version=codec.RULES_VERSION,
        tokenizer="o200k_base",
        facts=(served,),
    )


async def _recovered() -> list[Figure]:
    """Measure how long a server that was killed is away, empty and with many conversations, and what it needs."""
    out: list[tuple[float, float]] = []
    for count in (0, KEPT_CONVERSATIONS):
        async with _own_stack() as (settings, pid):
            await _filled(settings, count)
            memory = resident_mb(pid())
            out.append((await _restarted(settings, pid, count), memory))
    (empty, bare), (full, held) = out
    return [
        Figure(
            goal="",
            what=f"a killed server is away, with {KEPT_CONVERSATIONS:,} conversations",
            value=full,
            bound=None,
            unit="s",
            detail=f"{number(empty)} s with none; until the log is told of again, the start of its process included",
        ),
        Figure(
            goal="",
            what=f"memory of nats-server for each of {KEPT_CONVERSATIONS:,} conversations",
            value=(held - bare) / KEPT_CONVERSATIONS * 1e6,
            bound=None,
            unit="bytes",
            detail=f"{number(held)} MB, {number(bare)} with none",
        ),
    ]


@asynccontextmanager
async def _own_stack() -> AsyncIterator[tuple[Settings, Callable[[], int]]]:
    """Run a stack of its own, whose server may be killed: it is started again. Yield where it is, and the server."""
    with tempfile.TemporaryDirectory(prefix="jettison-bench-") as name:
        async with started_stack(Settings(data=name)) as (settings, stack):
            yield settings, lambda: stack.pids["nats"]


async def _filled(settings: Settings, count: int) -> None:
    """Say one message in each of *count* conversations."""
    connection = await connect(settings.nats.url, name="bench", login=settings.nats.login())
    jetstream = connection.jetstream(publish_async_max_pending=2_000)
    body = body_of([{"role": "user", "content": "Where is my order?"}])
    landed = [
        await jetstream.publish_async(subjects.said(address(f"kept-{index}")), body, wait_stall=30)
        for index in range(count)
    ]
    await asyncio.gather(*landed)
    await connection.close()


async def _restarted(settings: Settings, pid: Callable[[], int], count: int) -> float:
    """Kill the server; return the seconds until it answers from the log again."""
    began = time.perf_counter()
    os.kill(pid(), signal.SIGKILL)
    async with asyncio.timeout(RESTART_SECONDS):
        while True:
            with suppress(Exception):
                connection = await connect(settings.nats.url, name="bench", login=settings.nats.login())
                try:
                    info = await connection.jetstream(timeout=1).stream_info(subjects.LOG_STREAM)
                    assert info.state.messages >= count
                    return time.perf_counter() - began
                finally:
                    await connection.close()
            await asyncio.sleep(LOOK_SECONDS)
