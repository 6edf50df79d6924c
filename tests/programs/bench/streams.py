"""Publishing, replay, spill and stalls: our calls beside the raw client's, in one process."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from typing import Any

from nats.js.api import ConsumerConfig, DeliverPolicy

from actors.core.state import initial
from actors.host.bootstrap import Runtime, runtime, work
from actors.runtime.conversations import Conversations
from actors.runtime.fold import fold
from protocol import codec, subjects
from protocol.codec import genesis
from protocol.facts import DoneFact, ToolOutputSpilled
from protocol.ids import Address, Token, address, fresh_id
from storage.s3 import S3Artifacts
from tests.programs.bench.figures import Figure, median, number, spread
from tests.programs.bench.histories import turns
from tests.programs.bench.path import body_of
from tests.programs.bench.servers import Bench, bench, cpu_seconds, serial_publishes, workers

PUBLISHES = 600
COMMITS = 300
COMMIT_FACTS = 100
EVENTS = 10_000
ARTIFACTS = 150
ARTIFACT_BYTES = 10_000
TRACED_ROUNDS = 2
TRACED_TURNS = 200
TRACED_ACTORS = ("spill", "digest", "cut")
STALL_BYTES = 5_000_000
STALL_TICK_SECONDS = 0.001


async def publishing_figures(bench: Bench) -> list[Figure]:
    """Measure P14: what an agent's append and a worker's commit cost over a raw publish of the same bytes."""
    out = []
    talk = await bench.client.open(f"bench-{fresh_id()}")
    said = [{"role": "user", "content": f"{index}: {'where is my order? ' * 30}"} for index in range(PUBLISHES)]
    bodies = [body_of([message]) for message in said]
    raw, ours = [], []
    for start in range(0, PUBLISHES, 50):  # by turns, so that both meet the same machine
        raw += await serial_publishes(bench.connection, bodies[start : start + 50])
        for message in said[start : start + 50]:
            began = time.perf_counter()
            await talk.append([message])
            ours.append((time.perf_counter() - began) * 1e3)
    out.append(
        Figure(
            goal="P14",
            what="an agent's appends a second / raw awaited publishes a second",
            value=sum(raw) / sum(ours),
            bound=0.8,
            least=True,
            detail=f"{spread(ours, unit=' ms')} / {spread(raw, unit=' ms')}",
        )
    )
    return out + await _commits(bench)


async def _commits(bench: Bench) -> list[Figure]:
    """Measure commits of many facts: the wait for one, and the CPU time of a fact."""
    async with runtime(bench.settings, role="bench") as running:
        at = address(f"bench-{fresh_id()}")
        state = initial(genesis(at))
        facts = _facts()
        raw, ours, cpu = [], [], 0.0
        seq = 0
        for index in range(COMMITS):
            began, cpu_began = time.perf_counter(), time.process_time()
            commit = _sealed(state.hash, index + 1, facts)
            body = codec.encode_commit(commit)
            landed = await running.log.append(at, body, expected_seq=seq, commit_id=commit.commit_id, headers={})
            ours.append((time.perf_counter() - began) * 1e3)
            cpu += time.process_time() - cpu_began
            assert landed is not None
            seq = landed
            raw += await serial_publishes(bench.connection, [body])
    rate = COMMITS * COMMIT_FACTS / cpu
    return [
        Figure(
            goal="P14",
            what=f"commit of {COMMIT_FACTS} facts, p50 / raw publish of the same bytes",
            value=median(ours) / median(raw),
            bound=1.5,
            detail=f"{spread(ours, unit=' ms')} / {spread(raw, unit=' ms')}",
        ),
        Figure(
            goal="P14",
            what=f"facts a second of one core, {COMMIT_FACTS} to a commit",
            value=rate,
            bound=300_000.0,
            least=True,
            unit="/s",
            detail=f"{number(cpu / COMMITS * 1e3)} ms of CPU a commit",
        ),
    ]


def _facts() -> tuple[DoneFact, ...]:
    fact = ToolOutputSpilled(
        number=1,
        pointer="/content",
        sha256="0" * 64,
        bytes=9_000,
        tokens=2_500,
        estimated=False,
        kind="log",
        text="2,500 tokens are kept as an artifact",
        text_tokens=40,
    )
    return (fact,) * COMMIT_FACTS


def _sealed(prev_hash: bytes, version: int, facts: tuple[DoneFact, ...]) -> codec.Commit:
    return codec.seal(
        codec.Commit(
            version=version,
            commit_id=fresh_id(),
            writer="bench",
            upto=0,
            prev_hash=prev_hash,
            said_hash=prev_hash,
            policy_hash="",
            rules_version=codec.RULES_VERSION,
            tokenizer="o200k_base",
            facts=facts,
        )
    )


async def replay_figures(bench: Bench) -> list[Figure]:
    """Measure P15: reading and folding a log beside a raw ordered consumer, and a cold start from a snapshot."""
    policy = {"budget": {"window": 16_000, "reserve": 0}}
    talk = await bench.client.open(f"bench-{fresh_id()}", policy=policy)
    async with workers(bench, ["spill", "digest", "cut"]):
        for new in turns(EVENTS // 4, result_bytes=300):
            await talk.append(new)
            await talk.context(patience=30)
    async with runtime(bench.settings, role="bench") as running:
        records = len(await running.log.read(talk.at, after=0))
        raw, folded, cold = [], [], []
        for _ in range(3):
            raw.append(await _raw_consumed(bench, talk.at, records))
            began = time.perf_counter()
            state = fold(initial(genesis(talk.at)), await running.log.read(talk.at, after=0))
            folded.append(time.perf_counter() - began)
            again = Conversations(
                log=running.log,
                snapshots=running.snapshots,
                writer="b",
            )
            began = time.perf_counter()
            assert await again.load(talk.at) == state
            cold.append((time.perf_counter() - began) * 1e3)
        assert state.messages == EVENTS, state.messages
    return [
        Figure(
            goal="P15",
            what=f"replay of {EVENTS:,} messages, read and folded / raw ordered consumer",
            value=median(raw) / median(folded),
            bound=0.5,
            least=True,
            detail=f"{spread(raw, scale=1e3, unit=' ms')} / {spread(folded, scale=1e3, unit=' ms')}; {records} records",
        ),
        Figure(
            goal="P15",
            what=f"cold start of {EVENTS:,} messages from snapshot and tail",
            value=median(cold),
            bound=50.0,
            unit="ms",
            detail=spread(cold, unit=" ms"),
        ),
    ]


async def _raw_consumed(bench: Bench, at: Address, records: int) -> float:
    began = time.perf_counter()
    jetstream = bench.connection.jetstream()
    config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL)
    subscription = await jetstream.subscribe(subjects.both(at), ordered_consumer=True, config=config)
    for _ in range(records):
        await subscription.next_msg(timeout=5)
    spent = time.perf_counter() - began
    await subscription.unsubscribe()
    return spent


async def spill_figures(bench: Bench) -> list[Figure]:
    """Measure P17: the client's CPU time for one artifact beside the raw S3 client's."""
    async with runtime(bench.settings, role="bench") as running:
        store = running.bucket
        await store.prepare()
        ours: list[float] = []
        raw: list[float] = []
        for _ in range(ARTIFACTS):
            body = os.urandom(ARTIFACT_BYTES)
            ours.append(await _cpu(lambda body=body: store.put(Token("bench"), body)))  # type: ignore[misc]
            raw.append(await _cpu(lambda body=body: _raw_put(store, body)))  # type: ignore[misc]
    return [
        Figure(
            goal="P17",
            what="CPU of one artifact of 10 KB / raw S3 client",
            value=median(ours[10:]) / median(raw[10:]),
            bound=1.15,
            detail=f"{spread(ours[10:], unit=' ms')} / {spread(raw[10:], unit=' ms')}",
        ),
    ]


async def _raw_put(store: S3Artifacts, body: bytes) -> None:
    key = f"bench/{fresh_id()}"
    await store.call("PutObject", key, lambda client, bucket: client.put_object(Bucket=bucket, Key=key, Body=body))


async def _cpu(call: Callable[[], Awaitable[Any]]) -> float:
    began = time.process_time()
    await call()
    return (time.process_time() - began) * 1e3


async def stall_figures(bench: Bench) -> list[Figure]:
    """Measure P11: how long the loop of all actors stands still while a 5 MB result is said and moved out."""
    async with runtime(bench.settings, role="bench") as running:
        await running.bucket.prepare()
        task = asyncio.create_task(work(running))
        try:
            await asyncio.sleep(0.5)
            await _ingest(bench, running, "what is imported and loaded at first use is no stall of a running service")
            idle = await _longest_gap(asyncio.sleep(1.0))
            stalls = {}
            for name, text in _large().items():
                stalls[name] = await _longest_gap(_ingest(bench, running, text))
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    worst = max(stalls.values())
    told = ", ".join(f"{name} {number(gap * 1e3)} ms" for name, gap in stalls.items())
    return [
        Figure(
            goal="P11",
            what="longest stall of the loop while 5 MB are ingested",
            value=worst * 1e3,
            bound=10.0,
            unit="ms",
            detail=f"{told}; idle {number(idle * 1e3)} ms",
        ),
    ]


def _large() -> dict[str, str]:
    from tests.programs.bench import histories

    kinds = histories.results(STALL_BYTES)
    return {**kinds, "one line": "a" * STALL_BYTES}


async def _ingest(bench: Bench, running: Runtime, text: str) -> None:
    talk = await bench.client.open(f"bench-{fresh_id()}")
    call = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    await talk.append(
        [
            {"role": "user", "content": "Read all of it."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": text},
        ]
    )
    await talk.context(patience=60)


async def _longest_gap(waited: Awaitable[Any]) -> float:
    """Return the longest time in which a ticker of this loop did not run while *waited* did."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.perf_counter()
        while True:
            await asyncio.sleep(STALL_TICK_SECONDS)
            now = time.perf_counter()
            gaps.append(now - last - STALL_TICK_SECONDS)
            last = now

    ticker = asyncio.create_task(tick())
    await waited
    ticker.cancel()
    return max(gaps)


