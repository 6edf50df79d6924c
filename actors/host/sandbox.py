"""Sandbox: one delivery's work in a process of its own, which may die of it while the worker lives and sees how.

The worker holds the slot. The process loads, decides, acts and commits as any worker does; what it could not do, and
every failure that it survives, is left to the worker, who does the work again and finds what is done. A nursery forks
it (`sandbox_child.py`), which the first delivery starts: what one needs is loaded once, not for each.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from protocol.errors import Unavailable
from protocol.ids import Address
from protocol.subjects import Actor

from .settings import Settings

START_SECONDS = 60.0
"""For a nursery to be started, which takes two and on a busy machine ten, and its process to be connected."""

BEGUN, SURVIVED, ENDED = b"begun\n", b"survived\n", b"ended "


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The delivery that a sandbox does, with all that a worker knows; it holds secrets, so it goes through a socket."""

    actor: Actor
    at: Address
    settings: Settings


@dataclass(kw_only=True)
class Nursery:
    """A process that forks one for each case that it is told, and the line to it; it leads a group of its own."""

    pid: int
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    process: asyncio.subprocess.Process | None = None

    async def end(self) -> None:
        """Kill it with all that it forked."""
        with suppress(ProcessLookupError, PermissionError):  # gone, or a stranger's by now
            os.killpg(self.pid, signal.SIGKILL)
        self.writer.close()
        with suppress(OSError):
            await self.writer.wait_closed()
        if self.process is not None:
            await self.process.wait()


async def started(module: str) -> Nursery:
    """Start the program *module* as a nursery."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = await asyncio.create_subprocess_exec(
            # whatever lies in the folder where the worker was started is not for us to import
            *(sys.executable, "-P", "-m", module),
            stdin=theirs.fileno(),
            stdout=asyncio.subprocess.DEVNULL,
            process_group=0,  # Ctrl-C in the terminal is for us: a death would count
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    return Nursery(pid=process.pid, reader=reader, writer=writer, process=process)


@dataclass(kw_only=True)
class ProcessSandbox:
    """Do work in processes of their own with *settings*, one at a time; `module` is the program that forks them."""

    settings: Settings
    module: str = "actors.host.sandbox_child"
    _nursery: Nursery | None = None
    _free: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def death(self, actor: Actor, at: Address) -> str:
        """Do the work apart; return what its process died of, empty if it did not.

        Raises `Unavailable` if it could not be begun.
        """
        async with self._free:
            is_well = False
            try:
                died = await self._died(Case(actor=actor, at=at, settings=self.settings))
                is_well = True
            except (OSError, TimeoutError) as error:
                raise Unavailable(f"no process could be started to try {actor} of {at}: {error!r}") from None
            finally:
                if not is_well:  # given up, or the nursery is not: nobody stays behind
                    await self.close()
        if died is None:
            raise Unavailable(f"the process that was to try {actor} of {at} could not begin")
        return died

    async def close(self) -> None:
        """End the nursery and what it does; the next delivery starts another one."""
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            await nursery.end()

    async def _died(self, case: Case) -> str | None:
        """Return the cause of the process's death, empty if it lives; None if it could not begin: NATS may be away."""
        if self._nursery is not None and self._nursery.reader.at_eof():
            await self.close()  # it ended, since nobody was tried for long
        async with asyncio.timeout(START_SECONDS):
            self._nursery = nursery = self._nursery or await started(self.module)
            nursery.writer.write(msgspec.json.encode(case) + b"\n")
            told = await nursery.reader.readline()
        if told.startswith(ENDED):
            return None
        if told == BEGUN:
            told = await nursery.reader.readline()
        if told == SURVIVED:
            await nursery.reader.readline()  # its end: only then the nursery listens again
            return ""
        if not told.startswith(ENDED):
            raise OSError("its nursery ended")
        code = int(told.removeprefix(ENDED))
        return f"exit code {code}" if code >= 0 else f"signal {-code}"
