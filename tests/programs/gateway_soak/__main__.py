"""`make soak-gateways`: agents behind two gateways, on the last release at first, on this one from the middle on.

Before the half each process is replaced by this release's, one after the other, which decides by the last one's rules;
at the half each is started anew without that (`operations.md`, Updates). Exit code 1 where a request of an agent
failed (see `agents.py`), a view was not legal, a log is not what its agent said, or a process grew.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from actors.cli.session import pointed
from actors.host.bootstrap import Runtime, runtime
from actors.host.embedded import embedded_stack
from actors.host.settings import LlmSection, Settings
from actors.runtime.task_group import beside
from protocol import codec
from protocol.ids import Token, fresh_id
from tests.gateway.model import OVERFLOW
from tests.gateway.provider import Provider, provider
from tests.programs.chaos.watch import Growth, Watch
from tests.programs.gateway_faults.__main__ import BOUND
from tests.programs.gateway_faults.agents import KINDS
from tests.programs.gateway_soak.agents import Agent, Tally
from tests.programs.gateway_soak.checks import wrong_logs
from tests.programs.gateway_soak.model import WINDOW, SlowModel, replies
from tests.programs.gateway_soak.parts import GATEWAYS, Balancer, Part, parts
from tests.programs.upgrade.release import Release, built, installed, rules_of, run_beside, todays
from tests.promises.harness import environment
from tests.stack import ScriptedLlm, scripted_llm

AGENTS_OF_KIND = 2
FULL_AFTER, UPGRADE_AT, RULES_AT = 0.2, 0.45, 0.5
"""Of the time; from the half on too, caches are full after a fifth of it."""

DEADLINE_SECONDS = 10.0
"""Of a gateway: the window is strict, and what went on as it came would be refused."""

TELL_SECONDS = 30.0
LOOK_SECONDS = 5.0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    seconds: int
    turns: int
    begun: int
    resumed: int
    forked: int
    requests: dict[str, int]
    """Attempts, by status and what the gateway did."""
    retries: int
    """That SDKs made by themselves."""
    failed: int
    """Requests whose error reached their agent."""
    replaced: int
    """Processes."""
    provider: dict[str, int]
    largest_mb: dict[str, float]
    growths: list[Growth]
    violations: list[str]

    def table(self) -> str:
        """Return it for people."""
        rows = {
            name: ", ".join(f"{key} {count:,.0f}" for key, count in sorted(value.items()))
            if isinstance(value, dict)
            else value
            for name, value in msgspec.structs.asdict(self).items()
            if name not in ("growths", "violations")
        }
        lines = [f"{name:12} {value}" for name, value in rows.items()]
        lines += [one.line() for one in self.growths]
        return "\n".join((*lines, *(f"WRONG: {one}" for one in self.violations), f"{len(self.violations)} violations"))


class Run:
    """One run."""

    def __init__(self, options: argparse.Namespace, old: Release, *, settings: Settings, model: SlowModel) -> None:
        self.seconds: float = options.seconds
        self.old, self.new, self.settings, self.model = old, todays(), settings, model
        self.rules = {"JETTISON_RULES__WRITE": rules_of(old)}
        self.tally, self.over, self.watches = Tally(), asyncio.Event(), [Watch(folder=None)]
        self.agents: list[Agent] = []
        self.parts: list[Part] = []
        self.wrong: list[str] = []
        self.replaced = 0
        self.began = time.monotonic()

    async def all(self, upstream: Provider, environment: Mapping[str, str], pids: Mapping[str, int]) -> Summary:
        """Run to the end."""
        await self._done(self.old, environment, "provision")
        async with AsyncExitStack() as held:
            running = await held.enter_async_context(runtime(self.settings, role="test"))
            await running.keys.prepare(Token("default"))
            self.parts = held.enter_context(parts(environment, Path(self.settings.data) / "logs"))
            await asyncio.gather(*(one.start(self.old) for one in self.parts))
            self.began = time.monotonic()
            balancer = Balancer(gateways=self.parts[-GATEWAYS:])
            await held.enter_async_context(beside(balancer.run()))
            self.agents = _agents(balancer, self.tally, self.over)
            self.model.runs = {agent.run for agent in self.agents}
            async with beside(self._watched(pids, upstream)):
                ending = self._changed(balancer, environment)
                await asyncio.gather(ending, *(agent.lived() for agent in self.agents))
                await self._judged(running, environment)
        return self._summary()

    async def _changed(self, balancer: Balancer, environment: Mapping[str, str]) -> None:
        """Replace all processes twice."""
        try:
            await self._until(FULL_AFTER)
            self.watches[-1].full()
            await self._until(UPGRADE_AT)
            await self._done(self.new, environment, "provision")
            await self._replaced(balancer, {**environment, **self.rules}, drained=True)
            self._progress("each process is of this release")
            await self._until(RULES_AT)
            await self._replaced(balancer, environment, drained=False)
            self._progress("each process decides by this release's rules")
            self.watches.append(Watch(folder=None))
            await self._until(RULES_AT + FULL_AFTER)
            self.watches[-1].full()
            await self._until(1.0)
        except AssertionError as error:
            self.wrong.append(str(error))
        finally:
            self.over.set()

    async def _replaced(self, balancer: Balancer, given: Mapping[str, str], *, drained: bool) -> None:
        """Replace each process by this release's; *drained*: a gateway's answers end before it is told."""
        for one in self.parts:
            if drained and one.port:
                # the last release cuts them two seconds after SIGTERM
                await balancer.drain(one.port, lambda port: any(agent.port == port for agent in self.agents))
            await one.stop()
            one.environment = given
            await one.start(self.new)
            balancer.left_out.clear()
            self.replaced += 1
            self._progress(f"{one.name} is replaced")

    async def _until(self, share: float) -> None:
        await asyncio.sleep(max(0.0, self.began + share * self.seconds - time.monotonic()))

    async def _watched(self, pids: Mapping[str, int], upstream: Provider) -> None:
        told = time.monotonic()
        while True:
            ours = {one.process.pid: one.name for one in self.parts if one.process}
            self.watches[-1].look(ours, {pid: name for name, pid in pids.items()})
            upstream.asked.clear()
            if time.monotonic() > told + TELL_SECONDS:
                told = time.monotonic()
                self._progress("")
            await asyncio.sleep(LOOK_SECONDS)

    async def _judged(self, running: Runtime, environment: Mapping[str, str]) -> None:
        self._progress("the agents have ended, their logs are judged")
        self.wrong += await wrong_logs(self.agents, running=running)
        await self._done(self.new, environment, "verify", "--all")
        # rolling, the last steps by the older rules stand behind the first by the newer ones
        await self._done(self.new, {**environment, **self.rules}, "replay", "--all", "--strict")
        if rules_of(self.old) != codec.RULES_VERSION:
            # and those that this release wrote by the older rules, by the release whose they are
            older = str(self.old.python.parent.parent)
            await self._done(self.new, environment, "replay", "--all", "--verify", "--with", older)

    async def _done(self, release: Release, environment: Mapping[str, str], *arguments: str) -> None:
        """Run a command of *release*, which has to succeed."""
        done = await asyncio.to_thread(
            subprocess.run,
            release.command(*arguments),
            env={**environment, **release.environment},
            cwd=self.settings.data,
            capture_output=True,
            text=True,
        )
        out = (done.stdout + done.stderr).strip()
        self._progress(f"{release.name} {' '.join(arguments)}: {out.rpartition(chr(10))[2]}")
        if done.returncode:
            self.wrong.append(f"{release.name} {' '.join(arguments)} ended with {done.returncode}: {out[-2000:]}")

    def _progress(self, what: str) -> None:
        tally, seconds = self.tally, int(time.monotonic() - self.began)
        counted = f"{tally.turns} turns, {tally.retries} retries, {len(tally.failed)} failed"
        sys.stderr.write(f"{seconds // 60:02}:{seconds % 60:02}  {counted}{'; ' if what else ''}{what}\n")
        sys.stderr.flush()

    def _summary(self) -> Summary:
        growths = [growth for watch in self.watches for growth in watch.growths()]
        refused = self.model.refused
        # a gateway that is new asks again where it did not know of a view, and with a shorter one where it has to
        self.model.done["thoughts refused"] = sum(BOUND in why for why in refused)
        self.model.done["too long"] = refused.count(OVERFLOW)
        wrong = [f"a request failed: {one}" for one in self.tally.failed] + self.tally.wrong + self.wrong
        wrong += [f"the provider refused: {why}" for why in refused if BOUND not in why and why != OVERFLOW]
        wrong += self.model.foreign + [one for growth in growths for one in growth.wrong()]
        return Summary(
            seconds=round(time.monotonic() - self.began),
            turns=self.tally.turns,
            begun=self.tally.begun,
            resumed=self.tally.resumed,
            forked=self.tally.forked,
            requests=dict(self.tally.answers),
            retries=self.tally.retries,
            failed=len(self.tally.failed),
            replaced=self.replaced,
            provider=dict(self.model.done),
            largest_mb={
                name: max(one.largest_mb.get(name, 0.0) for one in self.watches)
                for watch in self.watches
                for name in watch.largest_mb
            },
            growths=growths,
            violations=list(dict.fromkeys(wrong)),
        )


def _agents(balancer: Balancer, tally: Tally, over: asyncio.Event) -> list[Agent]:
    return [
        Agent(
            run=f"{ask.__name__}{stream:d}x{fresh_id()[:6]}",
            ask=ask,
            stream=stream,
            balancer=balancer,
            tally=tally,
            over=over,
        )
        for _ in range(AGENTS_OF_KIND)
        for ask, stream in KINDS
    ]


async def ran(options: argparse.Namespace, folder: Path) -> int:
    """Make the old release, start the servers and run."""
    old = installed(options.wheel, folder / "old") if options.wheel else built(options.release, folder / "old")
    data = folder / "data"
    (data / "logs").mkdir(parents=True)
    (data / "keys").mkdir(mode=0o700)
    count = 0

    def answer(_: object) -> str:
        nonlocal count
        count += 1
        llm.requests.clear()
        return f"Summary {count}: the work goes on, nothing is decided yet."

    llm: ScriptedLlm
    model = SlowModel(window=WINDOW, replies=replies, rng=random.Random(17))
    async with embedded_stack(data) as stack, scripted_llm([answer]) as llm, provider(model) as upstream:
        settings = pointed(Settings(data=str(data), llm=LlmSection(base_url=llm.base_url)), stack.endpoints)
        given = environment(
            settings,
            JETTISON_LLM__API_KEY="none",
            JETTISON_GATEWAY__UPSTREAM__OPENAI=upstream.url,
            JETTISON_GATEWAY__UPSTREAM__ANTHROPIC=upstream.url,
            JETTISON_GATEWAY__WINDOW=str(WINDOW),
            JETTISON_GATEWAY__DEADLINE_SECONDS=str(DEADLINE_SECONDS),
            JETTISON_GATEWAY__ON_FAILURE="refuse",
            PYTHONFAULTHANDLER="1",
        )
        summary = await Run(options, old, settings=settings, model=model).all(upstream, given, stack.pids)
    sys.stdout.write((msgspec.json.encode(summary).decode() if options.json else summary.table()) + "\n")
    return int(bool(summary.violations))


def main() -> int:
    """Read the command line, run."""
    parser = argparse.ArgumentParser(prog="make soak-gateways", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600.0, help="how long the agents speak")
    parser.add_argument("--json", action="store_true", help="write the summary as JSON")
    return run_beside(parser, ran)


if __name__ == "__main__":
    sys.exit(main())
