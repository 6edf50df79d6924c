"""Fairness: what an agent of one tenant waits for its view while another tenant floods, beside the same agent alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from protocol import subjects
from protocol.client import Conversation
from protocol.ids import fresh_id
from tests.programs.bench.figures import Figure, median, number, quantile, spread
from tests.programs.bench.histories import turns
from tests.programs.bench.servers import Bench, processes, workers

Json = dict[str, Any]

TURNS = 200
SECONDS_MAX = 40.0
"""So long are turns counted beside the flood, where they are slower."""

WARM_TURNS = 20
ACTORS = ("spill", "spill", "digest", "cut")
WAIT_SECONDS = 60.0

SMALL = "a message that fits"
LARGE = "a result that is stored in S3"
RESULT_BYTES = 8_000
WINDOW_TOKENS = 32_000
"""In which a result of that size is spilled: the view waits for a worker, not for the context service alone."""


async def fairness_figures(bench: Bench) -> list[Figure]:
    """Measure append to view of a quiet tenant: alone, while another one keeps 500 conversations waiting, alone again.

    The flood is what two workers work off on this machine, and one process more that says it.
    """
    policy = {"budget": {"window": WINDOW_TOKENS, "reserve": 0}}
    tenant = f"quiet-{fresh_id()[:6]}"
    talks = {kind: await bench.client.open(f"quiet-{fresh_id()}", tenant=tenant, policy=policy) for kind in _SAID}
    command = ("-m", "tests.programs.bench.flood", str(bench.folder), f"flood-{fresh_id()[:6]}")
    alone: dict[str, list[float]] = {}
    flooded: dict[str, list[float]] = {}
    async with workers(bench, ACTORS):
        for kind, talk in talks.items():
            await _turns(talk, kind, WARM_TURNS)
            alone[kind] = await _turns(talk, kind, TURNS // 2)
        async with processes([command]):
            before, started = await _worked_off(bench), time.perf_counter()
            for kind, talk in talks.items():
                flooded[kind] = await _turns(talk, kind, TURNS)
            rate = (await _worked_off(bench) - before) / (time.perf_counter() - started)
            left = await _waiting(bench)
        await _until_calm(bench)
        for kind, talk in talks.items():
            alone[kind] += await _turns(talk, kind, TURNS - TURNS // 2)
    beside = f"beside {number(rate)} events/s of the other, {left} waiting"
    return [figure for kind in talks for figure in _figures(kind, flooded[kind], alone[kind], beside)]


def _figures(kind: str, flooded: list[float], alone: list[float], beside: str) -> list[Figure]:
    what = f"publish to view of {kind}, a tenant beside one that floods / alone"
    slow, fast = quantile(flooded, 0.99), quantile(alone, 0.99)
    return [
        Figure(
            goal="",
            what=f"{what}, p50",
            value=median(flooded) / median(alone),
            bound=None,
            detail=f"{spread(flooded, unit=' ms')} / {spread(alone, unit=' ms')}; {beside}",
        ),
        # promise 31 of the project's research on event sourcing
        Figure(
            goal="31", what=f"{what}, p99", value=slow / fast, bound=3.0, detail=f"{number(slow)} / {number(fast)} ms"
        ),
    ]


def _small(number: int) -> list[Json]:
    return [{"role": "user", "content": f"{number}: and what is known of this order by now, please? " * 5}]


def _large(number: int) -> list[Json]:
    (found,) = turns(1, result_bytes=RESULT_BYTES, seed=number)
    return found[:3]


_SAID: dict[str, Callable[[int], list[Json]]] = {SMALL: _small, LARGE: _large}


async def _turns(talk: Conversation, kind: str, count: int) -> list[float]:
    """Return the milliseconds from saying something to having the view with it, one turn after the other."""
    spent: list[float] = []
    ends = time.perf_counter() + SECONDS_MAX
    while len(spent) < count and time.perf_counter() < ends:
        said = _SAID[kind](time.monotonic_ns())
        started = time.perf_counter()
        await talk.append(said)
        await talk.context(patience=WAIT_SECONDS)
        spent.append((time.perf_counter() - started) * 1e3)
    return spent


async def _worked_off(bench: Bench) -> int:
    """Return how many wake-ups of spill were ever acknowledged."""
    info = await bench.connection.jetstream().consumer_info(subjects.WAKE_STREAM, subjects.durable("spill", "normal"))
    return info.ack_floor.consumer_seq if info.ack_floor else 0


async def _waiting(bench: Bench) -> int:
    info = await bench.connection.jetstream().consumer_info(subjects.WAKE_STREAM, subjects.durable("spill", "normal"))
    return (info.num_pending or 0) + (info.num_ack_pending or 0)


async def _until_calm(bench: Bench) -> None:
    async with asyncio.timeout(WAIT_SECONDS):
        while await _waiting(bench):
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
