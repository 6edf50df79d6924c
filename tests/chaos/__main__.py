"""`python -m tests.chaos`: many turns while workers and servers are killed; exit code 1 on any violation."""

from __future__ import annotations

import argparse
import asyncio
import math
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

from actors import embedded
from actors.bootstrap import Runtime, runtime
from actors.cli.session import started_stack
from actors.cli.transcripts import transcripts
from actors.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.ids import Address, address, fresh_id
from storage.streams import consumers
from tests.stack import scripted_llm

from .agent import Tally, insisted, play
from .audit import audited
from .faults import CHAOS_ACK_WAIT_SECONDS, Herd, herd, inject, schedule
from .speech import Script, scripts

SAMPLE = Path(__file__).parents[1] / "data" / "sample.json"
PROGRESS_SECONDS = 5.0
SETTLE_SECONDS = 120.0
POISONED = 3
ANSWERS = tuple(f"Summary {number}: the work goes on, nothing is decided yet." for number in range(20_000))
"""No two are alike, as with a real model: a step that is asked twice and adopted twice would show."""


class Run:
    """One run: its agents, its faults, and what is known in the end."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.tally = Tally()
        self.faults: Counter[str] = Counter()
        self.conversations = 0
        self.started = time.monotonic()
        self.ends = self.started + options.minutes * 60 if options.minutes else math.inf

    async def all(self) -> int:
        """Run to the end; return the exit code."""
        embedded.RESTARTS_MAX = 1_000_000  # who kills servers on purpose does not want the stack to give up
        async with AsyncExitStack() as held:
            data = Path(self.options.data or held.enter_context(tempfile.TemporaryDirectory(prefix="jettison-chaos-")))
            settings, stack = await held.enter_async_context(started_stack(Settings(data=str(data))))
            llm = await held.enter_async_context(scripted_llm(ANSWERS))
            running = await held.enter_async_context(runtime(settings, role="chaos"))
            await _hasty(running)
            environment = {"JETTISON_LLM__BASE_URL": llm.base_url, "JETTISON_LLM__API_KEY": "none"}
            environment |= {"OTEL_SDK_DISABLED": "true"}
            workers = await held.enter_async_context(herd(data, environment))
            faults = asyncio.create_task(
                inject(schedule(self.options.seed, kill_seconds=self.options.kill_seconds), workers, stack, self.faults)
            )
            progress = asyncio.create_task(self._progress(workers))
            poisoned = await self._poison(settings, running)
            await self._agents(settings, running)
            if faults.done():
                self.tally.violations.append(f"the faults ended: {faults.exception()!r}")
            faults.cancel()
            await asyncio.gather(faults, return_exceptions=True)
            told(f"{self.clock()} calm: the faults are over")
            await self._in_the_end(running, poisoned)
            progress.cancel()
            self.tally.violations += workers.died
            told(self.table(workers, requests=len(llm.requests)))
            self._keep_logs(data)
        return int(bool(self.tally.violations))

    async def _agents(self, settings: Settings, running: Runtime) -> None:
        """Let all agents speak, a bounded number at once, until the turns or the minutes are over."""
        recorded = [one.messages for file in (SAMPLE, *self.options.transcripts) for one in transcripts(file)]
        waiting = scripts(self.options.seed, self.options.turns, recorded)
        async with AsyncExitStack() as held:
            clients = [await held.enter_async_context(Client.connect(settings.nats.url)) for _ in range(4)]
            for client in clients:
                client.patience_seconds = 5.0
            pool = held.enter_context(ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")))
            async with asyncio.TaskGroup() as group:
                for index in range(self.options.agents):
                    group.create_task(self._agent(clients[index % len(clients)], waiting, running, pool))

    async def _agent(
        self, client: Client, waiting: Iterator[Script], running: Runtime, pool: ProcessPoolExecutor
    ) -> None:
        """Play one conversation after the other, and compare each with its log at its end."""
        for script in waiting:
            if time.monotonic() > self.ends:
                return
            ended = await play(client, script, self.tally, ends=self.ends)
            if ended is not None:
                found = await insisted(lambda ended=ended: audited(running, ended, pool), self.tally)  # type: ignore[misc]
                self.tally.violations += [f"{ended.at}: {wrong}" for wrong in found]
                self.conversations += 1

    async def _poison(self, settings: Settings, running: Runtime) -> set[Address]:
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
        jetstream = running.connection.jetstream()
        while (left := (await jetstream.stream_info(subjects.WAKE_STREAM)).state.messages) and time.monotonic() < ends:
            await asyncio.sleep(0.5)
        if left:
            self.tally.violations.append(f"{left} slots are filled for ever")
        letters = {kept.letter.at: kept.letter async for kept in running.dead_letters.all()}
        for at, letter in letters.items():
            if at not in poisoned:
                self.tally.violations.append(f"a dead letter that nobody injected: {letter}")
        self.tally.violations += [f"{at} has no dead letter" for at in poisoned - set(letters)]

    async def _progress(self, workers: Herd) -> None:
        before = shown = 0
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            for violation in self.tally.violations[shown:]:
                told(f"violation: {violation}")
            shown = len(self.tally.violations)
            workers.look()
            rate = (self.tally.turns - before) / PROGRESS_SECONDS
            before = self.tally.turns
            killed = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
            told(
                f"{self.clock()} {before:,} of {self.options.turns:,} turns ({rate:.0f}/s), killed: {killed}; "
                f"{len(self.tally.violations)} violations"
            )

    def clock(self) -> str:
        """Return how long it has been."""
        seconds = int(time.monotonic() - self.started)
        return f"{seconds // 60:02}:{seconds % 60:02}"

    def table(self, workers: Herd, *, requests: int) -> str:
        """Return the figures of the run."""
        tally = self.tally
        rows = {
            "seed": self.options.seed,
            "turns, each with a checked view": f"{tally.turns:,}",
            "conversations, each replayed": self.conversations,
            "messages acknowledged": f"{tally.messages:,}",
            "time": self.clock(),
            "faults": ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())),
            "appending": _spent(tally.append_seconds),
            "asking for a view": _spent(tally.ask_seconds),
            "levels of the views": dict(tally.levels.most_common()),
            "pointers read back": tally.reads,
            "calls made again": dict(tally.retries.most_common()),
            "requests to the model": requests,
            "largest worker": f"{workers.rss_mb_max:.0f} MB",
            "violations": len(tally.violations),
        }
        lines = [f"{name:32} {value}" for name, value in rows.items()]
        return "\n".join((*lines, *tally.violations[:50]))

    def _keep_logs(self, data: Path) -> None:
        """Show the end of what the workers said, where something went wrong."""
        log = data / "logs" / "workers.log"
        if self.tally.violations and log.exists():
            kept = Path(tempfile.gettempdir()) / f"jettison-chaos-{self.options.seed}.log"
            kept.write_bytes(log.read_bytes())
            told(f"the workers' log: {kept}")


async def _hasty(running: Runtime) -> None:
    """Let the slots of killed workers come back sooner: each takes a dozen along, and all agents would wait."""
    jetstream = running.connection.jetstream()
    for wanted in consumers():
        await jetstream.add_consumer(subjects.WAKE_STREAM, wanted.evolve(ack_wait=CHAOS_ACK_WAIT_SECONDS))


def _spent(seconds: Sequence[float]) -> str:
    if not seconds:
        return "never"
    spent = sorted(seconds)
    p50, p99 = spent[len(spent) // 2], spent[len(spent) * 99 // 100]
    return f"p50 {p50 * 1000:.0f} ms, mean {sum(spent) / len(spent) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms"


def told(text: str) -> None:
    """Write to stdout at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def main() -> int:
    """Read the flags, run."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--turns", type=int, default=25_000)
    parser.add_argument("--seed", type=int, default=None, help="that of an earlier run repeats its schedule")
    parser.add_argument("--minutes", type=float, default=0.0, help="say nothing new after so long")
    parser.add_argument("--agents", type=int, default=40, help="conversations at once")
    parser.add_argument("--kill-seconds", type=float, default=0.5, help="between two killed workers")
    parser.add_argument("--transcripts", type=Path, nargs="*", default=[], help="recorded conversations to play too")
    parser.add_argument("--data", default="", help="keep the servers' data here")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(10**6)
    told(f"seed {options.seed}: {options.turns:,} turns, {options.agents} agents")
    return asyncio.run(Run(options).all())


if __name__ == "__main__":
    sys.exit(main())
