"""Servers: S3, and NATS with the rights of `infra/nats`, one or a cluster of three; they are killed, and come back."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from actors.cli.session import started_stack
from actors.host.embedded import EmbeddedStack
from actors.host.settings import Settings
from tests.infra.rights_server import partitioned, rights_of
from tests.programs.chaos.speech import TENANTS
from tests.promises.harness import Server, at_server, logged, one, three

GONE_SECONDS = 2.0
"""From the end of one of three to its start: the others have chosen their leaders by then."""

SILENT_SECONDS = 8.0
"""How long one of three is stopped: what it led is led by others since, and it comes back with what was true before."""


REFUSED = re.compile(r'(Publish|Subscription) Violation - (?!Subject "(_R_|\$JS\.API\.STREAM\.INFO\.CTX_LOG"))')
"""In a server's log: somebody who works has asked for what he may not. Two are no lack of rights: the way back of an
answer ends with its server, and who finds no log asks whether there is one, which agents may not.
"""


@dataclass(kw_only=True)
class Servers:
    """The servers of one run, and where they are, for an operator."""

    settings: Settings
    stack: EmbeddedStack
    nats: list[Server]
    grows: bool = False
    """A single server that is killed while its log grows may lose a stream; the operator puts it back."""
    put_back: list[str] = field(default_factory=list)
    """Streams that were."""
    _away: set[int] = field(default_factory=set)

    @property
    def pids(self) -> dict[str, int]:
        """Return the process ids by name."""
        running = {f"nats-{number}": server.process for number, server in enumerate(self.nats)}
        return {"s3": self.stack.pids["s3"]} | {name: process.pid for name, process in running.items() if process}

    def damage(self) -> list[str]:
        """Return what the NATS servers say of damage to what they keep."""
        return [line for server in self.nats for line in server.damage()]

    def refused(self) -> list[str]:
        """Return what the NATS servers refused somebody: the rights are enough for all who work."""
        return [line for server in self.nats for line in logged(server.log, REFUSED)]

    async def hit(self, kind: str, index: int) -> None:
        """Do what a fault of *kind* says; of the NATS servers to the one at *index*, unless it is away already."""
        if kind == "s3":
            with suppress(ProcessLookupError):
                os.kill(self.stack.pids[kind], signal.SIGKILL)
            return
        number = index % len(self.nats)
        if number in self._away:
            return
        self._away.add(number)
        try:
            if kind == "nats":
                seconds, looks = (GONE_SECONDS, False) if len(self.nats) > 1 else (0.0, self.grows)
                self.put_back += await self.nats[number].gone(seconds=seconds, looks=looks)
            else:
                await self.nats[number].silent(seconds=SILENT_SECONDS)
        finally:
            self._away.discard(number)


@asynccontextmanager
async def started(data: Path, *, cluster: bool, partitions: int = 1, most: int = 1) -> AsyncIterator[Servers]:
    """Run all servers on loopback, provisioned, until the end; with rights for the *most* partitions there will be."""
    folder = data / "servers"
    async with started_stack(Settings(data=str(data))) as (settings, stack), AsyncExitStack() as held:
        rights = partitioned(rights_of(folder, TENANTS), folder, most) if most > 1 else rights_of(folder, TENANTS)
        if cluster:
            nats = await held.enter_async_context(three(folder, rights=rights, partitions=partitions))
        else:
            nats = [await held.enter_async_context(one(folder, rights=rights, partitions=partitions))]
        there = at_server(settings, ",".join(server.url for server in nats), rights.operator)
        yield Servers(settings=there, stack=stack, nats=nats, grows=most > partitions)
