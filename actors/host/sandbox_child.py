"""The process of a sandbox: one delivery, done as any worker does it. Only this program imports the whole service."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import sys
import threading
from contextlib import suppress
from pathlib import Path

import msgspec

from .bootstrap import runtime
from .sandbox import BEGUN, SURVIVED, Case

log = logging.getLogger("jettison.trial")

CPU_SECONDS = 120
"""Work that computes for so long has stopped the loop of every worker that began it. Waiting does not count: a store
or a model may be slow."""


async def tried(case: Case) -> None:
    """Do the work, and tell who watches how far it came."""
    async with runtime(case.settings, role=f"trial-{case.actor}") as running:
        worker = running.worker(case.actor)
        _tell(BEGUN)
        try:
            async for _ in worker.stepping.work(case.at):
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
