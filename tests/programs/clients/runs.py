"""Runs: one client through its task, in a home and a folder of its own, so that nothing of the user's is touched."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .agents import Agent, Server
from .install import installed
from .script import Delegate, Look, ReadBack, Run, Say, Step, Upstream, written
from .transcripts import PROMPTS

CLIENT_SECONDS = 240.0
READS_EVERY = 13
SCRUBBED = (
    "ANTHROPIC_",
    "OPENAI_",
    "CLAUDE",
    "CODEX",
    "COPILOT",
    "GITHUB_",
    "GH_",
    "JETTISON_",
    "XDG_",
    "NODE_",
    "PI_",
)
"""Beginnings of what in our environment would tell a client something."""


@dataclass(frozen=True)
class Sitting:
    """One start of a client: its command, and what its last words are to be; empty where it has none of its own."""

    argv: tuple[str, ...]
    words: str = ""


@dataclass(kw_only=True)
class Done:
    """What came of one run."""

    agent: Agent
    server: Server
    home: Path
    run: Run
    sittings: Sequence[Sitting]
    ended: list[tuple[int, str]] = field(default_factory=list)
    """Exit code and output of each sitting."""
    seconds: float = 0.0

    @property
    def looks(self) -> int:
        """Return the steps of the task."""
        return sum(isinstance(step, Look) for step in self.run.steps)

    @property
    def finished(self) -> bool:
        """Tell whether the client came to the end of its task, each step once."""
        if len(self.ended) < len(self.sittings) or self.run.done != list(range(self.looks)):
            return False
        return all(one.words in told for one, (_, told) in zip(self.sittings, self.ended, strict=True))

    @property
    def codes(self) -> list[int]:
        """Return the exit codes that are not 0: some clients end so after an error that they got over."""
        return [code for code, _ in self.ended if code]


def task_of(agent: Agent, turns: int) -> tuple[list[Step], list[Sitting]]:
    """Return a task of *turns* looks and its sittings: resumed, forked and summarised where a client can."""
    cuts = {turns * 2 // 3: (*agent.again, f"{PROMPTS[1]}.")}
    if agent.fork:
        cuts |= {turns - 6: (*agent.fork, f"{PROMPTS[1]}."), turns - 3: (*agent.again, f"{PROMPTS[1]}.")}
    argv, steps = (*agent.first, f"{PROMPTS[0]}."), list[Step]()
    sittings: list[Sitting] = []
    for number in range(turns):
        if number in cuts:
            words = f"That was sitting {len(sittings)}."
            steps.append(Say(words))
            sittings.append(Sitting(argv, words))
            argv = cuts[number]
            if agent.compact and number == turns - 3:
                sittings.append(Sitting(agent.compact))
        if number and number % READS_EVERY == 0:
            steps.append(ReadBack())
        if number == turns // 2:
            steps.append(Delegate())
        steps.append(Look(number))
    return [*steps, Say("All logs are read.")], [*sittings, Sitting(argv, "All logs are read.")]


async def ran(agent: Agent, server: Server, *, upstream: Upstream, folder: Path, turns: int) -> Done:
    """Run *agent* through a task of *turns* looks; a client that fails is not started again."""
    steps, sittings = task_of(agent, turns)
    home = folder / server.run
    run = Run(steps=steps, notes=home / "work" / "notes.txt")
    done = Done(agent=agent, server=server, home=home, run=run, sittings=sittings)
    upstream.runs[server.run] = done.run
    (done.home / "work").mkdir(parents=True)
    written(done.home / "work", server.run, done.looks)
    began = time.monotonic()
    for sitting in sittings:
        told = agent.settings(done.home, server)
        done.ended.append(await ended(sitting.argv, agent.client, home=done.home, told=told))
        if done.ended[-1][0] and sitting.words not in done.ended[-1][1]:
            break
    done.seconds = time.monotonic() - began
    return done


async def ended(
    argv: Sequence[str], client: str, *, home: Path, told: Mapping[str, str], seconds: float = CLIENT_SECONDS
) -> tuple[int, str]:
    """Run a command of the client's to its end, in *home*; return its exit code and what it said."""
    paths = os.pathsep.join([*map(str, installed(client)), os.environ["PATH"]])
    plain = {key: value for key, value in os.environ.items() if not key.startswith(SCRUBBED)}
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=home / "work",
        env={**plain, "HOME": str(home), "PATH": paths, "PWD": str(home / "work"), "NO_COLOR": "1", **told},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate()
    except TimeoutError:
        # with whatever it has started
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        return 124, f"not done in {seconds:g} s"
    return process.returncode or 0, out.decode("utf-8", "replace")
