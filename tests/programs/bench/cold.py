"""A cold start: what an agent waits for its view where no worker knows its conversation."""

from __future__ import annotations

import time

from protocol.client import Conversation
from protocol.ids import fresh_id
from storage.jetstream_snapshots import JetStreamSnapshots
from tests.programs.bench.figures import Figure, median, number, spread
from tests.programs.bench.histories import SIZES, history, turns
from tests.programs.bench.servers import Bench, workers

SAMPLES = 5
ENVELOPE_MESSAGES = 40
BOUNDS_MS = {"1 MB": 60.0, "20 MB": 300.0}


async def cold_figures(bench: Bench) -> list[Figure]:
    """Measure the first view of a conversation from workers that were just started, in the default window.

    They have answered another agent before: what a process loads once is no part of it.
    """
    talks = {size: await bench.client.open(f"bench-{fresh_id()}") for size in BOUNDS_MS}
    async with workers(bench, ["spill", "digest", "cut"]):
        for size, talk in talks.items():
            await _said(talk, size)
    spent: dict[str, list[float]] = {size: [] for size in talks}
    for _ in range(SAMPLES):
        async with workers(bench, ["spill", "digest", "cut"]):
            await _first_answer(bench)
            for size, talk in talks.items():
                began = time.perf_counter()
                await talk.context(patience=30)
                spent[size].append((time.perf_counter() - began) * 1e3)
    return [await _figure(bench, talks[size], size, spent[size]) for size in talks]


async def _said(talk: Conversation, size: str) -> None:
    said = history(SIZES[size])
    for start in range(0, len(said), ENVELOPE_MESSAGES):
        await talk.append(said[start : start + ENVELOPE_MESSAGES])
        await talk.context(patience=60, unfinished=True)


async def _first_answer(bench: Bench) -> None:
    """Have a view of a conversation that is new and small: the service is at work, and its tables are there."""
    talk = await bench.client.open(f"bench-{fresh_id()}")
    (new,) = turns(1, result_bytes=300)
    await talk.append(new)
    await talk.context(patience=60)


async def _figure(bench: Bench, talk: Conversation, size: str, spent: list[float]) -> Figure:
    kept = await JetStreamSnapshots(bench.connection).newest(talk.at)
    return Figure(
        goal="issue",
        what=f"cold start: the first view of a conversation of {size} from a worker that knows nothing of it",
        value=median(spent),
        bound=BOUNDS_MS[size],
        unit="ms",
        detail=f"{spread(spent, unit=' ms')}; its snapshot {number(len(kept or b'') / 1e3)} KB",
    )
