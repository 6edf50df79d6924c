"""`python -m tests.programs.chaos`: many turns while workers and servers are killed; exit code 1 on any violation."""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from nats.js.errors import APIError

from actors.cli.transcripts import transcripts
from actors.host import embedded
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.runtime import conversations
from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import Unavailable
from protocol.ids import Address, address, fresh_id
from storage.known_layout import known_layout
from storage.streams import consumers
from tests.programs.chaos.agent import Ended, Tally, insisted, play
from tests.programs.chaos.audit import audited
from tests.programs.chaos.faults import CHAOS_ACK_WAIT_SECONDS, ELDERS, Herd, herd, inject, schedule
from tests.programs.chaos.growing import KILLS, grown
from tests.programs.chaos.nursery import WARM_MAX, tasks_folder
from tests.programs.chaos.retire import Retirement
from tests.programs.chaos.servers import Servers, started
from tests.programs.chaos.speech import Script, scripts
from tests.programs.chaos.summary import Summary, spent
from tests.programs.chaos.tenants import Tenants, tenants
from tests.programs.chaos.watch import Watch
from tests.promises.harness import environment
from tests.stack import ScriptedLlm, scripted_llm

SAMPLE = Path(__file__).parents[2] / "data" / "sample.json"
LOOK_SECONDS = 5.0
PROGRESS_SECONDS_MAX = 30.0
SETTLE_SECONDS = 120.0
POISONED = 3


class Model:
    """What the model says. No two answers are alike: a step that is asked twice and adopted twice would show."""

    def __init__(self) -> None:
        self.requests = 0

    def answer(self, server: ScriptedLlm) -> str:
        """Return the next answer, and forget what was asked: a long run has many requests."""
        self.requests += 1
        server.requests.clear()
        return f"Summary {self.requests}: the work goes on, nothing is decided yet."


