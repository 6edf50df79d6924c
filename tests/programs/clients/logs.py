"""Logs: what the gateway kept of each run, read as a user of the stack reads it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from actors.cli.session import located
from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from actors.services.read_back import said_messages

from .judge import runs_in
from .transcripts import Events, events_of


async def logs_of(data: Path) -> tuple[dict[str, list[Events]], list[str]]:
    """Return the logs of each run on the stack of the folder *data*, and which have more than one run's messages."""
    found: dict[str, list[Events]] = defaultdict(list)
    mixed: list[str] = []
    async with runtime(located(Settings(data=str(data))), role="clients") as running:
        for at in await running.log.addresses():
            said = [msgspec.json.decode(one.raw) for one in await said_messages(at, log=running.log)]
            events = events_of(said)
            runs = runs_in(events)
            if len(runs) > 1:
                mixed.append(f"{at} has messages of {', '.join(sorted(runs))}")
            for run in runs:
                found[run].append(events)
    return found, mixed
