"""What `retain` does: archive and erase what was idle for as long as the operator's policy says."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

from actors.audit.archiving import Archived
from actors.host.bootstrap import Runtime
from protocol.connection import heed_cancellation
from protocol.errors import JettisonError, Unavailable
from protocol.history import Certificate

from .options import StackOptions
from .session import connected, printed, said


def retain(stack: StackOptions, *, every: float, dry_run: bool, as_json: bool) -> int:
    """Keep to `retention`; see `jettison retain --help`."""

    async def main(running: Runtime) -> int:
        if dry_run:
            return await _due(running, as_json=as_json)
        while True:
            try:
                faults = await _round(running, as_json=as_json)
            except Unavailable as error:
                if not every:
                    raise
                said(f"nothing more was done: {error}")
                faults = []
            if not every:
                if faults:
                    raise faults[0]  # after all others were told, for the exit code
                return 0
            heed_cancellation()
            await asyncio.sleep(every)

    return connected(main, stack, role="retain")


async def _due(running: Runtime, *, as_json: bool) -> int:
    for at, wish, _ in await running.retaining().due():
        if as_json:
            printed({"address": str(at), "due": wish})
        else:
            sys.stdout.write(f"{wish:8} {at}\n")
    return 0


async def _round(running: Runtime, *, as_json: bool) -> list[JettisonError]:
    """Do what is due once, and tell it; return what was wrong."""
    counts, faults = Counter[str](), list[JettisonError]()
    async for at, became in running.retaining().round(by=running.by):
        if isinstance(became, JettisonError):
            said(f"{at} is left as it is: {became}")
            faults.append(became)
        elif isinstance(became, Certificate):
            counts["erased"] += 1
            printed(became)  # the proof, in any case
        else:
            counts[f"left ({became.kept})" if became.kept else "archived"] += 1
            _tell(became, as_json=as_json)
        sys.stdout.flush()  # who is killed in the next one has told of this one
    said(", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "nothing was due")
    return faults


def _tell(became: Archived, *, as_json: bool) -> None:
    if as_json:
        printed(became)
    elif not became.kept and not became.sha256:
        sys.stdout.write(f"{became.address}: {became.removed:,} records left the stream that an earlier run archived\n")
    elif not became.kept:
        left = f"{became.removed:,} left the stream" if became.removed else "all stay in the stream too: somebody spoke"
        sys.stdout.write(f"{became.address}: {became.records:,} records in the archive {became.sha256[:16]}, {left}\n")
