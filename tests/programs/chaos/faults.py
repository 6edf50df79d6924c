"""Faults: who is killed or stopped, and when, as one seed says."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from storage.streams import ACK_WAIT_SECONDS
from tests.programs.chaos.servers import Servers

HERD = ("spill", "cut") * 4 + ("digest", "squeeze") * 2
"""The workers: one lives for six seconds on average, of which it needs one or two to connect and to load."""

ELDERS = tuple(HERD.index(actor) for actor in dict.fromkeys(HERD))
"""One worker of each actor. Where they are spared, their memory shows what a long life does."""

PAUSES = {"nats": (15.0, 30.0), "s3": (20.0, 40.0), "zombie": (40.0, 60.0)}
"""Seconds between two faults of a kind; how often a worker is killed says the run."""

CLUSTER_PAUSES = PAUSES | {"nats": (40.0, 60.0), "silent": (60.0, 90.0)}
"""Three servers are not hit as often as one: until new leaders are chosen (ten seconds or more), nobody can work."""

CHAOS_ACK_WAIT_SECONDS = ACK_WAIT_SECONDS / 3 + 1.0
"""As short as workers, who say every third of the real one that they are at it, allow."""

ZOMBIE_STOPS_SECONDS = CHAOS_ACK_WAIT_SECONDS + 3.0


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What happens at a time after the start: a server or the worker *index* is killed, or one of either stopped."""

    at_seconds: float
    kind: str
    index: int = 0


def schedule(seed: int, *, kill_seconds: float, spared: Collection[int] = (), cluster: bool = False) -> Iterator[Fault]:
    """Yield faults for ever, in the order of their time. *spared* workers are stopped, and never killed.

    Servers are stopped too where they are a *cluster*.
    """
    rng = random.Random(f"{seed}/faults")
    pauses = CLUSTER_PAUSES if cluster else PAUSES
    everybody = range(len(HERD))
    mortal = [index for index in everybody if index not in spared]
    due = {
        "worker": kill_seconds,
        "nats": rng.uniform(*pauses["nats"]),
        "s3": rng.uniform(*pauses["s3"]),
        "zombie": rng.uniform(*pauses["zombie"]) / 2,
    }
    if cluster:
        due["silent"] = rng.uniform(*pauses["silent"])
    while True:
        kind = min(due, key=lambda name: due[name])
        yield Fault(at_seconds=due[kind], kind=kind, index=rng.choice(mortal if kind == "worker" else everybody))
        due[kind] += rng.uniform(*pauses[kind]) if kind in pauses else kill_seconds


@dataclass(kw_only=True)
class Herd:
    """The worker processes."""

    nursery: asyncio.subprocess.Process
    pids: list[int] = field(default_factory=list)
    died: list[str] = field(default_factory=list)
    """Those that nobody killed."""

    async def start(self, actor: str) -> int:
        """Start one worker."""
        assert self.nursery.stdin is not None
        assert self.nursery.stdout is not None
        self.nursery.stdin.write(actor.encode() + b"\n")
        return int(await self.nursery.stdout.readline())

    async def kill(self, index: int) -> None:
        """Kill the worker *index* and start its successor."""
        pid = self.pids[index]
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)
        else:
            self.died.append(f"the {HERD[index]} worker {pid} ended by itself")
        self.pids[index] = await self.start(HERD[index])

    def workers(self) -> dict[int, str]:
        """Return the names of the workers by their process ids."""
        return dict(zip(self.pids, HERD, strict=True))


@asynccontextmanager
async def herd(data: Path, environment: Mapping[str, str]) -> AsyncIterator[Herd]:
    """Run all workers until the end."""
    nursery = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.programs.chaos.nursery", str(data)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        running = Herd(nursery=nursery)
        for actor in HERD:
            running.pids.append(await running.start(actor))
        yield running
    finally:
        assert nursery.stdin is not None
        nursery.stdin.close()
        await nursery.wait()


async def inject(faults: Iterator[Fault], herd: Herd, servers: Servers, done: Counter[str]) -> None:
    """Do what the schedule says until cancelled; nobody is left stopped."""
    started = time.monotonic()
    stopped: set[int] = set()
    try:
        async with asyncio.TaskGroup() as under_way:
            for fault in faults:
                await asyncio.sleep(max(0.0, started + fault.at_seconds - time.monotonic()))
                done[fault.kind] += 1
                if fault.kind == "worker":
                    if herd.pids[fault.index] not in stopped:
                        await herd.kill(fault.index)
                elif fault.kind == "zombie":
                    under_way.create_task(_stopped(herd.pids[fault.index], stopped))
                else:
                    under_way.create_task(servers.hit(fault.kind, fault.index))
    finally:
        for pid in stopped:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def _stopped(pid: int, stopped: set[int]) -> None:
    """Stop a worker for longer than its slots wait for it: what it does then comes too late."""
    with suppress(ProcessLookupError):
        stopped.add(pid)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(ZOMBIE_STOPS_SECONDS)
        os.kill(pid, signal.SIGCONT)
        await asyncio.sleep(2.0)
    stopped.discard(pid)


def is_alive(pid: int) -> bool:
    """Tell whether the process is there and no zombie of the kernel's."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
