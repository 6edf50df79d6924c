"""Logs: what the gateway kept of each run, read as a user of the stack reads it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from actors.cli.session import located
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol.facts import SaidMessage
from protocol.formats.messages import decode, with_leaves
from protocol.ids import Address
from tests.said import said_messages

from .judge import runs_in
from .transcripts import Events, events_of


async def logs_of(data: Path) -> tuple[dict[str, list[Events]], list[str]]:
    """Return the logs of each run on the stack of the folder *data*, and which have more than one run's messages."""
    async with runtime(located(Settings(data=str(data))), role="clients") as running:
        return await logs_at(await running.log.addresses(), running)


async def logs_at(places: Iterable[Address], running: Runtime) -> tuple[dict[str, list[Events]], list[str]]:
    """Return the logs of each run among those at *places*, and which have more than one run's messages."""
    found: dict[str, list[Events]] = defaultdict(list)
    mixed: list[str] = []
    for at in places:
        events = events_of([await _whole(one, at, running) for one in await said_messages(at, log=running.log)])
        runs = runs_in(events)
        if len(runs) > 1:
            mixed.append(f"{at} has messages of {', '.join(sorted(runs))}")
        for run in runs:
            found[run].append(events)
    return found, mixed


async def _whole(said: SaidMessage, at: Address, running: Runtime) -> dict[str, Any]:
    """Return a message with the parts that were uploaded before it was said."""
    uploads = {
        one.pointer: (await running.artifacts.get(at.tenant, one.sha256)).decode("utf-8", "surrogatepass")
        for one in said.claims
    }
    return dict(with_leaves(decode(said.raw), uploads))
