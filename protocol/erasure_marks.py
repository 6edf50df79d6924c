"""Erasure marks: whether anything of a tenant was erased since one looked, asked once for all that a client speaks for.

A mark lies in the key's place and stays for ever, so the newest place among a tenant's keys grows with each erasure.
Who found no mark of its own conversation needs no second look while that place is what it was before. A client of many
conversations asks so for all of them at once; one that speaks for a single one asks for its own mark.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from . import subjects
from .connection import TRANSIENT
from .errors import NotPermitted
from .ids import Token
from .keys import LOOK_SECONDS
from .tasks import aside

KEYS_MAX = 20_000
"""Up to this place it is asked for all: the server looks through the tenant's keys (1.4 ms for so many, measured)."""

SHARED_SECONDS = 1.0
"""So long ago at most somebody else spoke through this client, where one question is to serve both."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The newest place among a tenant's keys, 0 where it has none; asked for at the time *began*."""

    newest: int
    began: float


@dataclass(kw_only=True)
class ErasureMarks:
    """What one connection, which was not made anew meanwhile, was told of the marks of one tenant."""

    tenant: Token
    reconnects: int
    _seen: Seen | None = None
    _speaker: int = 0
    _spoke: float = -math.inf
    _is_of_use: bool = True
    _looking: asyncio.Task[None] | None = None

    async def seen(
        self, connection: NatsConnection, speaker: object, *, within: float, clock: Callable[[], float]
    ) -> Seen | None:
        """Return the answer to a question that began *within* so many seconds; None: *speaker* is to look itself."""
        now, before, spoke = clock(), self._speaker, self._spoke
        self._speaker, self._spoke = id(speaker), now
        if not self._is_of_use:
            return None
        if self._is_fresh(now, within):
            return self._seen
        if before in (0, id(speaker)) or now - spoke > SHARED_SECONDS:
            return None
        if self._looking is None or self._looking.done():
            self._looking = aside(self._look(connection, clock))
        await asyncio.wait({self._looking})  # and not cancelled with who waits
        return self._seen if self._is_fresh(now, within) else None

    def _is_fresh(self, now: float, within: float) -> bool:
        return self._seen is not None and now - self._seen.began < within

    async def _look(self, connection: NatsConnection, clock: Callable[[], float]) -> None:
        if not connection.is_connected:
            return
        began = clock()
        try:
            found = await connection.jetstream(timeout=LOOK_SECONDS).get_msg(
                subjects.KEY_STREAM, subject=subjects.keys_of(self.tenant), direct=True
            )
            newest = found.seq or 0
        except NotFoundError:
            newest = 0
        except NotPermitted:
            self._is_of_use = False
            return
        except (APIError, *TRANSIENT):
            return
        self._seen, self._is_of_use = Seen(newest=newest, began=began), newest <= KEYS_MAX


def erasure_marks(connection: NatsConnection, tenant: Token) -> ErasureMarks:
    """Return what *connection* knows of *tenant*: nothing, once it was made anew."""
    marks, reconnects = _marks.setdefault(connection, {}), int(connection.stats["reconnects"])
    found = marks.get(tenant)
    if found is None or found.reconnects != reconnects:
        found = marks[tenant] = ErasureMarks(tenant=tenant, reconnects=reconnects)
    return found


_marks: WeakKeyDictionary[NatsConnection, dict[Token, ErasureMarks]] = WeakKeyDictionary()
