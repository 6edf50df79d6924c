"""`make upgrade`: the last release and this one side by side, forwards, one version back, and forwards again.

Exit code 1 where a request of an agent fails, a view is wrong, or a log is not what it has to be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from actors.cli.session import pointed
from actors.host.bootstrap import Runtime, runtime
from actors.host.embedded import EmbeddedStack, embedded_stack
from actors.host.settings import LlmSection, Settings
from protocol import codec
from protocol.errors import Unavailable
from protocol.ids import Address, Token
from tests.programs.chaos.agent import Ended
from tests.programs.chaos.audit import audited
from tests.programs.chaos.checks import Audit
from tests.programs.upgrade.parts import Agents, Workers, agents
from tests.programs.upgrade.release import Release, built, installed, rules_of, run_beside, todays
from tests.promises.harness import environment
from tests.stack import ScriptedLlm, scripted_llm

SEEN_SECONDS_MAX = 180.0
KEYS = "keys"


class Run:
    """One run: servers, workers and agents of both releases."""

    def __init__(self, old: Release, *, settings: Settings, stack: EmbeddedStack, turns: int) -> None:
        self.old, self.new, self.turns = old, todays(), turns
        self.settings, self.monitor = settings, stack.endpoints.monitor
        self.environment = {
            **environment(settings, JETTISON_LLM__API_KEY="none"),
            "PYTHONFAULTHANDLER": "1",  # who ends by a signal says where
        }
        self.workers = Workers(environment=self.environment, logs=Path(settings.data) / "logs")
        self.rules = rules_of(old)
        self.agents: list[Agents] = []
        self.wrong: list[str] = []
        self.began = time.monotonic()

    async def all(self) -> int:
        """Run to the end; return the exit code."""
        old, new = self.old, self.new
        await self._done(old, "provision")
        async with runtime(self.settings, role="test") as running:
            await running.keys.prepare(Token("default"))
        await self.workers.start(old)
        self.agents = [await agents(release, self.environment) for release in (old, new)]
        await self._seen("old workers alone", doctor="not say" if self.rules == codec.RULES_VERSION else "")
        await self._done(new, "provision")
        await self.workers.start(new, JETTISON_RULES__WRITE=self.rules)
        await self._seen("both, forwards", doctor="mixed ones")
        await self.workers.stop(old)
        await self._seen("new workers alone", doctor="all of this release")
        await self.workers.start(old)
        await self.workers.stop(new)
        await self._done(old, "provision")
        await self._seen("one version back: old workers alone")
        await self._done(old, "verify", "--all")
        await self._done(old, "replay", "--all", "--verify")
        await self._done(new, "provision")
        await self.workers.start(new, JETTISON_RULES__WRITE=self.rules)
        await self.workers.stop(old)
        await self._seen("forwards again: new workers alone")
        newest = Release(name="newest", python=new.python, environment=new.environment)
        await self.workers.start(newest)
        await self.workers.stop(new)
        await self._seen(f"new workers by rules {codec.RULES_VERSION}")
        await self._in_the_end()
        return self._told()

    async def _seen(self, what: str, *, doctor: str = "") -> None:
        """Begin conversations of both releases, and wait until they and the older ones went on."""
        for one in self.agents:
            for _ in range(2):
                one.begin()
        before = [one.turns for one in self.agents]
        ends = time.monotonic() + SEEN_SECONDS_MAX
        while any(one.turns < count + self.turns for one, count in zip(self.agents, before, strict=True)):
            if time.monotonic() > ends or any(one.wrong for one in self.agents):
                self.wrong.append(f"{what}: the agents do not go on")
                break
            await asyncio.sleep(0.05)
        turns = ", ".join(f"{one.turns} of {one.release.name}" for one in self.agents)
        told = await self._doctor() if doctor else ""
        if doctor not in told:
            self.wrong.append(f"{what}: doctor says {told!r}, and not {doctor!r}")
        print(f"{time.monotonic() - self.began:6.1f} s  {what}: turns {turns}{'; ' if told else ''}{told}", flush=True)

    async def _doctor(self) -> str:
        done = await self._command(self.new, "doctor", "--monitor", self.monitor, "--json")
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return "".join(row["detail"] for row in rows if row["what"] == "releases") or done.stderr

    async def _in_the_end(self) -> None:
        """End all conversations, and judge each log against what its agent said and saw."""
        ended = [talk for one in self.agents for talk in await one.end()]
        async with runtime(self.settings, role="test") as running:
            found = await self._judged(running, ended)
            letters = [kept.letter async for kept in running.dead_letters.all()]
        self.wrong += [f"{at}: {one}" for at, judged in found for one in judged.wrong]
        self.wrong += [f"a dead letter: {letter}" for letter in letters]
        rebuilt, commits = sum(one.rebuilt for _, one in found), sum(one.commits for _, one in found)
        print(f"{len(found)} conversations, {commits} commits, {rebuilt} views rebuilt", flush=True)
        await self._done(self.new, "verify", "--all")
        # rolling, the last steps by the older rules stand behind the first by the newer ones: this release decides all
        await self._done(self.new, "replay", "--all", "--strict", JETTISON_RULES__WRITE=self.rules)
        if self.rules != codec.RULES_VERSION:
            await self._done(self.new, "replay", "--all", "--verify", "--with", str(self.old.python.parent.parent))

    async def _judged(self, running: Runtime, ended: Sequence[Ended]) -> list[tuple[Address, Audit]]:
        found = []
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            for one in ended:
                try:
                    if one.hashes:  # begun at the very end, it may have said nothing
                        found.append((one.at, await audited(running, one, pool)))
                except Unavailable as error:
                    self.wrong.append(f"{one.at} was not judged: {type(error).__name__}: {error}")
        return found

    async def _done(self, release: Release, *arguments: str, **settings: str) -> None:
        """Run a command of *release*, which has to succeed."""
        done = await self._command(release, *arguments, **settings)
        if release is self.old and done.returncode == -signal.SIGSEGV:
            # d778314 has its types looked over by threads at once (tests/runtime/test_decoded_in_threads.py)
            print(
                f"{release.name} {' '.join(arguments)} crashed, and is run once more: {done.stderr[:300]}", flush=True
            )
            done = await self._command(release, *arguments, **settings)
        last = (done.stdout + done.stderr).strip().rpartition("\n")[2]
        print(f"{time.monotonic() - self.began:6.1f} s  {release.name} {' '.join(arguments)}: {last}", flush=True)
        if done.returncode:
            out = (done.stdout + done.stderr)[-2000:]
            self.wrong.append(f"{release.name} {' '.join(arguments)} ended with {done.returncode}: {out}")

    async def _command(self, release: Release, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(
            subprocess.run,
            release.command(*arguments),
            env={**self._of(release), **settings},
            cwd=self.settings.data,
            capture_output=True,
            text=True,
        )

    def _of(self, release: Release) -> Mapping[str, str]:
        return {**self.environment, **release.environment}

    def _told(self) -> int:
        wrong = [*self.wrong, *(found for one in self.agents for found in one.wrong)]
        for found in wrong:
            print(f"WRONG: {found}")
        print(f"{len(wrong)} violations in {time.monotonic() - self.began:.0f} s")
        return int(bool(wrong))


async def ran(options: argparse.Namespace, folder: Path) -> int:
    """Make the old release, start the servers and run."""
    old = installed(options.wheel, folder / "old") if options.wheel else built(options.release, folder / "old")
    data = folder / "data"
    (data / "logs").mkdir(parents=True)
    (data / KEYS).mkdir(mode=0o700)
    count = 0

    def answer(_: object) -> str:
        nonlocal count
        count += 1
        return f"Summary {count}: the work goes on, nothing is decided yet."

    llm: ScriptedLlm
    async with embedded_stack(data) as stack, scripted_llm([answer]) as llm:
        settings = pointed(Settings(data=str(data), llm=LlmSection(base_url=llm.base_url)), stack.endpoints)
        run = Run(old, settings=settings, stack=stack, turns=options.turns)
        try:
            return await run.all()
        finally:
            run.workers.kill()
            for one in run.agents:
                if one.process.returncode is None:
                    one.process.kill()


def main() -> int:
    """Read the command line, run."""
    parser = argparse.ArgumentParser(prog="make upgrade", description=__doc__)
    parser.add_argument("--turns", type=int, default=40, help="of the agents of each release, in each of six steps")
    return run_beside(parser, ran)


if __name__ == "__main__":
    sys.exit(main())
