"""Claims: who goes on with which conversation, agreed by compare-and-set among any number of gateways."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from cachetools import LRUCache
from msgspec.structs import replace

from protocol.errors import UNREADABLE, Contended, LogUnavailable
from protocol.ids import Token, token
from storage.gateway_places import GatewayPlaces

from . import identity
from .identity import Aside, Begins, Branches, GoesOn, Head, Known
from .reasons import Unmanaged

CLAIMS_MAX = 8
"""Conflicts in a row before a request is forwarded as it came."""

CLAIM_PAUSE_SECONDS = 0.02

UNWRITTEN_MAX = 4096

READ_BYTES_MAX = 16 * 2**20
"""Of documents, as they are written, that a process remembers."""

PLACE_BYTES_MAX = 900 * 1024
"""Of one document, which is one frame of NATS."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is looked for."""

    tenant: str
    place: Token
    chain: Sequence[bytes]
    hashes: Sequence[bytes]
    tools: bool
    beside: bool
    alone: bool
    """It may begin a conversation, where it is beside none that is known."""
    first: bool
    answered: int
    """Messages up to the first answer; as many as the chain has hashes where no branch may begin."""
    new: Head
    whole: bool = True
    """All of the conversation is in the request, so that one can begin with it."""
    until: float = math.inf
    """By the monotonic clock: later, the next request may be claimed already, and this one would look like a branch."""


@dataclass
class Unwritten:
    """What this process knows of a conversation and is not in its document yet."""

    landed: int = 0
    """Its messages that are in the log by now."""
    changed: bool = False
    begun: bool = False
    """As a fork, so that its origin is of no use any more."""
    aside: bool = False
    """The newest aside had an odd budget."""
    unsent: tuple[int, ...] = ()
    """Versions of views that no model got, and of which the log does not say so yet."""


class _Read(NamedTuple):
    """A document as this process knows it; a write tells whether it still is so."""

    known: Known
    revision: int
    size: int


@dataclass(kw_only=True)
class Claims:
    """The documents, and what is to be written into them with the next claim."""

    places: GatewayPlaces
    _unwritten: LRUCache[str, Unwritten] = field(default_factory=lambda: LRUCache(UNWRITTEN_MAX))
    _read: LRUCache[tuple[str, Token], _Read] = field(
        default_factory=lambda: LRUCache(READ_BYTES_MAX, getsizeof=lambda one: one.size)
    )

    def unwritten(self, name: str) -> Unwritten:
        """Return the unwritten part of the conversation *name*."""
        found = self._unwritten.get(name)
        if found is None:
            found = self._unwritten[name] = Unwritten()
        return found

    async def claimed(self, asked: Search, *, soon: Callable[[Head], None] = lambda _: None) -> Head:
        """Return the conversation that a request goes on with, as it is with all of the request's messages.

        *soon* is told which before it is sure, and claimed. Raises `Rejected` for a question beside what nobody
        knows, `Contended`, `LogUnavailable`, also once its time is over: its agent was answered, and all of it is in
        the next request.
        """
        failed: LogUnavailable | None = None
        for tries in range(CLAIMS_MAX):
            # a replica that was asked may not know yet who was faster; the first time nobody was asked
            await asyncio.sleep(CLAIM_PAUSE_SECONDS * max(0, tries - 1))
            if time.monotonic() >= asked.until:
                raise failed or LogUnavailable("a request was not claimed before its deadline")
            try:
                if (head := await self._claim(asked, soon, again=tries > 0)) is not None:
                    return head
            except LogUnavailable as error:
                # whether it landed is seen at the next look
                failed = error
        raise failed or Contended("other gateways go on with the same conversation, too often")

    async def change(self, tenant: str, place: Token, name: str, changed: Callable[[Head], Head | None]) -> None:
        """Write the conversation *name* as *changed* returns it; None, or one that is not known: nothing is written."""
        for _ in range(CLAIMS_MAX):
            known, revision = await self._known(tenant, place)
            head = next((head for head in known.heads if head.name == name), None)
            after = changed(head) if head else None
            if after is None:
                return
            wanted = identity.known_with(known, after)
            if await self._written(tenant, place, wanted, revision, bytes_max=PLACE_BYTES_MAX):
                return

    async def forget(self, tenant: str, place: Token, name: str) -> None:
        """Know nothing of the conversation *name* any more, where nobody is faster."""
        known, revision = await self._known(tenant, place)
        await self._written(tenant, place, identity.known_without(known, name), revision)

    async def _claim(self, asked: Search, soon: Callable[[Head], None], *, again: bool) -> Head | None:
        """Try once, by what this process wrote last unless it is tried *again*; None where that was not enough."""
        remembered = None if again else self._read.get((asked.tenant, asked.place))
        known, revision = await self._known(asked.tenant, asked.place, remembered)
        decision = identity.decide(
            known,
            asked.chain,
            tools=asked.tools,
            beside=asked.beside,
            alone=asked.alone,
            first=asked.first,
            answered=asked.answered,
        )
        match decision:
            case None | Aside() if remembered:
                return None  # nothing would be written, which alone tells that nobody was faster
            case None:
                raise Unmanaged("nothing is kept of the conversation that this is asked beside")
            case Aside(head=head):
                return head
            case GoesOn(head=before):
                head = before
            case Branches(head=parent, point=point):
                head = identity.branched(parent, point, name=asked.new.name)
            case Begins():
                if not asked.whole and remembered:
                    return None
                if not asked.whole:
                    raise Unmanaged("what this goes on from is not known any more")
                head = asked.new
        grown = identity.grown(head, asked.chain, asked.hashes)
        if isinstance(decision, GoesOn) and grown == head:
            return None if remembered else head
        soon(grown)
        landed = await self._written(asked.tenant, asked.place, identity.known_with(known, grown), revision)
        return grown if landed else None

    async def _written(
        self, tenant: str, place: Token, known: Known, revision: int, *, bytes_max: float = math.inf
    ) -> bool:
        """Write a document, unless it has more than *bytes_max*; tell whether that is done."""
        raw = msgspec.msgpack.encode(known)
        if len(raw) > bytes_max:
            return True
        self._read.pop((tenant, place), None)
        landed = await self.places.write(token(tenant), place, raw, revision=revision)
        if landed is not None and len(raw) <= PLACE_BYTES_MAX:
            self._read[tenant, place] = _Read(known, landed, len(raw))
        return landed is not None

    async def _known(self, tenant: str, place: Token, remembered: _Read | None = None) -> tuple[Known, int]:
        if remembered:
            return replace(remembered.known, heads=tuple(map(self._noted, remembered.known.heads))), remembered.revision
        raw, revision = await self.places.read(token(tenant), place)
        if not raw:
            return Known(), revision
        try:
            known = msgspec.msgpack.decode(raw, type=Known)
        except UNREADABLE:
            raise Unmanaged("a newer gateway wrote what is known of this conversation") from None
        return replace(known, heads=tuple(map(self._noted, known.heads))), revision

    def _noted(self, head: Head) -> Head:
        unwritten = self._unwritten.get(head.name)
        if unwritten is None:
            return head
        waiting = tuple(one for one in head.waiting if one.end > unwritten.landed)
        origin = None if unwritten.begun else head.origin
        return replace(head, waiting=waiting, changed=head.changed or unwritten.changed, origin=origin)
