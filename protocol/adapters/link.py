"""Link: one connection on a thread of its own, so that code in any event loop, or in none, can use it.

Frameworks call their hooks from the user's loop, from threads, and from loops that come and go. A connection belongs
to one loop for its life.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..client import Client
from ..keys import TenantKeys
from ..login import LoginArguments

T = TypeVar("T")

CLOSE_SECONDS = 5.0

PATIENCE_SECONDS = 10.0
"""How long one call goes on while nobody answers: an agent is waiting, and goes on without."""


class Link:
    """A client that connects when it is first used. Its thread ends with the process, or with `close`."""

    def __init__(self, url: str, *, name: str, keys: TenantKeys | None, login: LoginArguments) -> None:
        self._url, self._name, self._keys, self._login = url, name, keys, login
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._connecting: asyncio.Lock | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the connection's thread and wait for it, from code that is not async."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    async def arun(self, work: Coroutine[Any, Any, T]) -> T:
        """Do *work* on the connection's thread, from any loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running()))

    def close(self) -> None:
        """Close the connection and end the thread; the next use connects anew."""
        with self._guard:
            loop, self._loop = self._loop, None
        if loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), loop).result(CLOSE_SECONDS)
            loop.call_soon_threadsafe(loop.stop)

    async def connected(self) -> Client:
        """Return the client, connected; to be asked on its thread alone. Raises what `Client.connect` raises."""
        if self._connecting is None:
            self._connecting = asyncio.Lock()
        async with self._connecting:
            if self._client is None or self._client.connection.is_closed:
                self._client = await Client.connect(
                    self._url, name=self._name, keys=self._keys, patience=PATIENCE_SECONDS, **self._login
                )
            return self._client

    async def _close(self) -> None:
        client, self._client, self._connecting = self._client, None, None
        if client is not None:
            await client.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._guard:
            if self._loop is None:
                loop = asyncio.new_event_loop()
                threading.Thread(target=_forever, args=(loop,), name="jettison", daemon=True).start()
                self._loop = loop
            return self._loop


def _forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()
