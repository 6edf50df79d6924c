"""Replay beside live: the same facts folded, and decided again, by as many processes as there are processors."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from actors.audit.replay import Replayed
from actors.cli.replay_pool import processors
from actors.host.bootstrap import runtime
from protocol import codec
from protocol.client import Conversation
from protocol.ids import fresh_id
from storage.ports import Record
from tests.programs.bench.figures import Figure, number
from tests.programs.bench.histories import turns
from tests.programs.bench.servers import Bench, cpu_seconds, workers

ACTORS = ("spill", "digest", "cut")
CONVERSATIONS = 48
"""The start of three processes (2 to 4 s of CPU time) is in each figure, and of a fold of so few it is the most."""

TURNS = 50

LOADS = {
    "3 KB results, each stored and shortened, in a window of 16,000": (3_000, {"window": 16_000, "reserve": 0}),
    "8 KB results in the default window": (8_000, {}),
}


async def replaying_figures(bench: Bench) -> list[Figure]:
    """Measure facts a second of `jettison replay`, its start and its reading included, and of the live path before.

    Live is one worker process of each actor, and all conversations at once.
    """
    loads = LOADS.items()
    return [figure for what, (size, budget) in loads for figure in await _figures(bench, what, size, budget)]


async def _figures(bench: Bench, what: str, size: int, budget: dict[str, int]) -> list[Figure]:
    policy = {"budget": budget} if budget else {}
    talks = [await bench.client.open(f"bench-{fresh_id()}", policy=policy) for _ in range(CONVERSATIONS)]
    live, live_cpu = await _lived(bench, talks, size)
    facts = await _facts(bench, talks)
    folded, folded_cpu, kept = await _replayed(bench, talks, "--fold", jobs=processors())
    many, many_cpu, found = await _replayed(bench, talks, jobs=processors())
    again, views = sum(one.decided_again for one in found), sum(one.views for one in found)
    told = f"live {number(facts / live)}/s; {facts:,} facts, {views:,} views rebuilt"
    everybody = f"of live (agents, workers, NATS, S3) {number(live_cpu)} s"
    states = sum(one.states for one in kept)
    return [
        Figure(
            goal="issue",
            what=f"replay --fold by {processors()} processes / live, facts a second; {what}",
            value=live / folded,
            bound=20.0,
            least=True,
            detail=f"{number(facts / folded)}/s; {told}, {states} kept states; CPU {number(folded_cpu)} s, {everybody}",
        ),
        Figure(
            goal="",
            what=f"replay by {processors()} processes / live, facts a second; {what}",
            value=live / many,
            bound=None,
            least=True,
            detail=f"{number(facts / many)}/s; {told}, {again:,} steps decided again; CPU {number(many_cpu)} s, "
            f"{everybody}",
        ),
    ]


async def _lived(bench: Bench, talks: Sequence[Conversation], size: int) -> tuple[float, float]:
    """Play all conversations, a view before each call of a model; return the seconds, and those of all CPUs for it."""

    async def play(talk: Conversation, seed: int) -> None:
        for asked, called, result, answer in turns(TURNS, result_bytes=size, seed=seed):
            await talk.append([asked])
            await talk.context(patience=60)
            await talk.append([called, result])
            await talk.context(patience=60)
            await talk.append([answer])

    async with workers(bench, ACTORS):
        before, began = _everybodys_cpu(), time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for seed, talk in enumerate(talks):
                group.create_task(play(talk, seed))
        return time.perf_counter() - began, _everybodys_cpu() - before


async def _replayed(
    bench: Bench, talks: Sequence[Conversation], *options: str, jobs: int
) -> tuple[float, float, list[Replayed]]:
    """Run the command; return its seconds, its CPU seconds, and what it found: a row for each, and no difference."""
    before, began = _childrens_cpu(), time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from actors.cli import main; main()", "replay", *(str(talk.at) for talk in talks)),
        *(*options, "--verify", "--json", "--jobs", str(jobs), "--data", str(bench.folder)),
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    seconds = time.perf_counter() - began
    assert process.returncode == 0, out[-500:]
    found = [msgspec.json.decode(line, type=Replayed) for line in out.splitlines()]
    assert [one.address for one in found if one.divergence] == []
    assert len(found) == len(talks)
    return seconds, _childrens_cpu() - before, found


def _everybodys_cpu() -> float:
    """Return the CPU seconds of this process, which is the agents, and of its children: workers, NATS and S3."""
    listed = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    return time.process_time() + sum(cpu_seconds(int(pid)) for pids in listed for pid in pids)


def _childrens_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


async def _facts(bench: Bench, talks: Sequence[Conversation]) -> int:
    async with runtime(bench.settings, role="bench") as running:
        return sum([_count(await running.log.read(talk.at, after=0)) for talk in talks])


def _count(records: Sequence[Record]) -> int:
    said = sum(len(codec.decode_said(record.body).facts) for record in records if record.side == "said")
    return said + sum(len(codec.decode_commit(record.body).facts) for record in records if record.side == "done")
