"""Queue pause: nobody takes work from the queue while a log is written from outside.

The pause has an end of its own on the server, so that a process that dies in it cannot stop the actors for long. Its
times are those of the server. Any number may pause at the same time: who ends first leaves what the others asked for.
Of one connection that is sure, and the last one to end lets the actors go on at once. Of two processes that begin
within the same millisecond one may not see the other, and ends its pause for five seconds at most; and where one ends
behind another that it saw, the actors may rest until what that one asked for is over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.connection import TRANSIENT, reason_of
from protocol.errors import LogUnavailable, Rejected
from protocol.tasks import heed_cancellation

from .known_layout import known_layout
from .partitions import grows

PAUSE_SECONDS = 15.0
"""After so long without a word from who asked for it, work goes on."""

ANSWER_SECONDS = 5.0

_NEVER = datetime.min.replace(tzinfo=UTC)


@asynccontextmanager
async def paused(connection: NatsConnection) -> AsyncIterator[None]:
    """Keep every consumer of the work queue paused meanwhile.

    Raises `LogUnavailable`, and `Rejected` where the server refuses: at once, or at the end if it refused to go on.
    """
    layout = await known_layout(connection).layout()
    if layout.moving:
        raise LogUnavailable(grows(layout))
    names: list[str] = []
    for stream in layout.streams(subjects.WAKE_STREAM):
        found = await _asked(connection, f"NAMES.{stream}", {})
        names += [f"{stream}.{name}" for name in found.get("consumers") or ()]
    known = _consumers.setdefault(connection, {})
    consumers = [known.setdefault(name, _Consumer(connection, name)) for name in names]
    refused: list[Rejected] = []

    async def keep() -> None:
        while True:
            await asyncio.sleep(PAUSE_SECONDS / 3)
            for one in consumers:
                try:
                    await one.pause()
                except LogUnavailable:
                    pass  # the next round comes before the pause ends
                except Rejected as error:
                    refused.append(error)
            heed_cancellation()

    for one in consumers:
        one.pausing += 1
    try:
        for one in consumers:
            await one.pause()
        keeping = asyncio.create_task(keep())
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.gather(keeping, return_exceptions=True)
    finally:
        for one in consumers:
            one.pausing -= 1
        try:
            # it ends by itself if this is not heard
            with suppress(LogUnavailable):
                for one in consumers:
                    with suppress(Rejected):  # one that is gone keeps no other paused
                        await one.resume()
        finally:
            for one in consumers:
                if not one.pausing and known.get(one.name) is one:
                    del known[one.name]
    if refused:
        raise refused[0]


@dataclass
class _Consumer:
    """A consumer that is paused, and until when: as was asked on this connection, and as others did."""

    connection: NatsConnection
    name: str
    pausing: int = 0
    """How many pauses of it go on; none is ended while another one begins or goes on."""
    asked: set[datetime] = field(default_factory=set)
    """By us; the server may show one that is not the newest."""
    others: datetime = _NEVER

    async def pause(self) -> None:
        """Pause it from now on, never for less than others asked for. Raises `LogUnavailable`, `Rejected`."""
        now, _ = await self._look()
        end = max(now + timedelta(seconds=PAUSE_SECONDS), self.others)
        self.asked.add(end)
        if not await self._until(end):
            raise Rejected(f"the actors cannot be paused: {self.name} works on; do the servers' clocks agree?")

    async def resume(self) -> None:
        """End our pause if it was the last; one that others asked for stays. Raises `LogUnavailable`, `Rejected`."""
        if self.pausing:
            return
        now, stands = await self._look()
        # who begins from now on asks by the same connection, and so behind this
        if not self.pausing and self.asked and (stands in self.asked or stands <= now):
            await self._until(self.others if self.others > now else None)

    async def _look(self) -> tuple[datetime, datetime]:
        """Return the clock of its server, and until when it is paused."""
        found = await _asked(self.connection, f"INFO.{self.name}", {})
        now, stands = _time(found.get("ts")), _time(found.get("config", {}).get("pause_until"))
        if stands not in self.asked:
            self.others = max(self.others, stands)
        return now, stands

    async def _until(self, end: datetime | None) -> bool:
        """Ask for a pause until *end*, or for none; tell whether it is paused."""
        answer = await _asked(self.connection, f"PAUSE.{self.name}", {"pause_until": end.isoformat()} if end else {})
        return answer.get("paused") is True


_consumers: WeakKeyDictionary[NatsConnection, dict[str, _Consumer]] = WeakKeyDictionary()
"""Those that are paused by a connection just now, by their names."""


def _time(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else _NEVER


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
