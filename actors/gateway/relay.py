"""Relay: a provider's answer on its way to the agent, piece by piece as it comes, and whoever listens to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable

import aiohttp
from starlette.types import Send

from .apis import Host, error_body, error_event
from .ends import Ends
from .headers import Header, returned, value_of
from .sse import WholeEvents

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


class BrokenOff(Exception):
    """The provider's answer ended before its end; the connection to the agent has to end so too."""


async def started(send: Send, status: int, headers: Iterable[Header]) -> None:
    """Begin an answer."""
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})


async def said(send: Send, piece: bytes, *, more: bool = True) -> None:
    """Send a piece of an answer."""
    await send({"type": "http.response.body", "body": piece, "more_body": more})


async def answered(send: Send, status: int, body: bytes, headers: Iterable[Header] = ()) -> None:
    """Send a whole answer in JSON."""
    length = (b"content-length", str(len(body)).encode())
    await started(send, status, [(b"content-type", b"application/json"), length, *headers])
    await said(send, body, more=False)


async def refused(
    send: Send,
    host: Host,
    status: int,
    *,
    kind: str,
    message: str,
    code: str | None = None,
    headers: Iterable[Header] = (),
) -> None:
    """Send an error of the gateway's own, in the shape of the provider's."""
    await answered(send, status, error_body(host, kind=kind, message=message, code=code), headers)


async def relayed(
    answer: aiohttp.ClientResponse,
    send: Send,
    *,
    added: Iterable[Header] = (),
    heard: Callable[[bytes], None] | None = None,
    read: bytes = b"",
    ends: Ends | None = None,
) -> None:
    """Send *answer* to the agent as it is, with the headers *added*; *heard* gets each piece after the agent.

    *read* is what was read of it before. Raises `BrokenOff` where it broke off and nothing says so.
    """
    await started(send, answer.status, [*returned(answer.raw_headers), *added])
    if read:
        await said(send, read)
    events = WholeEvents() if is_stream(answer) and not value_of(answer.raw_headers, "content-encoding") else None
    try:
        async for piece in pieces(answer):
            whole = piece if events is None else events.fed(piece)
            if whole := await ends.fed(whole) if ends else whole:
                await said(send, whole)
            if heard is not None:
                heard(piece)
        last = events.rest() if events is not None else b""
        last = last + await ends.rest() if ends else last
    except BrokenOff as error:
        if events is None:
            raise
        last = error_event(message=str(error))
    await said(send, last, more=False)


async def pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the answer's body as it comes. Raises `BrokenOff`."""
    try:
        async for piece in answer.content.iter_any():
            yield piece
    except FAILURES as error:
        raise BrokenOff(f"the provider's answer broke off: {type(error).__name__}") from None


def is_stream(answer: aiohttp.ClientResponse) -> bool:
    """Tell whether the answer comes event by event."""
    return value_of(answer.raw_headers, "content-type").startswith("text/event-stream")
