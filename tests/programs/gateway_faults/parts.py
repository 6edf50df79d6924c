"""The processes of the faults: workers and gateways that can be killed, and servers that can be frozen.

python -m tests.programs.gateway_faults.parts workers|gateway [PORT]
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from actors.cli.gateway import served
from actors.cli.session import run, started_stack
from actors.gateway import breaker
from actors.host.bootstrap import runtime, work
from actors.host.embedded import EmbeddedStack
from actors.host.settings import Settings, load
from tests.promises.harness import environment
from tests.stack import LOOPBACK, ROOT, free_port, listened_on

WINDOW = 16_000
DEADLINE_SECONDS = 2.0
BREAKER_SECONDS = 3.0
"""Shorter than in earnest, so that it opens and closes often."""

WORKERS = 2


@dataclass(kw_only=True)
class Part:
    """One process of ours."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    def start(self) -> None:
        """Start it."""
        command = [sys.executable, "-m", "tests.programs.gateway_faults.parts", *self.arguments]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, cwd=ROOT, env=self.environment, stdout=out, stderr=out)

    def kill(self) -> None:
        """End it at once, whatever it is at."""
        self.process.kill()
        self.process.wait()


@dataclass(kw_only=True)
class Parts:
    """All of them."""

    settings: Settings
    stack: EmbeddedStack
    workers: list[Part]
    gateways: list[Part]
    urls: list[str]

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Freeze a server of the stack, `nats` or `s3`: its connections stay, and nothing comes."""
        pid = self.stack.pids[name]
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)


@asynccontextmanager
async def parts(data: Path, upstream: str) -> AsyncIterator[Parts]:
    """Run NATS, S3, workers and two gateways before *upstream*, until the end."""
    async with started_stack(Settings(data=str(data))) as (settings, stack):
        ports = [free_port(), free_port()]
        gateway = {
            "JETTISON_GATEWAY__UPSTREAM__OPENAI": upstream,
            "JETTISON_GATEWAY__UPSTREAM__ANTHROPIC": upstream,
            "JETTISON_GATEWAY__WINDOW": str(WINDOW),
            "JETTISON_GATEWAY__DEADLINE_SECONDS": str(DEADLINE_SECONDS),
        }
        with ExitStack() as held:

            def part(*arguments: str) -> Part:
                given = environment(settings, **gateway)
                made = Part(arguments=arguments, environment=given, log=data / f"{arguments[0]}.log")
                held.callback(made.kill)
                return made

            workers = [part("workers") for _ in range(WORKERS)]
            gateways = [part("gateway", str(port)) for port in ports]
            for port in ports:
                await asyncio.to_thread(listened_on, port)
            urls = [f"http://{LOOPBACK}:{port}" for port in ports]
            yield Parts(settings=settings, stack=stack, workers=workers, gateways=gateways, urls=urls)


async def _working(settings: Settings) -> int:
    async with runtime(settings, role="worker") as running:
        await work(running)
    return 0


async def _serving(settings: Settings, port: int) -> int:
    breaker.PAUSE_SECONDS = BREAKER_SECONDS
    async with served(settings, port=port):
        await asyncio.Event().wait()
    return 0


def main(what: str, port: str = "0") -> int:
    """Be one part until told to end."""
    settings = load()
    working = _working(settings) if what == "workers" else _serving(settings, int(port))
    return run(working, service=what, settings=settings)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