class Run:
    """One run: its agents, its faults, and what is known in the end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tally = Tally()
        self.faults: Counter[str] = Counter()
        self.begun = self.conversations = self.contexts_rebuilt = self.commits = 0
        self.model = Model()
        self.retirement = Retirement()
        self.tenants: Tenants
        self.pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self.unsettled: list[Ended] = []
        """Conversations that somebody still worked on long after their end."""
        self.started = time.monotonic()
        self.ends = self.started + options.minutes * 60 if options.minutes else math.inf

    async def all(self) -> int:
        """Run to the end; return the exit code."""
        embedded.RESTARTS_MAX = 1_000_000  # who kills servers on purpose does not want the stack to give up
        conversations.WARM_MAX = WARM_MAX
        async with AsyncExitStack() as held:
            held.enter_context(self.pool)
            data = Path(self.options.data or held.enter_context(tempfile.TemporaryDirectory(prefix="jettison-chaos-")))
            servers = await held.enter_async_context(self._servers(data))
            running = await held.enter_async_context(runtime(servers.settings, role="chaos"))
            await _hasty(running)
            workers = await held.enter_async_context(self._herd(data, servers.settings))
            watch = Watch(folder=tasks_folder(data))
            progress = asyncio.create_task(self._progress(workers, servers, watch))
            poisoned = await self._poison(running)
            async with self._injected(workers, servers):
                retiring = asyncio.create_task(self._retire(running))
                growing = asyncio.create_task(self._grow(servers.settings))
                await self._agents(servers.settings, running)
                retiring.cancel()
                await growing
            self.told(f"{self.clock()} calm: the faults are over")
            await self._in_the_end(running, poisoned)
            self.tally.violations += servers.damage() + servers.refused()
            progress.cancel()
            growths = watch.growths()
            self.tally.violations += workers.died + [wrong for growth in growths for wrong in growth.wrong()]
            if self.options.spare and not growths:
                self.tally.violations.append("no worker was judged: its caches were full too late, or never")
            summary = self.summary(watch, servers)
            shown = msgspec.json.encode(summary).decode() if self.options.json else summary.table()
            sys.stdout.write(f"{shown}\n")
            self._keep_logs(data)
        return int(bool(self.tally.violations))

    def _servers(self, data: Path) -> AbstractAsyncContextManager[Servers]:
        partitions, grow_to = self.options.partitions, self.options.grow_to
        most = max(partitions, grow_to)
        return started(data, cluster=self.options.cluster, partitions=partitions, most=most)

    async def _grow(self, settings: Settings) -> None:
        """In the middle, spread the log over more partitions; who moves it is killed now and then."""
        if not self.options.grow_to:
            return
        while self.tally.turns < self.options.turns / 3:
            await asyncio.sleep(LOOK_SECONDS)
        self.told(f"{self.clock()} growing to {self.options.grow_to} partitions")
        killed = await grown(settings, self.options.grow_to, seed=self.options.seed, kills=KILLS)
        self.faults["repartition"] += killed
        self.told(f"{self.clock()} grown to {self.options.grow_to} partitions, though killed {killed} times")

    @asynccontextmanager
    async def _herd(self, data: Path, settings: Settings) -> AsyncIterator[Herd]:
        """Run the workers and the model that they ask."""
        tasks_folder(data).mkdir(parents=True)
        async with scripted_llm([lambda _: self.model.answer(llm)]) as llm:
            model = {"JETTISON_LLM__BASE_URL": llm.base_url, "JETTISON_LLM__API_KEY": "none"}
            rights = {"JETTISON_NATS__PASSWORD": settings.nats.password}
            async with herd(data, {**environment(settings), **model, **rights}) as workers:
                yield workers

    @asynccontextmanager
    async def _injected(self, workers: Herd, servers: Servers) -> AsyncIterator[None]:
        """Let faults happen until the end."""
        spared = ELDERS if self.options.spare else ()
        kill_seconds, cluster = self.options.kill_seconds, self.options.cluster
        planned = schedule(self.options.seed, kill_seconds=kill_seconds, spared=spared, cluster=cluster)
        faults = asyncio.create_task(inject(planned, workers, servers, self.faults))
        try:
            yield
        finally:
            if faults.done():
                self.tally.violations.append(f"the faults ended: {faults.exception()!r}")
            faults.cancel()
            await asyncio.gather(faults, return_exceptions=True)

    async def _agents(self, settings: Settings, running: Runtime) -> None:
        """Let all agents speak, a bounded number at once, until the turns or the minutes are over."""
        recorded = [one.messages for file in (SAMPLE, *self.options.transcripts) for one in transcripts(file)]
        waiting = scripts(self.options.seed, self.options.turns, recorded)
        async with AsyncExitStack() as held:
            self.tenants = await held.enter_async_context(tenants(settings.nats.url, self.tally))
            async with asyncio.TaskGroup() as group:
                for _ in range(self.options.agents):
                    group.create_task(self._agent(waiting, running))
            self.tally.violations += self.tenants.wrong()

    async def _agent(self, waiting: Iterator[Script], running: Runtime) -> None:
        """Play one conversation after the other, and compare each with its log at its end."""
        for script in waiting:
            if time.monotonic() > self.ends:
                return
            self.begun += 1
            ended = await play(await self.tenants.client(script), script, self.tally, ends=self.ends)
            if ended is None:
                continue
            try:
                await self._judge(ended, running)
            except Unavailable:
                # the faults keep its workers from ending their work; when they are over, it must settle
                self.unsettled.append(ended)

    async def _judge(self, ended: Ended, running: Runtime) -> None:
        found = await insisted(lambda: audited(running, ended, self.pool), self.tally)
        self.tally.violations += [f"{ended.at}: {wrong}" for wrong in found.wrong]
        self.conversations += 1
        self.contexts_rebuilt += found.rebuilt
        self.commits += found.commits
        if not found.wrong:
            self.retirement.end(ended.at)

    async def _retire(self, running: Runtime) -> None:
        """Remove what ended long ago, so that a long run does not grow by itself."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                await self.retirement.retire(running)
            except (Unavailable, APIError, *TRANSIENT) as error:
                self.tally.retries[type(error).__name__] += 1

    async def _poison(self, running: Runtime) -> set[Address]:
        """Spoil a few conversations by commits that nobody can read."""
        spoiled = {address(f"poisoned-{number}", "chaos") for number in range(POISONED)}
        for at in spoiled:
            body = b"\x93\xa8commit.9\x01\x02"
            await running.log.append(at, body, expected_seq=0, commit_id=fresh_id(), headers={})
            await running.wakes.wake("spill", at, headers={})
        return spoiled

    async def _in_the_end(self, running: Runtime, poisoned: set[Address]) -> None:
        """Check what must hold when all is quiet."""
        ends = time.monotonic() + SETTLE_SECONDS
        layout = await known_layout(running.connection).again()
        if layout.moving or layout.partitions != (self.options.grow_to or self.options.partitions):
            self.tally.violations.append(f"there are {layout.partitions} partitions, moving: {layout.moving}")
        while (left := await _filled(running)) and time.monotonic() < ends:
            await asyncio.sleep(0.5)
        if left:
            self.tally.violations.append(f"{left} slots are filled for ever")
        if self.unsettled:
            self.told(f"{self.clock()} {len(self.unsettled)} conversations are audited now, when they are at rest")
        for ended in self.unsettled:
            try:
                await self._judge(ended, running)
            except Unavailable as error:
                self.tally.violations.append(f"{ended.at} was not audited: {type(error).__name__}: {error}")
        letters = {kept.letter.at: kept.letter async for kept in running.dead_letters.all()}
        for at, letter in letters.items():
            if at not in poisoned:
                self.tally.violations.append(f"a dead letter that nobody injected: {letter}")
        self.tally.violations += [f"{at} has no dead letter" for at in poisoned - set(letters)]

    async def _progress(self, workers: Herd, servers: Servers, watch: Watch) -> None:
        """Look at all processes, and say now and then how far the run is."""
        every = min(PROGRESS_SECONDS_MAX, max(LOOK_SECONDS, self.options.minutes / 2))
        before = shown = 0
        told = time.monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            watch.begun(self.begun)
            watch.look(workers.workers(), {pid: name for name, pid in servers.pids.items()} | {os.getpid(): "agents"})
            for violation in self.tally.violations[shown:]:
                self.told(f"violation: {violation}")
            shown = len(self.tally.violations)
            if (waited := time.monotonic() - told) < every:
                continue
            told += waited
            rate, before = (self.tally.turns - before) / waited, self.tally.turns
            killed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
            held = ", ".join(f"{name} {mb:.0f}" for name, mb in sorted(watch.largest_mb.items()))
            self.told(
                f"{self.clock()} {before:,} of {self.options.turns:,} turns ({rate:.0f}/s), {self.contexts_rebuilt:,} "
                f"contexts rebuilt, killed: {killed}; at most MB: {held}; {len(self.tally.violations)} violations"
            )

    def clock(self) -> str:
        """Return how long it has been."""
        seconds = int(time.monotonic() - self.started)
        return f"{seconds // 60:02}:{seconds % 60:02}"

    def told(self, text: str) -> None:
        """Write at once: to stdout, or to stderr where stdout is for programs."""
        out = sys.stderr if self.options.json else sys.stdout
        out.write(text + "\n")
        out.flush()

    def summary(self, watch: Watch, servers: Servers) -> Summary:
        """Return the figures of the run."""
        tally = self.tally
        return Summary(
            seed=self.options.seed,
            seconds=int(time.monotonic() - self.started),
            turns=tally.turns,
            conversations=self.conversations,
            contexts_rebuilt=self.contexts_rebuilt,
            commits=self.commits,
            messages=tally.messages,
            retired=self.retirement.conversations,
            thieves=len(self.tenants.thieves),
            thieves_heard=sum(thief.heard for thief in self.tenants.thieves.values()),
            thieves_asked=sum(thief.asked for thief in self.tenants.thieves.values()),
            faults=dict(self.faults),
            put_back=dict(Counter(servers.put_back)),
            appending=spent(tally.append_seconds),
            asking=spent(tally.ask_seconds),
            levels=dict(tally.levels),
            pointers_read=tally.reads,
            retries=dict(tally.retries),
            model_requests=self.model.requests,
            largest_mb=watch.largest_mb,
            growths=watch.growths(),
            violations=tally.violations,
        )

    def _keep_logs(self, data: Path) -> None:
        """Show the end of what the workers said, where something went wrong."""
        log = data / "logs" / "workers.log"
        if self.tally.violations and log.exists():
            kept = Path(tempfile.gettempdir()) / f"jettison-chaos-{self.options.seed}.log"
            kept.write_bytes(log.read_bytes())
            self.told(f"the workers' log: {kept}")


