"""Squeeze is bound by the model: more workers squeeze more, and none asks twice."""

from __future__ import annotations

import asyncio
import secrets
import time

from nats.js.client import JetStreamContext

from protocol import subjects
from protocol.ids import fresh_id
from tests.programs.bench.figures import Figure, number
from tests.programs.bench.servers import Bench, processes, workers
from tests.stack import ScriptedLlm, scripted_llm

ANSWER_SECONDS = 0.3
PER_WORKER = 16
"""Conversations for each worker: the ideal time is the same for any number of workers."""

WORKERS = (1, 2, 4, 8)
WAIT_SECONDS = 120.0

POLICY = {
    "budget": {"window": 4_000, "reserve": 0},
    "target": {"low_water": 0.1},
    "digest": {"style": "values"},
    "squeeze": {"mode": "squeeze", "model": "scripted", "prompt_version": "v1"},
}
"""After the digest still over its target, so that each conversation needs the model once."""


async def squeeze_figures(bench: Bench) -> list[Figure]:
    """Measure how the time of a queue of squeezes changes with the workers, and how many calls were wasted."""
    seconds: dict[int, float] = {}
    wasted = 0
    for count in WORKERS:
        async with scripted_llm([ANSWER_SECONDS]) as llm:
            await _queued(bench, count * PER_WORKER)
            seconds[count] = await _worked_off(bench, llm, count)
            wasted += len(llm.requests) - count * PER_WORKER
    ideal = PER_WORKER * ANSWER_SECONDS
    out = [
        Figure(
            goal="issue",
            what=f"squeeze by {count} workers: efficiency against one",
            value=seconds[1] / seconds[count],
            bound=0.9,
            least=True,
            unit="",
            detail=f"{number(spent)} s for {count * PER_WORKER} calls, ideal {number(ideal)} s",
        )
        for count, spent in seconds.items()
    ]
    calls = sum(WORKERS) * PER_WORKER
    out.append(Figure(goal="issue", what=f"wasted calls of {calls}", value=wasted, bound=0, unit=""))
    return out


async def _queued(bench: Bench, count: int) -> None:
    """Bring *count* new conversations to where only squeeze can go on."""
    async with workers(bench, ["spill", "digest"]):
        for _ in range(count):
            talk = await bench.client.open(f"bench-{fresh_id()}", policy=POLICY)
            await talk.append(_said())
        ends = time.monotonic() + WAIT_SECONDS
        while await _waiting(bench.connection.jetstream()) < count:
            assert time.monotonic() < ends, "the digests were not made"
            await asyncio.sleep(0.1)


def _said() -> list[dict[str, str]]:
    """Return messages like nobody else's: equal questions would be asked once."""
    mark = secrets.token_hex(4)
    said = []
    for turn in range(12):
        text = " ".join(f"partOf{turn}Name{mark}{index}" for index in range(60))
        said += [{"role": "user", "content": text}, {"role": "assistant", "content": f"Seen: {text}"}]
    return said


async def _worked_off(bench: Bench, llm: ScriptedLlm, count: int) -> float:
    """Return the seconds from the first question to the end of the queue."""
    command = ("-m", "tests.programs.bench.one_slot", str(bench.folder), llm.base_url)
    async with processes([command] * count):
        started = 0.0
        ends = time.monotonic() + WAIT_SECONDS
        while await _waiting(bench.connection.jetstream()):
            assert time.monotonic() < ends, "the squeezes were not made"
            if not started and llm.requests:
                started = time.monotonic()
            await asyncio.sleep(0.05)
        return time.monotonic() - started


async def _waiting(jetstream: JetStreamContext) -> int:
    info = await jetstream.stream_info(subjects.WAKE_STREAM, subjects_filter=subjects.wake_filter("squeeze"))
    return len(info.state.subjects or {})