async def tracing_figures(here: Bench) -> list[Figure]:
    """Measure what tracing adds to the CPU time of the workers for a turn whose result is stored and shortened.

    Two stacks, one with it and one without, have every turn one after the other, so that both meet the same machine.
    """
    spent: dict[bool, list[float]] = {True: [], False: []}
    async with bench() as there:
        for _ in range(TRACED_ROUNDS):
            for traced in (True, False):
                async with (
                    workers(here, TRACED_ACTORS, traced=traced) as ours,
                    workers(there, TRACED_ACTORS, traced=not traced) as theirs,
                ):
                    used, used_there = await _by_turns([(here, ours), (there, theirs)])
                spent[traced].append(used)
                spent[not traced].append(used_there)
    on, off = spent[True], spent[False]
    return [
        Figure(
            goal="issue",
            what="CPU of all workers for a turn, every span recorded / tracing off",
            value=median(on) / median(off),
            bound=1.05,
            detail=f"{spread(on, unit=' ms')} / {spread(off, unit=' ms')}",
        ),
    ]


async def _by_turns(stacks: Sequence[tuple[Bench, Sequence[int]]]) -> list[float]:
    """Return the CPU milliseconds of a turn that the processes of each stack used."""
    policy = {"budget": {"window": 16_000, "reserve": 0}}
    talks = [await stack.client.open(f"bench-{fresh_id()}", policy=policy) for stack, _ in stacks]
    before: list[float] = []
    for index, new in enumerate(turns(TRACED_TURNS, result_bytes=3_000)):
        if index == TRACED_TURNS // 5:  # started, imported, connected
            before = [sum(map(cpu_seconds, pids)) for _, pids in stacks]
        for talk in talks:
            await talk.append(new)
            await talk.context(patience=30)
    used = [sum(map(cpu_seconds, pids)) - earlier for (_, pids), earlier in zip(stacks, before, strict=True)]
    return [seconds / (TRACED_TURNS * 4 / 5) * 1e3 for seconds in used]


