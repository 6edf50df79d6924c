"""Ends: an answer of Responses is kept before its caller hears its end, since the next request may name it at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from protocol.errors import BadMessage, JettisonError
from protocol.jsonbytes import decode

log = logging.getLogger("jettison.gateway")

_LAST = (b'"response.completed"', b'"response.incomplete"')

Keep = Callable[[Mapping[str, Any]], Awaitable[None]]


class BrokenOff(Exception):
    """The provider's answer ended before its end; the connection to the agent has to end so too."""


@dataclass(frozen=True)
class Ends:
    """Whoever has an answer asks here before its caller hears the end of it."""

    keep: Keep
    seconds: float
    """How long the end waits for it. What must be kept raises `BrokenOff`, and the answer has no end."""

    async def hear(self, data: bytes) -> None:
        """Keep the answer that *data* of an event holds, if it is its stream's end."""
        if any(map(data.__contains__, _LAST)):
            await self.whole(data, within="response")

    async def whole(self, raw: bytes, *, within: str = "") -> None:
        """Keep an answer that came as a whole; *within* a field of *raw*."""
        try:
            said = decode(raw)
            answer = said.get(within) if within else said
            async with asyncio.timeout(self.seconds):
                await self.keep(answer if isinstance(answer, dict) else {})
        except (BadMessage, JettisonError, TimeoutError) as error:
            # who names it is told that nobody knows it, or asks its provider
            log.warning("an answer is not known by its id: %s", str(error) or type(error).__name__)
