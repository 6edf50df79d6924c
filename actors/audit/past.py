"""Past: what the commits of a conversation were, for agents and for who answers them; nothing is changed by it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

from protocol.errors import NotFound
from protocol.facts import ContextServed
from protocol.history import Version, Why
from protocol.ids import Address
from protocol.service_messages import LookAsked
from storage.ports import EventLog, Record

from .versions import versions
from .why import why

ROWS_MAX = 200
TEXT_CHARS_MAX = 2_000
"""Of the message that is explained: it is read whole by its number."""


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """Who reads it in the log."""

    log: EventLog

    async def told(self, at: Address, asked: LookAsked) -> bytes:
        """Return the newest versions, or why a message is shown as it is, as JSON. Raises `NotFound`, `Unavailable`."""
        records = await self.log.read(at, after=0)
        if not records:
            raise NotFound(f"nothing was ever said in {at}", address=str(at))
        # in a thread: the whole log is folded, and others wait for their views
        if asked.what == "versions":
            return msgspec.json.encode(await asyncio.to_thread(_newest, at, records, asked))
        return msgspec.json.encode(await asyncio.to_thread(_why, at, records, asked))


def _newest(at: Address, records: Sequence[Record], asked: LookAsked) -> list[Version]:
    rows = versions(at, records)
    wanted = (row for row in rows if _is_wanted(row, asked))
    return list(reversed(deque(wanted, maxlen=max(1, min(asked.limit, ROWS_MAX)))))


def _is_wanted(row: Version, asked: LookAsked) -> bool:
    if asked.changes and row.facts.keys() == {ContextServed.__name__}:
        return False
    return not asked.before or row.version < asked.before


def _why(at: Address, records: Sequence[Record], asked: LookAsked) -> Why:
    found = why(at, records, number=asked.message, version=asked.version or None)
    return msgspec.structs.replace(found, text=found.text[:TEXT_CHARS_MAX])
