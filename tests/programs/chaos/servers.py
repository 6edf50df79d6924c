"""Servers: S3, and NATS, one or a cluster of three; they are killed, and come back."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.cli.session import started_stack
from actors.host.embedded import EmbeddedStack
from actors.host.settings import Settings
from tests.promises.harness import Server, at_server, damage, three

GONE_SECONDS = 2.0
"""From the end of one of three to its start: the others have chosen their leaders by then."""

SILENT_SECONDS = 8.0
"""How long one of three is stopped: what it led is led by others since, and it comes back with what was true before."""


@dataclass(kw_only=True)
class Servers:
    """The servers of one run, and where they are."""

    settings: Settings
    stack: EmbeddedStack
    cluster: list[Server]
    """None where the stack's own NATS is used, which is started again whenever it dies."""
    _away: set[int] = field(default_factory=set)

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids by name."""
        if not self.cluster:
            return self.stack.pids
        running = {f"nats-{number}": server.process for number, server in enumerate(self.cluster)}
        return {"s3": self.stack.pids["s3"]} | {name: process.pid for name, process in running.items() if process}

    def damage(self) -> list[str]:
        """Return what the NATS servers say of damage to what they keep."""
        if self.cluster:
            return [line for server in self.cluster for line in server.damage()]
        return damage(Path(self.settings.data) / "logs" / "nats.log")

    async def hit(self, kind: str, index: int) -> None:
        """Do what a fault of *kind* says; of three servers to the one at *index*, unless it is away already."""
        if kind == "s3" or not self.cluster:
            with suppress(ProcessLookupError):
                os.kill(self.stack.pids[kind], signal.SIGKILL)
            return
        number = index % len(self.cluster)
        if number in self._away:
            return
        self._away.add(number)
        try:
            if kind == "nats":
                await self.cluster[number].gone(seconds=GONE_SECONDS)
            else:
                await self.cluster[number].silent(seconds=SILENT_SECONDS)
        finally:
            self._away.discard(number)


@asynccontextmanager
async def started(data: Path, *, cluster: bool) -> AsyncIterator[Servers]:
    """Run all servers on loopback, provisioned, until the end."""
    async with started_stack(Settings(data=str(data))) as (settings, stack):
        if not cluster:
            yield Servers(settings=settings, stack=stack, cluster=[])
            return
        folder = data / "cluster"
        folder.mkdir()
        async with three(folder) as servers:
            there = at_server(settings, ",".join(server.url for server in servers))
            yield Servers(settings=there, stack=stack, cluster=servers)
