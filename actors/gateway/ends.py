"""Ends: an answer of Responses is kept before its caller hears its end, since the next request may name it at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from protocol.errors import BadMessage, JettisonError
from protocol.jsonbytes import decode

from .sse import Events

log = logging.getLogger("jettison.gateway")

KEEP_SECONDS = 1.5

_LAST = (b'"response.completed"', b'"response.incomplete"')

Keep = Callable[[Mapping[str, Any]], Awaitable[None]]


class Ends:
    """Passes an answer on, each piece once what is whole with it is kept."""

    def __init__(self, keep: Keep, *, stream: bool) -> None:
        self._keep = keep
        self._events = Events() if stream else None
        self._held = bytearray()

    async def fed(self, piece: bytes) -> bytes:
        """Return what goes on now."""
        if self._events is None:
            self._held += piece
            return b""
        for event in self._events.fed(piece):
            if any(map(event.data.__contains__, _LAST)):
                await self._kept(event.data, within="response")
        return piece

    async def rest(self) -> bytes:
        """Return what was held back, at the end."""
        if self._events is None:
            await self._kept(bytes(self._held))
        return bytes(self._held)

    async def _kept(self, raw: bytes, *, within: str = "") -> None:
        try:
            said = decode(raw)
            async with asyncio.timeout(KEEP_SECONDS):
                await self._keep(said.get(within) or {} if within else said)
        except (BadMessage, JettisonError, TimeoutError) as error:
            # who names it is told that nobody knows it, or asks its provider
            log.warning("an answer is not known by its id: %s", str(error) or type(error).__name__)
