"""The processes of the soak: workers and gateways of any release, and who spreads requests over ready gateways."""

from __future__ import annotations

import asyncio
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp

from protocol.subjects import ACTORS
from tests.programs.chaos.nursery import WARM_MAX
from tests.programs.upgrade.release import MAIN, Release
from tests.stack import LOOPBACK

GATEWAYS = 2
WORKERS = 2
"""Of each actor."""

START_SECONDS, STOP_SECONDS = 120.0, 60.0
POLL_SECONDS = 0.5
HASTY = f"from actors.runtime import conversations; conversations.WARM_MAX = {WARM_MAX}; {MAIN}"
"""A worker whose cache is full after minutes, as in `chaos`: only then does its memory tell whether it grows."""

PORTS = range(20_000, 32_000)
"""Below those that a system gives to whoever asks for any: a port is free again when its gateway comes back."""


@dataclass(kw_only=True)
class Part:
    """One process, and where it answers probes; a gateway listens at *port*."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    probe: int
    port: int = 0
    crashes: int = 0
    release: Release = field(init=False)
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    async def start(self, release: Release) -> None:
        """Start it from *release*, and wait until it is ready. Raises `AssertionError`."""
        self.release = release
        self._begin()
        ends = time.monotonic() + START_SECONDS
        async with aiohttp.ClientSession() as http:
            while not await is_ready(http, self.probe):
                assert self.process is not None
                if self.process.poll() == -signal.SIGSEGV and not self.crashes:
                    # d778314 has its types looked over by threads at once (tests/runtime/test_decoded_in_threads.py)
                    self.crashes += 1
                    self._begin()
                assert self.process.poll() is None, f"{self.name} of {release.name} ended: {self.end_of_log()}"
                assert time.monotonic() < ends, f"{self.name} of {release.name} is not ready: {self.end_of_log()}"
                await asyncio.sleep(POLL_SECONDS / 5)

    def _begin(self) -> None:
        environment = {**self.environment, **self.release.environment, "JETTISON_PROBE__PORT": str(self.probe)}
        command = [str(self.release.python), "-c", MAIN if self.port else HASTY, *self.arguments]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, env=environment, cwd=self.log.parent, stdout=out, stderr=out)

    async def stop(self) -> None:
        """Tell it to end, and wait until it is gone. Raises `AssertionError` where it did not end in order."""
        assert self.process is not None
        self.process.terminate()
        code = await asyncio.to_thread(self.process.wait, STOP_SECONDS)
        assert code == 0, f"{self.name} of {self.release.name} ended with {code}: {self.end_of_log()}"

    def kill(self) -> None:
        """End it at once."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def end_of_log(self) -> str:
        return self.log.read_text(errors="replace")[-2000:]


@contextmanager
def parts(environment: Mapping[str, str], logs: Path) -> Iterator[list[Part]]:
    """Yield the parts of a stack, not started: workers first. Those that run are ended in the end."""
    ports = random.sample(PORTS, k=len(PORTS))
    free = iter(port for port in ports if _is_free(port))
    with ExitStack() as held:
        made = [
            Part(
                name=f"{actor} {number}",
                arguments=("worker", actor),
                environment=environment,
                log=logs / f"{actor}-{number}.log",
                probe=next(free),
            )
            for number in range(1, WORKERS + 1)
            for actor in ACTORS
        ]
        for number in range(1, GATEWAYS + 1):
            port = next(free)
            made.append(
                Part(
                    name=f"gateway {number}",
                    arguments=("gateway", "--port", str(port)),
                    environment=environment,
                    log=logs / f"gateway-{number}.log",
                    probe=next(free),
                    port=port,
                )
            )
        for one in made:
            held.callback(one.kill)
        yield made


@dataclass(kw_only=True)
class Balancer:
    """Spreads requests over the gateways that said last that they are ready, as a load balancer does."""

    gateways: list[Part]
    left_out: set[int] = field(default_factory=set)
    _ready: list[int] = field(default_factory=list)
    _next: int = 0

    def port(self) -> int:
        """Return the port of the next gateway; of any where none is known to be ready."""
        ports = [port for port in self._ready if port not in self.left_out] or [one.port for one in self.gateways]
        self._next += 1
        return ports[self._next % len(ports)]

    async def run(self) -> None:
        """Ask again and again who is ready."""
        async with aiohttp.ClientSession() as http:
            while True:
                answers = await asyncio.gather(*(is_ready(http, one.probe) for one in self.gateways))
                self._ready = [one.port for one, ready in zip(self.gateways, answers, strict=True) if ready]
                await asyncio.sleep(POLL_SECONDS)

    async def drain(self, port: int, is_busy: Callable[[int], bool]) -> None:
        """Send nothing to *port* any more, and wait until no request is under way there."""
        self.left_out.add(port)
        while is_busy(port):
            await asyncio.sleep(POLL_SECONDS / 5)


async def is_ready(http: aiohttp.ClientSession, probe: int) -> bool:
    """Ask a process whether it is ready."""
    try:
        limit = aiohttp.ClientTimeout(total=2 * POLL_SECONDS)
        async with http.get(f"http://{LOOPBACK}:{probe}/readyz", timeout=limit) as answer:
            return answer.status == HTTPStatus.OK
    except (aiohttp.ClientError, TimeoutError):
        return False


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0
