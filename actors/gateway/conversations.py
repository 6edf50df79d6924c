"""Conversations that a provider keeps (`conversation` of Responses): a request names one, and brings what is new.

The provider's own list stays the truth. It is read before each request, which then is as one that brings its whole
history; what was said is added to it before its caller hears the end. So nothing is lost to who goes on without the
gateway, or while that cannot do its work.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import aiohttp
import msgspec

from protocol.errors import Rejected, Unavailable
from protocol.jsonbytes import encode

from .bodies import UNREADABLE, Body
from .ends import BrokenOff, Keep
from .reasons import failure_of

ITEMS = "/v1/conversations/{}/items"

PAGE_QUERY = "order=asc&limit=100&include%5B%5D=reasoning.encrypted_content"

ADDED_MAX = 20
"""Items that a provider takes at once."""

ADD_SECONDS = 15.0
"""An answer that is not added by then has no end: its caller asks again, and the list is as it was before."""

_IDENT = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""What may stand in a path."""

AskBeside = Callable[..., AbstractAsyncContextManager[aiohttp.ClientResponse]]
"""Asks the provider, by `method`, `path`, `query` and `body`, with what the caller showed."""


class _Page(msgspec.Struct):
    data: list[msgspec.Raw]
    has_more: bool = False
    last_id: str | None = None


def conversation_of(body: Body) -> str:
    """Return the id of the conversation that a request goes on with; empty for none, or none that can be read."""
    said = body.field("conversation") if body.api.name == "responses" else None
    ident = said.get("id") if isinstance(said, dict) else said
    return ident if isinstance(ident, str) and _IDENT.fullmatch(ident) else ""


async def whole(body: Body, ask: AskBeside, *, seconds: float) -> Body:
    """Return a request with all that stands before it. Raises `Rejected` where its provider does not show that."""
    ident = conversation_of(body)
    try:
        async with asyncio.timeout(seconds):
            items = await _items(ident, ask)
    except (TimeoutError, Unavailable, aiohttp.ClientError):
        raise Rejected("its provider does not show the conversation in time") from None
    except UNREADABLE:
        raise Rejected("its provider's conversation cannot be read") from None
    return body.behind(items, conversation=ident)


async def _items(ident: str, ask: AskBeside) -> list[bytes]:
    found, after, more = list[bytes](), "", True
    while more:
        query = f"{PAGE_QUERY}&after={after}" if after else PAGE_QUERY
        async with ask(method="GET", path=ITEMS.format(ident), query=query) as answer:
            if answer.status != 200:
                raise Rejected(f"its provider does not show the conversation: {answer.status}")
            page = msgspec.json.decode(await answer.read(), type=_Page)
        found += map(bytes, page.data)
        after = page.last_id or ""
        more = page.has_more and bool(_IDENT.fullmatch(after))
    return found


def added_to(body: Body, ask: AskBeside) -> Keep:
    """Return the work that adds a whole response to *body*, and what it answers, to the conversation."""
    return partial(_added, body, ask)


async def _added(body: Body, ask: AskBeside, response: Mapping[str, Any]) -> None:
    output = response.get("output")
    if not isinstance(output, list) or not all(isinstance(one, dict) for one in output):
        raise BrokenOff("the answer was not added to its conversation: its output is no list of items")
    items = [*body.own, *map(encode, output)]
    try:
        async with asyncio.timeout(ADD_SECONDS):
            for at in range(0, len(items), ADDED_MAX):
                await _add(ask, ITEMS.format(body.conversation), items[at : at + ADDED_MAX])
    except (TimeoutError, Unavailable, aiohttp.ClientError) as error:
        raise BrokenOff(f"the answer was not added to its conversation: {failure_of(error)}") from None


async def _add(ask: AskBeside, path: str, items: Sequence[bytes]) -> None:
    async with ask(method="POST", path=path, body=b'{"items":[' + b",".join(items) + b"]}") as answer:
        if answer.status != 200:
            raise Unavailable(f"its provider says {answer.status}")
