"""Relay: a provider's answer on its way to the agent, piece by piece as it comes, and whoever listens to it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Coroutine, Iterable
from typing import Any

import aiohttp
from starlette.types import Send

from protocol.errors import Rejected, Unavailable

from .apis import Host, error_body, error_event
from .encodings import IDENTITY
from .ends import BrokenOff, Ends
from .headers import Header, returned, value_of
from .reasons import failure_of
from .sse import Events, WholeEvents
from .usage import Overheard

log = logging.getLogger("jettison.gateway")

HEARD_BYTES_MAX = 32 * 2**20
"""Of an answer that comes as a whole; of a larger one nothing is learned."""

FAILURES = (aiohttp.ClientError, TimeoutError, OSError)


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


async def ended(work: Coroutine[Any, Any, None], host: Host, send: Send) -> None:
    """Do *work*, and tell the agent what became of it where nothing was told yet."""
    try:
        await work
    except BrokenOff:
        # without an end of its answer the connection is closed, as the provider's was
        log.info("an answer of %s broke off", host)
    except Rejected as error:
        await refused(send, host, 404, kind="not_found_error", message=str(error))
    except Unavailable as error:
        log.warning("a request has no answer: %s", error)
        await refused(send, host, 502, kind="api_error", message=str(error), code="upstream_unreachable")


async def relayed(
    answer: aiohttp.ClientResponse,
    send: Send,
    *,
    added: Iterable[Header] = (),
    heard: Overheard | None = None,
    read: bytes = b"",
    ends: Ends | None = None,
) -> None:
    """Send *answer* to the agent as it is, with the headers *added*; *heard* and *ends* listen, if it is plain.

    *read* is what was read of it before. Raises `BrokenOff` where it broke off and nothing says so.
    """
    await started(send, answer.status, [*returned(answer.raw_headers), *added])
    if read:
        await said(send, read)
    if not is_plain(answer):
        heard = ends = None
    if is_stream(answer) and is_plain(answer):
        await _streamed(answer, send, heard, ends)
    else:
        await _whole(answer, send, heard, ends)


async def _streamed(answer: aiohttp.ClientResponse, send: Send, heard: Overheard | None, ends: Ends | None) -> None:
    """Send a stream event by event; it is taken apart once, and only for who listens."""
    events, unheard = Events(), WholeEvents()
    listened = heard is not None or ends is not None
    try:
        async for piece in pieces(answer):
            if not listened:
                whole = unheard.fed(piece)
            else:
                found = list(events.fed(piece))
                for event in found:
                    await _listened(event.data, heard, ends)
                whole = b"".join(event.raw for event in found)
            if whole:
                await said(send, whole)
        last = events.rest() if listened else unheard.rest()
    except BrokenOff as error:
        last = error_event(message=str(error))
    await said(send, last, more=False)


async def _listened(data: bytes, heard: Overheard | None, ends: Ends | None) -> None:
    if heard is not None:
        heard.hear(data)
    if ends is not None:
        await ends.hear(data)


async def _whole(answer: aiohttp.ClientResponse, send: Send, heard: Overheard | None, ends: Ends | None) -> None:
    """Send any other answer as it comes; for *ends* it waits until all of it is there."""
    body = bytearray()
    async for piece in pieces(answer):
        if ends is not None or (heard is not None and len(body) <= HEARD_BYTES_MAX):
            body += piece
        if ends is None:
            await said(send, piece)
    if heard is not None:
        heard.hear(bytes(body))
    if ends is not None:
        await ends.whole(bytes(body))
    await said(send, bytes(body) if ends is not None else b"", more=False)


async def pieces(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the answer's body as it comes. Raises `BrokenOff`."""
    try:
        # alone, though more may be there: to put all of that together takes longer than an agent should wait
        first, _ = await answer.content.readchunk()
        if first:
            yield first
        async for piece in answer.content.iter_any():
            yield piece
    except FAILURES as error:
        raise BrokenOff(f"the provider's answer broke off: {failure_of(error)}") from None


def is_stream(answer: aiohttp.ClientResponse) -> bool:
    """Tell whether the answer comes event by event."""
    return value_of(answer.raw_headers, "content-type").startswith("text/event-stream")


def is_plain(answer: aiohttp.ClientResponse) -> bool:
    """Tell whether its bytes are what was said, and nobody packed them."""
    return value_of(answer.raw_headers, "content-encoding") in IDENTITY