async def _hasty(running: Runtime) -> None:
    """Let the slots of killed workers come back sooner: each takes a dozen along, and all agents would wait."""
    jetstream = running.connection.jetstream()
    for stream in await known_layout(running.connection).streams(subjects.WAKE_STREAM):
        for wanted in consumers():
            await jetstream.add_consumer(stream, wanted.evolve(ack_wait=CHAOS_ACK_WAIT_SECONDS))


async def _filled(running: Runtime) -> int:
    """Return how many slots are filled, of all partitions."""
    streams = await known_layout(running.connection).streams(subjects.WAKE_STREAM)
    found = [await running.connection.jetstream().stream_info(stream) for stream in streams]
    return sum(one.state.messages for one in found)


def main() -> int:
    """Read the flags, run."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs.chaos", description=__doc__)
    parser.add_argument("--turns", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=None, help="that of an earlier run repeats its schedule")
    parser.add_argument("--minutes", type=float, default=0.0, help="say nothing new after so long")
    parser.add_argument("--agents", type=int, default=40, help="conversations at once")
    parser.add_argument("--kill-seconds", type=float, default=0.5, help="between two killed workers")
    parser.add_argument(
        "--cluster", action="store_true", help="NATS as three servers, one of which is away now and then"
    )
    parser.add_argument("--partitions", type=int, default=1, help="parts of the log")
    parser.add_argument("--grow-to", type=int, default=0, help="and so many from a third of the turns on")
    parser.add_argument("--spare", action="store_true", help="never kill one worker of each actor: may it grow?")
    parser.add_argument("--transcripts", type=Path, nargs="*", default=[], help="recorded conversations to play too")
    parser.add_argument("--data", default="", help="keep the servers' data here")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, all else on stderr")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    run = Run(options)
    run.told(f"seed {options.seed}: {options.turns:,} turns, {options.agents} agents")
    return asyncio.run(_until_told(run.all()))


async def _until_told(work: Coroutine[Any, Any, int]) -> int:
    """Return the exit code of *work*; where a signal ends it, its servers and workers are ended first.

    A shell that starts it in the background has it ignore Ctrl-C: so both are asked for.
    """
    running, told = asyncio.ensure_future(work), list[int]()

    def end(number: int) -> None:
        told.append(number)
        running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await running
    except asyncio.CancelledError:
        if not told:
            raise
        return 128 + told[0]


if __name__ == "__main__":
    sys.exit(main())
