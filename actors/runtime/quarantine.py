"""Quarantine: conversations in whose deliveries workers disappear, and questions that somebody may still be answered.

A worker that is killed counts nothing. So whoever takes a slot that was not brought back, or a conversation that it
does not know, looks for what the last one wrote down, and writes down that it begins itself; an end in order wipes
that, whichever end it is: done, given back, failed. After two deliveries without an end the next one is done in a
process of its own. Only the death of that process, seen by us, counts against the conversation: kills from outside,
outages and restarts never do. A worker that disappears while its sandbox works was ended by somebody else: the work is
done by a worker again then, so that workers who are killed faster than a sandbox ends get on all the same.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
from cachetools import LRUCache

from actors.core.state import State
from actors.squeeze.decide import deadline_seconds
from protocol.errors import Busy, Deadly, NotReady, Unavailable
from protocol.ids import Address
from protocol.subjects import Actor
from storage.work_ports import BegunWork, InProgress

from .delivery import Delivery
from .retries import REMEMBERED_MAX

log = logging.getLogger("jettison.worker")

VANISHED_MAX = 2
"""Deliveries in a row that began and did not end, before the next one is tried apart; with the one before these, which
wrote nothing down, a conversation takes three workers with it at most."""

OCCUPIED_SECONDS = 1.0
"""So long one in whose delivery a worker disappeared waits for another such one, and pauses then. They are worked on
one at a time: the next worker that disappears is counted against one of them, not all; and it may be memory."""


class Sandbox(Protocol):
    """Does one delivery's work in a process of its own."""

    async def death(self, actor: Actor, at: Address) -> str:
        """Do the work; return what its process died of, empty if it did not.

        Raises `Unavailable` if it could not be begun.
        """
        ...


@dataclass(kw_only=True)
class Quarantine:
    """What one worker knows of deliveries that did not end."""

    actor: Actor
    worker: str
    in_progress: InProgress
    sandbox: Sandbox
    _known: LRUCache[Address, None] = field(default_factory=lambda: LRUCache(REMEMBERED_MAX))
    """Conversations whose work ended here: their first delivery is not looked up."""
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def begin(self, delivery: Delivery) -> None:
        """Look for deliveries before this one that nobody ended; return when it may be done here.

        Raises `Deadly` if it may not be done anywhere, `Unavailable` if not now.
        """
        slot = delivery.slot
        if slot.deliveries == 1 and slot.at in self._known:
            return
        found = await self.in_progress.find(self.actor, slot.at)
        if found is None and slot.deliveries == 1:
            return
        if found is not None and found.asks_seconds and not found.is_waited_for and found.worker != self.worker:
            await self._wait_for(slot.at, found)
        if found is not None:
            await self._take_turn(delivery)
        vanished = _vanished(found)
        if found is not None and vanished >= VANISHED_MAX:
            await self._try(slot.at, found)
            vanished = 0
        await self._write(delivery, BegunWork(worker=self.worker, vanished=vanished))

    async def ask(self, delivery: Delivery, state: State) -> None:
        """Write down that a model is asked now, and for how long it may answer."""
        self._give_turn(delivery)
        if delivery.begun is not None and delivery.begun.asks_seconds:
            return
        vanished = delivery.begun.vanished if delivery.begun else 0
        asks = BegunWork(worker=self.worker, vanished=vanished, asks_seconds=deadline_seconds(state))
        await self._write(delivery, asks)

    async def end(self, delivery: Delivery) -> None:
        """Wipe what it wrote down; if that fails, its conversation is suspected for nothing, and acquitted."""
        self._give_turn(delivery)
        if delivery.begun is None:
            return
        delivery.begun = None
        try:
            await self.in_progress.wipe(self.actor, delivery.slot.at)
        except Unavailable as error:
            log.warning("the work on %s ended, which cannot be written down: %s", delivery.slot.at, error)

    def know(self, at: Address) -> None:
        """Remember that work on *at* ended well."""
        self._known[at] = None

    async def _write(self, delivery: Delivery, begun: BegunWork) -> None:
        # before it is known to be stored: it may be, though the server does not say so
        delivery.begun = begun
        await self.in_progress.put(self.actor, delivery.slot.at, begun)

    async def _wait_for(self, at: Address, found: BegunWork) -> None:
        """Give the answer to another one's question its time, once; it may be that only its signs of life were late."""
        await self.in_progress.put(self.actor, at, msgspec.structs.replace(found, is_waited_for=True))
        raise NotReady(
            f"a model may still answer {found.worker}, within {found.asks_seconds:g} s",
            retry_after_seconds=found.asks_seconds,
        )

    async def _take_turn(self, delivery: Delivery) -> None:
        try:
            async with asyncio.timeout(OCCUPIED_SECONDS):
                delivery.has_turn = await self._one.acquire()
        except TimeoutError:
            at = delivery.slot.at
            raise Busy(
                f"another one that may be deadly comes before {at}", retry_after_seconds=OCCUPIED_SECONDS
            ) from None

    def _give_turn(self, delivery: Delivery) -> None:
        if delivery.has_turn:
            delivery.has_turn = False
            self._one.release()

    async def _try(self, at: Address, found: BegunWork) -> None:
        try:
            log.warning("%s of %s is tried in a process of its own: nobody ended its last deliveries", self.actor, at)
            await self.in_progress.put(self.actor, at, msgspec.structs.replace(found, is_tried=True))
            death = await self.sandbox.death(self.actor, at)
        except Unavailable:
            # nothing was tried, nothing is known
            await self._put_if_possible(at, found)
            raise
        if death:
            self._known.pop(at, None)
            # where it cannot be written down, one more worker may die of it before it is tried apart again
            await self._put_if_possible(at, msgspec.structs.replace(found, is_deadly=True, is_tried=False))
            raise Deadly(f"the process that did {self.actor} of {at} and nothing else died: {death}", address=str(at))

    async def _put_if_possible(self, at: Address, begun: BegunWork) -> None:
        with suppress(Unavailable):
            await self.in_progress.put(self.actor, at, begun)


def _vanished(found: BegunWork | None) -> int:
    """Return how many deliveries in a row began here and did not end, for all that *found* says."""
    if found is None:
        return 0
    if found.is_tried and not found.is_deadly:
        # its worker died beside the sandbox, so not of this; nobody knows of what those before it died
        return VANISHED_MAX - 1
    return found.vanished + 1
