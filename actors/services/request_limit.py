"""Request limit: a bounded number of requests at once, of which no tenant takes all, and a typed refusal beyond it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from protocol.errors import Busy
from protocol.ids import Token

RUNNING_MAX = 64
"""Requests that are worked on at once; each looks at the log up to twenty times a second while actors work."""

TENANT_RUNNING_MAX = 48
"""Of these, one tenant's: the rest is for others, however many agents of the first one wait for a slow actor."""

WAITING_MAX = 1024
TENANT_WAITING_MAX = 256
"""Requests that wait for their turn; each costs a few kilobytes. More are refused at once, and may be made again."""


class Admission:
    """The places of one service."""

    def __init__(self) -> None:
        self._running = asyncio.Semaphore(RUNNING_MAX)
        self._tenants: dict[Token, asyncio.Semaphore] = {}
        self._here: Counter[Token] = Counter()

    @asynccontextmanager
    async def place(self, tenant: Token) -> AsyncIterator[None]:
        """Hold a place, after those of the same tenant who came before. Raises `Busy` where too many wait."""
        if self._here[tenant] >= TENANT_WAITING_MAX or self._here.total() >= WAITING_MAX:
            raise Busy(
                f"the context service has {self._here.total()} requests, {self._here[tenant]} of this tenant; "
                "ask again later, or start more services",
                requests=self._here.total(),
            )
        self._here[tenant] += 1
        share = self._tenants.setdefault(tenant, asyncio.Semaphore(TENANT_RUNNING_MAX))
        try:
            async with share, self._running:
                yield
        finally:
            self._here[tenant] -= 1
            if not self._here[tenant]:
                del self._here[tenant], self._tenants[tenant]
