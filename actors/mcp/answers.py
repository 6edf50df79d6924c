"""Answers: each call of a tool becomes a question to the context service, and its answer a text for the model.

The service is asked for one conversation at a time, which the caller's claims allow; it tells nothing of others.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, assert_never

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.errors import Error as NatsError

from protocol.errors import JettisonError, NotFound, Rejected
from protocol.history import (
    ArtifactsAsked,
    Found,
    KeptPart,
    SearchAsked,
    Version,
    VersionsAsked,
    Why,
    WhyAsked,
)
from protocol.ids import Address
from protocol.limits import READ_BYTES_MAX
from protocol.service_call import Question, ask
from protocol.service_messages import ExpandAsked, Expanded, ReadAsked
from protocol.subjects import Verb

from . import texts
from .claims import Claims, Unknown
from .tools import OFFERS, Arguments, Expand, Explain, Read, Search, Versions

log = logging.getLogger("jettison.mcp")

WAIT_SECONDS = 8.0
"""For the service: clients give a tool a minute or so, and their user is waiting."""

IMAGE_CHARS_MAX = 1_500_000
"""Of an image's base64: what clients and providers take."""

KEPT_MAX = 200
_IMAGE_TOLD = re.compile(r"\[(image/[\w.+-]+), ")
_IMAGE_URL = re.compile(r"data:(image/[\w.+-]+);base64,")
_HELPS = frozenset(("first", "last", "number", "version"))
"""Fields of a `NotFound` of something within a conversation that is there."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class ToolAnswer:
    """An answer: a text, or an image in base64 with its type."""

    text: str
    failed: bool = False
    image: str = ""
    media_type: str = ""


@dataclass(kw_only=True)
class Answers:
    """Who answers calls, over one connection that is made when it is first needed."""

    connect: Callable[[], Awaitable[NatsConnection]]
    read_only: bool = False
    _connection: NatsConnection | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def told(self, name: str, arguments: dict[str, Any], claims: Claims) -> ToolAnswer:
        """Return the answer to a call of the tool *name*; what goes wrong is told in words."""
        offer = next((one for one in OFFERS if one.name == name and not (one.changes and self.read_only)), None)
        try:
            if offer is None:
                raise Rejected("there is no tool of that name")
            return await self._told(offer.read(arguments), claims)
        except Rejected as error:
            return ToolAnswer(text=f"Error: {error}", failed=True)
        except JettisonError as error:
            # to a caller elsewhere it would tell where things are
            log.warning("%s cannot be answered: %s", name, error)
            why = str(error) if claims.is_local else type(error).__name__
            return ToolAnswer(
                text=f"Error: this cannot be read now ({why}). Go on without it, or try again later.", failed=True
            )

    async def _told(self, call: Arguments, claims: Claims) -> ToolAnswer:
        match call:
            case Read():
                return await self._read(call, claims)
            case Search():
                return ToolAnswer(text=await self._search(call, claims))
            case Versions():
                return ToolAnswer(text=await self._versions(call, claims))
            case Explain():
                return ToolAnswer(text=await self._explain(call, claims))
            case Expand():
                return ToolAnswer(text=await self._expand(call, claims))
        assert_never(call)

    async def _read(self, call: Read, claims: Claims) -> ToolAnswer:
        at, key = claims.addressed(call.key, call.conversation)
        asked = msgspec.structs.replace(call.asked(), key=key, own=True)
        text = (await self._ask(at, "read", asked)).decode("utf-8", "replace")
        if _IMAGE_TOLD.match(text) and not (asked.lines or asked.bytes or asked.pattern):
            return await self._image(at, asked, text)
        return ToolAnswer(
            text=text if claims.only else f'[of {at.conversation}: put "{at.conversation}/" before keys below]\n{text}'
        )

    async def _image(self, at: Address, asked: ReadAsked, told: str) -> ToolAnswer:
        url = (await self._ask(at, "read", msgspec.structs.replace(asked, media=True))).decode("utf-8", "replace")
        found = _IMAGE_URL.match(url)
        if found is None or len(url) > IMAGE_CHARS_MAX:
            return ToolAnswer(
                text=f"{told[: texts.SAID_CHARS]}\n[It is too large, or of a kind that cannot be shown here.]"
            )
        return ToolAnswer(text=f"Artifact {asked.key}:", image=url[found.end() :], media_type=found[1])

    async def _search(self, call: Search, claims: Claims) -> str:
        at = claims.address(call.conversation)
        asked = SearchAsked(
            query=call.query, regex=call.regex, before=call.before, most=call.limit, context=call.context
        )
        return texts.found_text(await self._found(at, "search", asked, Found), conversation=at.conversation)

    async def _versions(self, call: Versions, claims: Claims) -> str:
        at = claims.address(call.conversation)
        limit = max(1, min(call.limit, 200))
        asked = VersionsAsked(before=call.before, most=limit, newest=True, changes=not call.all)
        rows = list(reversed(await self._found(at, "versions", asked, list[Version])))
        more = len(rows) == limit and rows[-1].version > 1
        return texts.versions_text(rows, conversation=at.conversation, more=more)

    async def _explain(self, call: Explain, claims: Claims) -> str:
        at, number = claims.addressed(str(call.message), call.conversation)
        number = number.removeprefix("messages:").removeprefix("#")
        if not (number.isascii() and number.isdecimal() and len(number) <= 9):
            raise Rejected('a message is named by its number, such as "12" or "#12"')
        asked = WhyAsked(message=int(number), version=max(0, call.version))
        return texts.explained_text(await self._found(at, "why", asked, Why), conversation=at.conversation)

    async def _expand(self, call: Expand, claims: Claims) -> str:
        at, key = claims.addressed(call.key, call.conversation)
        span = key.removeprefix("messages:")
        is_span = key != span or key.startswith("#")
        asked = ExpandAsked(messages=span) if is_span else ExpandAsked(artifact=key)
        found = await self._found(at, "expand", asked, Expanded)
        return texts.expanded_text(found, key=f"{at.conversation}/{key}")

    async def kept(self, claims: Claims, *, before: int = 0) -> list[tuple[Address, KeptPart]]:
        """Return the newest artifacts, where there is one conversation only. Raises `JettisonError`."""
        if claims.only is None:
            return []
        at = claims.address("")
        try:
            asked = ArtifactsAsked(before=before, most=KEPT_MAX)
            return [(at, part) for part in await self._found(at, "artifacts", asked, list[KeptPart])]
        except NotFound:
            return []

    async def whole(self, key: str, claims: Claims) -> ToolAnswer:
        """Return the text or image that *key* names, as much as one answer holds. Raises `JettisonError`."""
        at, own = claims.addressed(key)
        asked = ReadAsked(key=own, bytes_max=READ_BYTES_MAX, own=True)
        text = (await self._ask(at, "read", asked)).decode("utf-8", "replace")
        return await self._image(at, asked, text) if _IMAGE_TOLD.match(text) else ToolAnswer(text=text)

    async def _found(self, at: Address, verb: Verb, asked: Question, kind: type[T]) -> T:
        return msgspec.json.decode(await self._ask(at, verb, asked), type=kind)

    async def _ask(self, at: Address, verb: Verb, asked: Question) -> bytes:
        try:
            _, body = await ask(await self._connected(), at, verb, asked, WAIT_SECONDS)
        except NotFound as error:
            # what is not there, and what is there for others, are told in the same words
            if _HELPS.isdisjoint(error.fields):
                raise Unknown from None
            raise
        return body

    async def _connected(self) -> NatsConnection:
        async with self._lock:
            if self._connection is None or self._connection.is_closed:
                self._connection = await self.connect()
            return self._connection

    async def close(self) -> None:
        """End the connection, if there is one."""
        if self._connection is not None:
            try:
                await self._connection.close()
            except (NatsError, OSError) as error:
                log.info("the connection ended: %s", error)
