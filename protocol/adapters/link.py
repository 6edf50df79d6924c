"""Link: one connection on the loop thread of the process, so that code in any event loop, or in none, can use it.

Frameworks call their hooks from the user's loop, from threads, and from loops that come and go. A connection belongs
to one loop for its life.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..client import Client
from ..keys import TenantKeys
from ..login import LoginArguments
from ..loop_thread import LoopThread, shared

T = TypeVar("T")

CLOSE_SECONDS = 5.0

PATIENCE_SECONDS = 10.0
"""How long one call goes on while nobody answers: an agent is waiting, and goes on without."""


class Link:
    """A client that connects when it is first used, and in the child of a fork anew: the parent keeps its own."""

    def __init__(self, url: str, *, name: str, keys: TenantKeys | None, login: LoginArguments) -> None:
        self._url, self._name, self._keys, self._login = url, name, keys, login
        self._thread = shared()
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the connection's thread and wait for it, from code that is not async."""
        return self._own().run(work)

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the connection's thread, from any loop."""
        return await self._own().arun(work)

    def close(self) -> None:
        """Close the connection; the next use connects anew."""
        thread = self._own()
        if self._client is not None:
            thread.run(self._close())

    async def connected(self) -> Client:
        """Return the client, connected; to be asked on its thread alone. Raises what `Client.connect` raises."""
        async with self._connecting:
            if self._client is None or self._client.connection.is_closed:
                self._client = await Client.connect(
                    self._url, name=self._name, keys=self._keys, patience=PATIENCE_SECONDS, **self._login
                )
            return self._client

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            async with asyncio.timeout(CLOSE_SECONDS):
                await client.close()

    def _own(self) -> LoopThread:
        """Return the thread of this process."""
        if self._thread is not shared():
            self._thread, self._client, self._connecting = shared(), None, asyncio.Lock()
        return self._thread
