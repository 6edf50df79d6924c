"""The sync client, for programs without an event loop: scripts, notebooks, frameworks that are not async.

    from jettison_client.sync import Client

    with Client.connect("nats://127.0.0.1:4222") as client:
        talk = client.open("ticket-4312", model="gpt-4o", budget=32_000)
        talk.append([{"role": "user", "content": "..."}])
        context = talk.context()

The names, arguments, answers and errors are those of `jettison_client`; each call waits for its answer. All clients
work on one loop in a thread of its own, so that calls may come from any thread, also from one whose own loop runs (a
notebook's): that one stands still meanwhile. After a fork, connect in the child.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Unpack

from . import client as asynchronous
from .client import PATIENCE_SECONDS
from .keys import TenantKeys
from .login import LoginArguments
from .loop_thread import LoopThread, shared
from .sync_conversation import Conversation

__all__ = ["Client", "Conversation"]


class Client:
    """One connection, any number of conversations."""

    def __init__(self, client: asynchronous.Client, loop: LoopThread) -> None:
        self._client = client
        self._loop = loop
        loop.at_exit(self)

    @staticmethod
    def connect(
        url: str,
        *,
        name: str = "agent",
        keys: TenantKeys | None = None,
        patience: float = PATIENCE_SECONDS,
        **login: Unpack[LoginArguments],
    ) -> Client:
        """Connect; `with Client.connect(url) as client` closes at the end. See `jettison_client.Client.connect`."""
        connecting = asynchronous.Client.connect(url, name=name, keys=keys, patience=patience, **login)
        loop = shared()

        async def connected() -> asynchronous.Client:
            return await connecting

        return Client(loop.run(connected()), loop)

    def open(
        self,
        conversation: str,
        *,
        tenant: str = "default",
        model: str = "",
        policy: Mapping[str, Any] | None = None,
        budget: int = 0,
        format: str = "",
        tools: Iterable[Mapping[str, Any]] = (),
    ) -> Conversation:
        """Open or resume a conversation. See `jettison_client.Client.open`."""
        talk = self._client.open(
            conversation, tenant=tenant, model=model, policy=policy, budget=budget, format=format, tools=tools
        )
        return Conversation(self._loop.run(talk), self._loop)

    def close(self) -> None:
        """Close the connection; a second time does nothing, nor in the child of a fork: it is the parent's.

        What was appended is durable without.
        """
        if self._loop.is_ours():
            self._loop.run(self._client.close())

    def __enter__(self) -> Client:
        """Return this client, which is closed at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    async def close_within(self, seconds: float) -> None:
        """Close on the loop's own thread, as the program ends."""
        with suppress(Exception):
            async with asyncio.timeout(seconds):
                await self._client.close()
