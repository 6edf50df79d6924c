"""Trial: one turn in a process of its own, which may die of it while the worker lives and sees how.

The worker holds the slot. The process loads, decides, acts and commits as any worker does; what it could not do, and
every failure that it survives, is left to the worker, who does the turn again and finds what is done.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from protocol.errors import Unavailable
from protocol.ids import Address
from protocol.subjects import Actor

from .settings import Settings

log = logging.getLogger("jettison.trial")

START_SECONDS = 60.0
"""For a process to be started and connected; it takes two, and on a busy machine ten."""

CPU_SECONDS = 120
"""A turn that computes for so long has stopped the loop of every worker that began it. Waiting does not count: a store
or a model may be slow."""

BEGUN, SURVIVED = b"begun\n", b"survived\n"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial is about, with all that a worker knows; it goes through a pipe, since it holds secrets."""

    actor: Actor
    at: Address
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class Trial:
    """Try turns with *settings*; `module` is the program that does them."""

    settings: Settings
    module: str = "actors.trial"

    async def death(self, actor: Actor, at: Address) -> str:
        """Do the turn apart; return what its process died of, empty if it did not.

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


async def tried(case: Case) -> None:
    """Do one turn, and tell who watches how far it came."""
    from .bootstrap import runtime

    async with runtime(case.settings, role=f"trial-{case.actor}") as running:
        worker = running.worker(case.actor)
        _tell(BEGUN)
        try:
            async for _ in worker.work(case.at):
                pass
        except Exception as error:
            log.warning("%s of %s was survived: %s", case.actor, case.at, type(error).__name__)
    _tell(SURVIVED)


def case_of_stdin() -> Case:
    """Read the case, and end this process when who watches is gone."""
    with suppress(OSError):
        # where memory ends, the kernel takes this process before the one that watches
        Path("/proc/self/oom_score_adj").write_text("1000")
    # the kernel ends what computes without end, also when nobody watches it any more
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    case = msgspec.json.decode(sys.stdin.buffer.readline(), type=Case)

    def watch() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    return case


def _tell(what: bytes) -> None:
    sys.stdout.buffer.write(what)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(tried(case_of_stdin()))
