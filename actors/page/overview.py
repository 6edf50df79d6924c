"""Overview: how conversations are now, as the list shows them.

Most have a snapshot and take milliseconds. One without takes seconds if its log is long; nobody waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.core.flow import next_actor
from actors.core.listed import ERASED, NOT_READ
from actors.core.state import State
from actors.runtime.conversations import Conversations
from protocol.errors import Damaged, KeysUnavailable, Rejected, Unavailable
from protocol.ids import Address

from .known_list import ListRow

LOADS_MAX = 8
"""Conversations that are loaded at once, whoever asks."""


class Now(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation as it is now; where it is `unreadable`, or `reading` goes on, nothing more is known."""

    at: Address
    at_ms: int = 0
    """When the log got something of it last."""
    name: str = ""
    model: str = ""
    version: int = 0
    messages: int = 0
    said: int = 0
    """Tokens of all its messages, as they were said."""
    tokens: int = 0
    usable: int = 0
    waits_for: str = ""
    erased: bool = False
    archived: bool = False
    unreadable: str = ""
    why: str = ""
    reading: bool = False
    """It takes longer than one waits for a page; who asks again gets it."""


def now_of(at: Address, state: State) -> Now:
    """Return the overview of *at*: its model, tokens and stage now."""
    return Now(
        at=at,
        name=state.terms.name,
        model=state.terms.model,
        version=state.version,
        messages=state.messages,
        said=state.spent.said_tokens,
        tokens=state.live_tokens,
        usable=state.usable_tokens if state.policy else 0,
        waits_for=next_actor(state) or "",
        erased=state.erased,
        archived=state.archived,
    )


def now_listed(row: ListRow) -> Now:
    """Return the overview of a conversation by what is kept for lists."""
    return Now(
        at=row.at,
        at_ms=row.at_ms,
        name=row.name,
        model=row.model,
        version=row.version,
        messages=row.messages,
        said=row.log_tokens,
        tokens=row.tokens,
        usable=row.usable,
        waits_for=row.waits_for,
        erased=row.fault == ERASED,
        archived=row.idle_ms > 0,
        unreadable="" if row.fault == ERASED else row.fault,
        why=row.why,
    )


class Glances:
    """Looks at conversations, each once at a time for all who ask."""

    def __init__(self, conversations: Conversations, *, wait_seconds: float) -> None:
        self._conversations = conversations
        self._wait_seconds = wait_seconds
        self._limit = asyncio.Semaphore(LOADS_MAX)
        self._looking: dict[Address, asyncio.Task[Now]] = {}

    async def rows(self, rows: Sequence[ListRow]) -> list[Now]:
        """Return how each one is now: as it is listed, or looked at where the log has more, or it was not read."""
        wanted = [row.at for row in rows if row.stale or row.fault == NOT_READ]
        looked = {now.at: now for now in await self.look(wanted)}
        return [msgspec.structs.replace(looked.get(row.at) or now_listed(row), at_ms=row.at_ms) for row in rows]

    async def look(self, addresses: Sequence[Address]) -> list[Now]:
        """Return each conversation's row, after a moment without those that take longer."""
        tasks = [self._task(at) for at in addresses]
        if tasks:
            await asyncio.wait(tasks, timeout=self._wait_seconds)
        return [
            task.result() if task.done() else Now(at=at, reading=True)
            for at, task in zip(addresses, tasks, strict=True)
        ]

    def _task(self, at: Address) -> asyncio.Task[Now]:
        if at not in self._looking:
            self._looking[at] = asyncio.create_task(self._look(at))
            self._looking[at].add_done_callback(lambda task: self._seen(at, task))
        return self._looking[at]

    def _seen(self, at: Address, task: asyncio.Task[Now]) -> None:
        del self._looking[at]
        if not task.cancelled():
            task.exception()  # the one who asked may have left; who asks again is told

    async def _look(self, at: Address) -> Now:
        async with self._limit:
            try:
                return now_of(at, await self._conversations.load(at))
            except KeysUnavailable as error:
                return Now(at=at, unreadable="no key", why=str(error))
            except Unavailable as error:
                # such as a copy that is being written: it must not hide all others
                return Now(at=at, unreadable=NOT_READ, why=str(error))
            except (Damaged, Rejected) as error:
                return Now(at=at, unreadable="damaged", why=str(error))
