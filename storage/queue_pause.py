"""Pause: nobody takes work from the queue while a log is written from outside.

The pause has an end of its own on the server, so that a process that dies in it cannot stop the actors for long.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.connection import TRANSIENT, heed_cancellation, reason_of
from protocol.errors import LogUnavailable, Rejected

from .known_layout import known_layout
from .partitions import grows

PAUSE_SECONDS = 15.0
"""After so long without a word from who asked for it, work goes on."""

ANSWER_SECONDS = 5.0


@asynccontextmanager
async def paused(connection: NatsConnection) -> AsyncIterator[None]:
    """Keep every consumer of the work queue paused meanwhile. Raises `LogUnavailable`, `Rejected`."""
    layout = await known_layout(connection).layout()
    if layout.moving:
        raise LogUnavailable(grows(layout))
    consumers: list[str] = []
    for stream in layout.streams(subjects.WAKE_STREAM):
        names = await _asked(connection, f"NAMES.{stream}", {})
        consumers += [f"{stream}.{name}" for name in names.get("consumers") or ()]

    async def pause(seconds: float) -> None:
        until = datetime.now(UTC) + timedelta(seconds=seconds)
        for name in consumers:
            await _asked(connection, f"PAUSE.{name}", {"pause_until": until.isoformat()})

    async def keep() -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS / 3)
            # the next round comes before the pause ends
            with suppress(LogUnavailable):
                await pause(PAUSE_SECONDS)
            heed_cancellation()

    await pause(PAUSE_SECONDS)
    keeping = asyncio.create_task(keep())
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        # it ends by itself if this is not heard
        with suppress(LogUnavailable):
            await pause(-1)


async def _asked(connection: NatsConnection, what: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await connection.request(
            f"$JS.API.CONSUMER.{what}", json.dumps(request).encode(), timeout=ANSWER_SECONDS
        )
    except TRANSIENT as error:
        raise LogUnavailable(f"the actors cannot be paused ({reason_of(error)}); try again") from None
    found: dict[str, Any] = json.loads(answer.data)
    if failed := found.get("error"):
        raise Rejected(f"the actors cannot be paused: {failed.get('description', '')}"[:200])
    return found
