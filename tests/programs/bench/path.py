"""The whole path against its floor: publish to ready, many conversations at once, and one very long one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from protocol import codec, subjects
from protocol.client import Conversation
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import fresh_id
from protocol.service_messages import Ready
from tests.programs.bench.figures import Figure, median, number, quantile, spread
from tests.programs.bench.histories import turns
from tests.programs.bench.servers import (
    Bench,
    asynchronous_publishes,
    cpu_seconds,
    resident_mb,
    serial_publishes,
    workers,
)

Json = dict[str, Any]

RATE_PER_SECOND = 200
RATE_SECONDS = 10
RATE_CONVERSATIONS = 100
SERIAL = 400
READY_SECONDS = 10.0
QUIET_SECONDS = 2.0

MANY_CONVERSATIONS = 200
MANY_ENVELOPES = 25
LONG_TURNS = 5_000
LONG_RESULT_BYTES = 900
LONG_WINDOW_TOKENS = 16_000


def body_of(new: Sequence[Json]) -> bytes:
    """Return the envelope that an agent would send for *new*."""
    said = tuple(SaidMessage(raw=messages.encode(message)) for message in new)
    return codec.encode_said(codec.Said(writer=fresh_id(), count=1, facts=(MessagesAppended(messages=said),)))


class Announcements:
    """When each conversation was announced ready up to which message; one subscription for all."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, int], asyncio.Future[float]] = {}
        self.newest = 0.0

    async def listen(self, bench: Bench) -> None:
        """Listen to all conversations."""
        await bench.connection.subscribe("ctx.v1.ready.*.*", cb=self._heard)
        await bench.connection.flush()

    def expect(self, talk: Conversation, upto: int) -> asyncio.Future[float]:
        """Return the time at which *talk* is ready with *upto* messages."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[subjects.ready(talk.at), upto] = future
        return future

    async def _heard(self, message: Any) -> None:
        ready = msgspec.json.decode(message.data, type=Ready)
        self.newest = time.perf_counter()
        for key in [key for key in self._waiting if key[0] == message.subject and key[1] <= ready.upto]:
            future = self._waiting.pop(key)
            if not future.done():
                future.set_result(self.newest)


async def opened(bench: Bench, count: int, heard: Announcements, **sections: Any) -> list[Conversation]:
    """Return *count* conversations that have adopted their policy and hold one message."""
    talks = [await bench.client.open(f"bench-{fresh_id()}", policy=sections) for _ in range(count)]
    firsts = [heard.expect(talk, 1) for talk in talks]
    for talk in talks:
        await talk.append([{"role": "user", "content": "Begin."}])
    await asyncio.wait_for(asyncio.gather(*firsts), 60)
    return talks


async def latency_figures(bench: Bench) -> list[Figure]:
    """Measure publish to ready with nothing to compact, as serial publishes of the same bytes."""
    heard = Announcements()
    await heard.listen(bench)
    said = [{"role": "user", "content": f"{index}: {'what is known of this order? ' * 20}"} for index in range(SERIAL)]
    bodies = [body_of([message]) for message in said]
    async with workers(bench, ["spill"]) as pids:
        talks = await opened(bench, RATE_CONVERSATIONS, heard)
        floor = await serial_publishes(bench.connection, bodies)
        alone = await _one_after_another(talks[0], heard, said)
        floor += await serial_publishes(bench.connection, bodies)
        before = cpu_seconds(pids[0])
        paced, missed = await _paced(talks[1:], heard, said)
        used = (cpu_seconds(pids[0]) - before) / max(1, len(paced))
        floor += await serial_publishes(bench.connection, bodies)
    base = median(floor)
    detail = f"serial publish {spread(floor, unit=' ms')}"
    rate = f"{RATE_PER_SECOND}/s over {len(talks) - 1} conversations"
    told = f"{spread(paced, unit=' ms')}, {missed} not announced; {number(used * 1e3)} ms of worker CPU each"
    return [
        Figure(
            goal="issue",
            what="publish to ready, one after another, p50 / serial publish",
            value=median(alone) / base,
            bound=15.0,
            detail=f"{spread(alone, unit=' ms')}; {detail}",
        ),
        Figure(
            goal="issue",
            what=f"publish to ready, {rate}, p50 / serial publish",
            value=median(paced) / base,
            bound=15.0,
            detail=told,
        ),
        Figure(
            goal="issue",
            what=f"publish to ready, {rate}, p99 / serial publish",
            value=quantile(paced, 0.99) / base,
            bound=40.0,
            detail=f"p99 {number(quantile(paced, 0.99))} ms",
        ),
    ]


async def _one_after_another(talk: Conversation, heard: Announcements, said: Sequence[Json]) -> list[float]:
    spent = []
    for index, message in enumerate(said, 2):
        ready = heard.expect(talk, index)
        started = time.perf_counter()
        await talk.append([message])
        spent.append((await asyncio.wait_for(ready, READY_SECONDS) - started) * 1e3)
    return spent


async def _paced(talks: Sequence[Conversation], heard: Announcements, said: Sequence[Json]) -> tuple[list[float], int]:
    """Append at a fixed rate whatever happens; return the milliseconds to ready, and how many were never announced."""
    counts = dict.fromkeys(range(len(talks)), 1)
    spent: list[float] = []
    missed = 0

    async def one(index: int, message: Json) -> None:
        nonlocal missed
        counts[index] += 1
        ready = heard.expect(talks[index], counts[index])
        started = time.perf_counter()
        await talks[index].append([message])
        try:
            spent.append((await asyncio.wait_for(ready, READY_SECONDS) - started) * 1e3)
        except TimeoutError:
            missed += 1

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for turn in range(RATE_PER_SECOND * RATE_SECONDS):
            await asyncio.sleep(max(0.0, begun + turn / RATE_PER_SECOND - time.perf_counter()))
            group.create_task(one(turn % len(talks), said[turn % len(said)]))
    return spent, missed


async def throughput_figures(bench: Bench) -> list[Figure]:
    """Measure events to ready over many conversations, beside raw asynchronous publishes of the same envelopes."""
    out = []
    for batch in (1, 10):
        heard = Announcements()
        await heard.listen(bench)
        async with workers(bench, ["spill", "spill"]):
            talks = await opened(bench, MANY_CONVERSATIONS, heard)
            envelopes = [_small(index, batch) for index in range(MANY_CONVERSATIONS * MANY_ENVELOPES)]
            bodies = [body_of(new) for new in envelopes]
            raw = [await asynchronous_publishes(bench.connection, bodies) for _ in range(2)]
            seconds, silent = await _all_ready(talks, heard, envelopes)
            raw.append(await asynchronous_publishes(bench.connection, bodies))
        events = len(envelopes) * batch
        floor, ours = len(envelopes) / median(raw), len(envelopes) / seconds
        told = f"{number(events / seconds)} events/s; raw {number(floor)} envelopes/s"
        told += f"; {silent} of {len(talks)} not announced"
        what = f"full path, {batch} message{'s' if batch > 1 else ''} an envelope"
        out.append(
            Figure(
                goal="issue" if batch == 1 else "",
                what=f"{what} / raw asynchronous publish of the same envelopes",
                value=ours / floor,
                bound=0.3 if batch == 1 else None,
                least=True,
                detail=told,
            )
        )
        if batch == 1:
            single = floor
        else:
            out.append(
                Figure(
                    goal="issue",
                    what="full path, batching counted: events / raw asynchronous publish of single events",
                    value=events / seconds / single,
                    bound=0.3,
                    least=True,
                    detail=told,
                )
            )
    return out


def _small(index: int, batch: int) -> list[Json]:
    text = f"{index}: the order is late, and the customer asks again. " * 10
    return [{"role": "user", "content": f"{text} ({at})"} for at in range(batch)]


async def _all_ready(
    talks: Sequence[Conversation], heard: Announcements, envelopes: Sequence[list[Json]]
) -> tuple[float, int]:
    """Append all *envelopes*, spread over *talks* that speak at once; return the seconds, and who was not announced."""
    shares = [envelopes[index :: len(talks)] for index in range(len(talks))]
    ends = [heard.expect(talk, 1 + sum(map(len, share))) for talk, share in zip(talks, shares, strict=True)]

    async def speak(talk: Conversation, share: Sequence[list[Json]]) -> None:
        for new in share:
            await talk.append(new)

    started = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for talk, share in zip(talks, shares, strict=True):
            group.create_task(speak(talk, share))
    # a message that comes while a worker looks is worked on and not announced: the last word of any then counts
    _, missing = await asyncio.wait(ends, timeout=QUIET_SECONDS)
    while missing and time.perf_counter() - heard.newest < QUIET_SECONDS:
        _, missing = await asyncio.wait(missing, timeout=QUIET_SECONDS)
    return heard.newest - started, len(missing)


class Bytes:
    """What is written to the streams of the service, by their first words."""

    def __init__(self) -> None:
        self.said = self.done = self.snapshots = self.wakes = 0

    async def listen(self, bench: Bench) -> None:
        """Listen to everything that is stored."""
        await bench.connection.subscribe("ctx.v1.log.*.*.*", cb=self._logged)
        await bench.connection.subscribe("ctx.v1.snap.*.*", cb=self._snapshot)
        await bench.connection.subscribe("ctx.v1.wake.*.*.*", cb=self._woken)

    async def _logged(self, message: Any) -> None:
        if message.subject.endswith(".said"):
            self.said += len(message.data)
        else:
            self.done += len(message.data)

    async def _snapshot(self, message: Any) -> None:
        self.snapshots += len(message.data)

    async def _woken(self, message: Any) -> None:
        self.wakes += len(message.data)


async def long_figures(bench: Bench, *, turns_wanted: int = LONG_TURNS) -> list[Figure]:
    """Measure one conversation of very many turns: the time of a turn, the bytes written, the memory."""
    written = Bytes()
    await written.listen(bench)
    policy = {"budget": {"window": LONG_WINDOW_TOKENS, "reserve": 0}}
    talk = await bench.client.open(f"bench-{fresh_id()}", policy=policy)
    spent: list[float] = []
    used: list[float] = []
    memory: list[list[float]] = []
    edge = max(1, min(100, turns_wanted // 10))
    async with workers(bench, ["spill", "digest", "cut"]) as pids:
        for index, new in enumerate(turns(turns_wanted, result_bytes=LONG_RESULT_BYTES), 1):
            started = time.perf_counter()
            await talk.append(new)
            await talk.context(patience=30)
            spent.append((time.perf_counter() - started) * 1e3)
            used.append(time.process_time() + sum(map(cpu_seconds, pids)))
            if index % (turns_wanted // 10) == 0:
                memory.append([resident_mb(pid) for pid in pids])
    first, last = spent[5 : 5 + edge], spent[-edge:]
    # of processes the kernel tells hundredths of a second: only sums of many turns say something
    first_used, last_used = used[5 + edge] - used[5], used[-1] - used[-1 - edge]
    all_bytes = written.said + written.done + written.snapshots + written.wakes
    grown = max(last_one / early for last_one, early in zip(memory[-1], memory[1], strict=True))
    parts = f"said {number(written.said / 1e6)} MB, commits {number(written.done / 1e6)}"
    parts += f", snapshots {number(written.snapshots / 1e6)}, wake-ups {number(written.wakes / 1e6)}"
    return [
        Figure(
            goal="issue",
            what=f"{turns_wanted:,} turns of one conversation: last {edge} / first {edge}, medians",
            value=median(last) / median(first),
            bound=1.5,
            detail=f"{spread(last, unit=' ms')} / {spread(first, unit=' ms')}",
        ),
        Figure(
            goal="",
            what=f"{turns_wanted:,} turns of one conversation: CPU of the last {edge} / first {edge}",
            value=last_used / first_used,
            bound=None,
            detail=f"{number(last_used / edge * 1e3)} / {number(first_used / edge * 1e3)} ms a turn, agent and workers",
        ),
        Figure(
            goal="issue",
            what="bytes written to all streams / deltas (what was said and committed)",
            value=all_bytes / (written.said + written.done),
            bound=1.5,
            detail=parts,
        ),
        Figure(goal="", what="bytes written to all streams / bytes said", value=all_bytes / written.said, bound=None),
        Figure(
            goal="issue",
            what="memory of the workers at the end / after a fifth",
            value=grown,
            bound=1.1,
            detail=" | ".join(", ".join(number(one) for one in row) for row in memory[1::4]) + " MB",
        ),
    ]
