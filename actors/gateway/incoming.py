"""Incoming: one request of an agent, read within bounds, and the end of all work for it when the agent hangs up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope

from protocol.errors import Rejected

from .apis import route_of
from .headers import Header, value_of

SILENCE_SECONDS = 60.0
"""An agent that sends nothing more of its request for so long is not waited for."""


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """What came: `body` is what was read of it, `rest` what follows where it is larger than is looked at."""

    method: str
    path: str
    """As it was written, percent signs and all; a provider may mean something by them."""
    route: str
    """The path as its API has it: with one `/v1`, whatever its agent's base URL has."""
    query: str
    headers: tuple[Header, ...]
    body: bytes = b""
    rest: AsyncIterator[bytes] | None = field(default=None, compare=False)
    whole: asyncio.Event = field(default_factory=asyncio.Event, compare=False)
    """Set once all of it was read: what comes after that is that its agent hangs up."""
    came: float = field(default_factory=time.monotonic, compare=False)
    """When it was there, as far as it is looked at."""

    def header(self, name: str) -> str:
        """Return the first value of the header *name*; empty if there is none."""
        return value_of(self.headers, name)

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the whole body, the part that was not looked at too."""
        yield self.body
        if self.rest is not None:
            async for chunk in self.rest:
                yield chunk


async def incoming(scope: Scope, receive: Receive, *, bytes_max: int) -> Incoming:
    """Return the request in *scope*, with its body up to *bytes_max*. Raises `Rejected`, `HungUp`."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = raw.decode("latin-1").partition("?")[0]
    whole = asyncio.Event()
    chunks = _chunks(receive, whole)
    body, size, rest = list[bytes](), 0, None
    async for chunk in chunks:
        body.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            rest = chunks
            break
    return Incoming(
        method=scope["method"],
        path=path,
        route=route_of(path),
        query=scope.get("query_string", b"").decode("latin-1"),
        headers=tuple((bytes(key), bytes(value)) for key, value in scope["headers"]),
        body=b"".join(body),
        rest=rest,
        whole=whole,
    )


class HungUp(Exception):
    """The agent left; nobody waits for an answer."""


async def while_heard(receive: Receive, work: Coroutine[Any, Any, None], *, whole: asyncio.Event) -> None:
    """Do *work* until it is done or the agent hangs up: then it is cancelled, and what it asks of others with it.

    Until the request is *whole*, it is *work* that hears the agent.
    """
    doing = asyncio.create_task(work)
    hearing = asyncio.create_task(_hung_up(receive, whole))
    try:
        await asyncio.wait({doing, hearing}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            return
        await doing
    finally:
        for task in (doing, hearing):
            task.cancel()
        await asyncio.gather(doing, hearing, return_exceptions=True)


async def _hung_up(receive: Receive, whole: asyncio.Event) -> None:
    await whole.wait()
    while (await receive())["type"] != "http.disconnect":
        pass


async def _chunks(receive: Receive, whole: asyncio.Event) -> AsyncIterator[bytes]:
    more = True
    while more:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                message = await receive()
        except TimeoutError:
            raise Rejected("the request's body did not come") from None
        if message["type"] == "http.disconnect":
            raise HungUp
        more = message.get("more_body", False)
        if not more:
            whole.set()
        yield message.get("body", b"")
