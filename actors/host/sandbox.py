"""Sandbox: one delivery's work in a process of its own, which may die of it while the worker lives and sees how.

The worker holds the slot. The process loads, decides, acts and commits as any worker does; what it could not do, and
every failure that it survives, is left to the worker, who does the work again and finds what is done.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from protocol.errors import Unavailable
from protocol.ids import Address
from protocol.subjects import Actor

from .settings import Settings

START_SECONDS = 60.0
"""For a process to be started and connected; it takes two, and on a busy machine ten."""

BEGUN, SURVIVED = b"begun\n", b"survived\n"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial is about, with all that a worker knows; it goes through a pipe, since it holds secrets."""

    actor: Actor
    at: Address
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class ProcessSandbox:
    """Do work in processes of their own with *settings*; `module` is the program that does them."""

    settings: Settings
    module: str = "actors.host.sandbox_child"

    async def death(self, actor: Actor, at: Address) -> str:
        """Do the work apart; return what its process died of, empty if it did not.

        Raises `Unavailable` if it could not be begun.
        """
        process = await asyncio.create_subprocess_exec(
            # whatever lies in the folder where the worker was started is not for us to import
            *(sys.executable, "-P", "-m", self.module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,  # Ctrl-C in the terminal is for us: its death would count
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            # left open: its end tells the process that nobody watches any more
            process.stdin.write(msgspec.json.encode(Case(actor=actor, at=at, settings=self.settings)) + b"\n")
            async with asyncio.timeout(START_SECONDS):
                begun = await process.stdout.readline()
            if begun != BEGUN:
                raise Unavailable(f"no process could be started to try {actor} of {at}")
            if await process.stdout.readline() == SURVIVED:
                return ""
            code = await process.wait()
            return f"exit code {code}" if code >= 0 else f"signal {-code}"
        except TimeoutError:
            raise Unavailable(f"no process could be started in {START_SECONDS:g} s to try {actor} of {at}") from None
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
