"""`make gateway-faults`: agents work through two gateways in turn while everything behind them fails, and they too.

Exit code 1 where an agent does not finish, is told what is not its provider's error, or its log is not its history.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from actors.host.bootstrap import runtime
from protocol.ids import fresh_id
from tests.gateway.provider import Provider, provider
from tests.programs.gateway_faults.agents import KINDS, Agent, Tally, messages
from tests.programs.gateway_faults.checks import wrong_logs
from tests.programs.gateway_faults.model import FaultyModel
from tests.programs.gateway_faults.parts import Parts, parts
from tests.stack import listened_on

PROVIDER_WINDOW = 2_000_000
"""The provider takes whole histories too: what goes on as it came must not fail for its size. The agents' models are
such as are known to take a million tokens: what is known to fit nowhere is not passed on."""

FORGOTTEN = "bypass; NATS was not reached"
NEW_GATEWAYS = 3
"""Of a round."""

BOUND = "bound to a different"

FAULT_SECONDS_MAX = 90.0
LINE = re.compile(r"\d{4}-|\{|gateway|[A-Z]+ ")
"""How a line of a log begins; what does not is a traceback's."""


class Run:
    """One run."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.rounds: int = options.rounds
        self.tally, self.calm = Tally(), asyncio.Event()
        self.model = FaultyModel(window=PROVIDER_WINDOW)
        self.agents: list[Agent] = []
        self.began = time.monotonic()
        self.turns_max: int = options.turns

    async def all(self) -> int:
        """Run to the end; return the exit code."""
        with tempfile.TemporaryDirectory(prefix="jettison-gateway-") as folder:
            async with provider(self.model) as there, parts(Path(folder), there.url) as running:
                self.agents = [
                    Agent(
                        run=f"{ask.__name__}{stream:d}x{fresh_id()[:6]}",
                        ask=ask,
                        stream=stream,
                        urls=running.urls[:: 1 if stream else -1],
                        tally=self.tally,
                        calm=self.calm,
                        turns_max=self.turns_max,
                    )
                    for ask, stream in KINDS
                ]
                self.model.runs = {agent.run for agent in self.agents}
                lives = (self._faults(running, there), *(agent.lived() for agent in self.agents))
                ended = await asyncio.gather(*lives, return_exceptions=True)
                self.tally.wrong += [repr(one) for one in ended if one is not None]
                async with runtime(running.settings, role="test") as looking:
                    wrong = await wrong_logs(self.agents, log=looking.log)
                self._keep(Path(folder))
        return self._told(wrong)

    async def _faults(self, running: Parts, there: Provider) -> None:
        """Let one thing after the other fail, until it is seen that it did."""
        try:
            for _ in range(self.rounds):
                await self._seen("views", lambda: self._count("view"), 6)
                with running.frozen("nats"):
                    await self._seen("bypasses while NATS is frozen", lambda: self._count("bypass"), 6)
                    await self._seen("requests past an open breaker", lambda: self._count("bypass; what"), 3)
                await self._seen("views after it", lambda: self._count("view"), 6)
                with running.frozen("s3"):
                    await self._seen("turns without S3", lambda: self.tally.turns, 12)
                await self._killed(running)
                await self._forgotten(running)
                for name in ("cut", "busy"):
                    self.model.broken = name
                    await self._seen(f"answers that are {name}", lambda name=name: self.model.done[name], 6)  # type: ignore[misc]
                    self.model.broken = ""
                await self._seen("turns", lambda: self.tally.turns, 6)
                there.asked.clear()
        finally:
            self.calm.set()

    async def _killed(self, running: Parts) -> None:
        for worker in running.workers:
            worker.kill()
        await self._seen("turns without workers", lambda: self.tally.turns, 6)
        for worker in running.workers:
            worker.start()
        await self._seen("views by new workers", lambda: self._count("view"), 6)
        for gateway in running.gateways:
            before = self.tally.errors.total()
            gateway.kill()
            await self._seen("requests that a killed gateway broke off", lambda: self.tally.errors.total(), 1)
            assert self.tally.errors.total() > before
            await self._seen("turns by the other gateway", lambda: self.tally.turns, 4)
            gateway.start()
            await asyncio.to_thread(listened_on, int(gateway.arguments[1]))
            await self._seen("turns by both", lambda: self.tally.turns, 4)

    async def _forgotten(self, running: Parts) -> None:
        """Start a gateway while NATS is frozen: it knows nothing of what was sent before it."""
        gateway = running.gateways[0]
        with running.frozen("nats"):
            gateway.kill()
            gateway.start()
            await asyncio.to_thread(listened_on, int(gateway.arguments[1]))
            await self._seen("bypasses by a new gateway", lambda: self._count(FORGOTTEN), 6)
        await self._seen("views by it", lambda: self._count("view"), 6)

    def _count(self, how: str) -> int:
        return sum(count for told, count in self.tally.hows.items() if told.startswith(how))

    async def _seen(self, what: str, count: Callable[[], int], more: int) -> None:
        """Wait until there are *more* of what is counted."""
        before, ends = count(), time.monotonic() + FAULT_SECONDS_MAX
        while count() < before + more:
            if time.monotonic() > ends:
                self.tally.wrong.append(f"too few {what}: {count() - before} in {FAULT_SECONDS_MAX:g} s")
                return
            await asyncio.sleep(0.05)
        print(f"{time.monotonic() - self.began:6.1f} s  {count() - before} {what}", flush=True)

    def _keep(self, folder: Path) -> None:
        """Show the ends of the parts' logs, where something is wrong in them."""
        for file in sorted(folder.glob("*.log")):
            for line in file.read_text(errors="replace").splitlines():
                if not LINE.match(line):
                    print(f"{file.name}: {line[:200]}")

    def _told(self, wrong: list[str]) -> int:
        wrong += self.tally.wrong + self.model.foreign
        # a gateway that is new cannot know of views before it: it asks again, and no agent hears of that
        bound = [why for why in self.model.refused if BOUND in why]
        self.model.done["thoughts refused"] = len(bound)
        wrong += [f"the provider refused: {why}" for why in self.model.refused if BOUND not in why]
        if len(bound) > NEW_GATEWAYS * self.rounds * sum(agent.ask is messages for agent in self.agents):
            wrong.append(f"{len(bound)} times thoughts stood behind what they were not made behind")
        for agent in self.agents:
            if f"All is well, says {agent.run}." not in agent.answer:
                wrong.append(f"{agent.run} did not finish: {agent.answer[:200]}")
        print(f"turns {self.tally.turns}, hung up {self.tally.left}, in {time.monotonic() - self.began:.0f} s")
        for name, counted in (
            ("managed", self.tally.hows),
            ("errors", self.tally.errors),
            ("provider", self.model.done),
        ):
            print(f"{name}: " + ", ".join(f"{what} {count}" for what, count in counted.most_common()))
        for one in dict.fromkeys(wrong):
            print(f"WRONG: {one}")
        return int(bool(wrong))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="make gateway-faults")
    parser.add_argument("--rounds", type=int, default=2, help="how often each fault happens")
    parser.add_argument("--turns", type=int, default=150, help="of an agent, at most")
    return asyncio.run(Run(parser.parse_args()).all())


if __name__ == "__main__":
    sys.exit(main())