def linear_figures(sizes: Sequence[int] = (1_250_000, 2_500_000, 5_000_000, 10_000_000)) -> list[Figure]:
    """Measure P12: no rule on a tool's text is worse than linear, whatever the text."""
    from actors.core.extract import values_of
    from actors.core.text.kinds import kind_of
    from actors.core.text.shorten.by_kind import shorten
    from actors.model_info.tokens import TokenCounter

    worst, told = 0.0, []
    count = TokenCounter("o200k_base")
    for name, unit in ADVERSARIAL.items():
        spent = []
        for size in sizes:
            text = (unit * (size // len(unit) + 1))[:size]
            tries = []
            for _ in range(3):
                began = time.process_time()
                kind = kind_of(text)
                values_of(text)
                shorten(text, kind, tokens_max=1_000, count=count)
                tries.append(time.process_time() - began)
            spent.append(min(tries))
        growth = max(later / max(earlier, 1e-4) for earlier, later in pairwise(spent))
        worst = max(worst, growth)
        told.append(f"{name} {number(growth)} ({number(spent[-1] * 1e3)} ms)")
    return [
        Figure(
            goal="P12",
            what="time of twice the text / time of the text, rules on 8 hostile texts up to 10 MB",
            value=worst,
            bound=2.3,
            detail=", ".join(told),
        ),
    ]


ADVERSARIAL = {
    "one letter": "a",
    "spaces": " ",
    "line ends": "\n",
    "colons": "a:1:",
    "slashes": "/a",
    "brackets": "[{",
    "errors": "failed ",
    "hex words": "deadbeef0 ",
}
