"""The processes of two releases: workers that start and stop in order, and agents whose every view is judged."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from protocol.ids import Address, address, fresh_id
from protocol.subjects import ACTORS
from tests.programs.chaos.agent import Ended
from tests.programs.chaos.checks import Spoken
from tests.programs.chaos.speech import by_turn, generated, policy
from tests.programs.upgrade.agent import LINE_BYTES_MAX
from tests.programs.upgrade.release import Release

AGENT = Path(__file__).with_name("agent.py")
START_SECONDS = 90.0
STOP_SECONDS = 60.0
TURNS = 200
"""Of one conversation: more than a run needs, so that those that began first live through all of it."""


@dataclass(kw_only=True)
class Worker:
    """One worker of one release."""

    release: Release
    actor: str
    process: subprocess.Popen[bytes]
    log: Path

    async def works(self) -> None:
        """Wait until it says that it works."""
        ends = time.monotonic() + START_SECONDS
        while f"{self.actor} works on" not in self.log.read_text(errors="replace"):
            assert self.process.poll() is None, f"{self.actor} of {self.release.name} ended: {self.log.read_text()}"
            assert time.monotonic() < ends, f"{self.actor} of {self.release.name} does not work"
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop it in order: it has to end so."""
        self.process.terminate()
        code = await asyncio.to_thread(self.process.wait, STOP_SECONDS)
        assert code == 0, f"{self.actor} of {self.release.name} ended with {code}: {self.log.read_text()[-2000:]}"


@dataclass(kw_only=True)
class Workers:
    """All workers of a run; *environment* names the servers."""

    environment: Mapping[str, str]
    logs: Path
    running: list[Worker] = field(default_factory=list)

    async def start(self, release: Release, actors: Sequence[str] = ACTORS, **settings: str) -> None:
        """Start one worker of *release* for each of *actors*, and wait for them."""
        begun = [self._begun(release, actor, settings) for actor in actors]
        for worker in begun:
            await worker.works()

    def _begun(self, release: Release, actor: str, settings: Mapping[str, str]) -> Worker:
        log = self.logs / f"{release.name}-{actor}-{fresh_id()[:6]}.log"
        environment = {**self.environment, **release.environment, **settings}
        with log.open("wb") as out:
            command = release.command("worker", actor)
            process = subprocess.Popen(command, env=environment, cwd=self.logs, stdout=out, stderr=out)
        self.running.append(Worker(release=release, actor=actor, process=process, log=log))
        return self.running[-1]

    async def stop(self, release: Release) -> None:
        """Stop those of *release*, one after the other."""
        for worker in [one for one in self.running if one.release is release]:
            await worker.stop()
            self.running.remove(worker)

    def kill(self) -> None:
        """End all that are left."""
        for worker in self.running:
            worker.process.kill()
            worker.process.wait()


@dataclass(kw_only=True)
class Talk:
    """One conversation of an agent."""

    at: Address
    turns: Sequence[Sequence[dict[str, Any]]]
    budgets: Sequence[int]
    spoken: Spoken = field(default_factory=Spoken)
    hashes: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Agents:
    """The agents of one release, in one process."""

    release: Release
    process: asyncio.subprocess.Process
    talks: dict[str, Talk] = field(default_factory=dict)
    turns: int = 0
    wrong: list[str] = field(default_factory=list)
    hearing: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.hearing = asyncio.create_task(self._heard())

    def begin(self) -> None:
        """Begin one more conversation."""
        number = len(self.talks)
        name = f"{self.release.name}-{number}-{fresh_id()[:6]}"
        rng = random.Random(f"{self.release.name}/{number}")
        turns = by_turn(generated(rng, 2 * TURNS, "default"))[:TURNS]
        budgets = [0 if rng.random() < 0.8 else 3_500 for _ in turns]
        self.talks[name] = Talk(at=address(name), turns=turns, budgets=budgets)
        script = {"name": name, "number": number, "policy": policy(rng), "turns": turns, "budgets": budgets}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(script).encode() + b"\n")

    async def end(self) -> list[Ended]:
        """Have all conversations end; return them."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.hearing
        if code := await self.process.wait():
            self.wrong.append(f"the agents of {self.release.name} ended with {code}")
        return [Ended(at=talk.at, spoken=talk.spoken, hashes=talk.hashes) for talk in self.talks.values()]

    async def _heard(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            told = json.loads(line)
            talk = self.talks[told["name"]]
            if "ended" not in told:
                self._judge(talk, told)
            elif told["failed"]:
                self.wrong.append(f"a request of {talk.at} failed: {told['failed']}")

    def _judge(self, talk: Talk, told: dict[str, Any]) -> None:
        number = len(talk.hashes)
        talk.spoken.add(talk.turns[number])
        talk.hashes.append(told["hash"])
        context: Any = SimpleNamespace(**told)
        found = talk.spoken.wrong(context, budget=talk.budgets[number])
        if not told["read"]:
            found.append("its first pointer leads to nothing")
        self.wrong += [f"{talk.at}, version {told['version']}: {one}" for one in found]
        self.turns += 1


async def agents(release: Release, environment: Mapping[str, str]) -> Agents:
    """Start the process of agents of *release*."""
    process = await asyncio.create_subprocess_exec(
        *(str(release.python), str(AGENT)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**environment, **release.environment},
        cwd=tempfile.gettempdir(),
        limit=LINE_BYTES_MAX,
    )
    return Agents(release=release, process=process)
