"""Conversation cache: conversations as the page knows them, folded once and read on from where they were.

A long log takes seconds to fold. That is done in slices on a thread; who asks waits a moment, then is told how far
it is.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import msgspec

from actors.audit.folded_log import Folded
from actors.audit.versions import version_of
from actors.core.pressure import target_tokens, trigger_tokens
from actors.core.state import State
from actors.runtime.fold import head
from protocol.errors import LogRegression, NotFound
from protocol.history import Version
from protocol.ids import Address
from storage.ports import EventLog, Record

VERSIONS_KEPT = 20_000
"""Of all conversations together; 10,000 take about 250 MB (measured), and the one that is looked at always stays."""

SLICE_RECORDS = 256
WAIT_SECONDS = 1.5
"""After which a person is told how far it is instead of waiting on."""


class TokenMarks(msgspec.Struct, frozen=True, kw_only=True):
    """The marks that a version's tokens are held against; none before there is a policy."""

    usable: int | None = None
    trigger: int | None = None
    target: int | None = None


@dataclass(frozen=True, kw_only=True)
class Story:
    """One conversation up to one position of its log."""

    folded: Folded
    rows: tuple[Version, ...] = ()
    marks: tuple[TokenMarks, ...] = ()

    @property
    def at(self) -> Address:
        """Return whose story it is."""
        return self.folded.at

    @property
    def seq(self) -> int:
        """Return the sequence of the newest record."""
        return self.folded[-1].seq if self.folded else 0

    @property
    def time(self) -> str:
        """Return when its newest record was stored."""
        return self.folded[-1].time if self.folded else ""

    @property
    def state(self) -> State:
        """Return the newest state; where the log is damaged, the newest sound one."""
        last = self.folded.commits[-1] if self.folded.commits else None
        if self.folded.damage is not None:
            return last.after if last else head(None, self.at, ())
        return head(last, self.at, self.folded)

    @property
    def oldest(self) -> int:
        """Return the first version that is left, 0 if there is none: of an erased conversation its tombstone."""
        return self.rows[0].version if self.rows else 0

    @property
    def newest(self) -> int:
        """Return the newest version, 0 if there is none."""
        return self.rows[-1].version if self.rows else 0

    def index(self, version: int) -> int:
        """Return the index of *version*'s row. Raises `NotFound`."""
        if not (self.rows and self.oldest <= version <= self.newest):
            has = f"it has {self.oldest} to {self.newest}" if self.rows else "no worker has seen it yet"
            raise NotFound(f"{self.at} has no version {version}; {has}", address=str(self.at), version=version)
        return version - self.oldest

    def extended(self, new: list[Record]) -> Story:
        """Return the story with the *new* records."""
        folded = self.folded.extended(new)
        more = folded.commits[len(self.rows) :]
        return Story(
            folded=folded,
            rows=(*self.rows, *map(version_of, more)),
            marks=(*self.marks, *(_marks(one.after) for one in more)),
        )


@dataclass(frozen=True, kw_only=True)
class UnfinishedStory:
    """A story that is not folded to its end yet."""

    at: Address
    done: int
    records: int


@dataclass(kw_only=True)
class _Shelf:
    """One conversation: what is known, and who reads on."""

    story: Story
    task: asyncio.Task[Story] | None = None
    done: int = 0
    records: int = 0


class Stories:
    """The stories that this process knows; the least looked at are forgotten."""

    def __init__(self, log: EventLog, *, wait_seconds: float = WAIT_SECONDS) -> None:
        self._log = log
        self._wait_seconds = wait_seconds
        self._shelves: OrderedDict[Address, _Shelf] = OrderedDict()

    async def read(self, at: Address) -> Story | UnfinishedStory:
        """Return the story of *at* up to now, or how far it is. Raises `NotFound`, `LogUnavailable`."""
        shelf = self._shelves.setdefault(at, _Shelf(story=Story(folded=Folded(at))))
        self._shelves.move_to_end(at)
        if shelf.task is None or shelf.task.done():
            shelf.task = asyncio.create_task(self._read_on(shelf))
        try:
            async with asyncio.timeout(self._wait_seconds):
                return await asyncio.shield(shelf.task)
        except TimeoutError:
            return UnfinishedStory(at=at, done=shelf.done, records=shelf.records)
        except NotFound:
            self._shelves.pop(at, None)
            raise
        finally:
            self._forget()

    async def _read_on(self, shelf: _Shelf) -> Story:
        story = shelf.story
        try:
            new = await self._log.read(story.at, after=story.seq, time=story.time)
        except LogRegression:
            story = Story(folded=Folded(story.at))
            new = await self._log.read(story.at, after=0)
        found = await self._folded(shelf, story, new)
        if story.folded and new and found.folded.damage is not None:
            # a log that was lost and imported again, or repaired, does not go on from what it was
            found = await self._folded(shelf, Story(folded=Folded(story.at)), await self._log.read(story.at, after=0))
        if not found.folded:
            raise NotFound(f"there is no conversation {story.at}", address=str(story.at))
        shelf.story = found
        return found

    async def _folded(self, shelf: _Shelf, story: Story, new: list[Record]) -> Story:
        shelf.done, shelf.records = len(story.folded), len(story.folded) + len(new)
        for first in range(0, len(new), SLICE_RECORDS):
            story = await asyncio.to_thread(story.extended, new[first : first + SLICE_RECORDS])
            shelf.done = len(story.folded)
        return story

    def _forget(self) -> None:
        """Forget the least looked at, but never what somebody waits for."""
        kept = sum(len(shelf.story.rows) for shelf in self._shelves.values())
        for at, shelf in list(self._shelves.items())[:-1]:
            if kept <= VERSIONS_KEPT:
                return
            if shelf.task is None or shelf.task.done():
                kept -= len(shelf.story.rows)
                del self._shelves[at]


def _marks(state: State) -> TokenMarks:
    if state.policy is None:
        return TokenMarks()
    return TokenMarks(usable=state.usable_tokens, trigger=trigger_tokens(state), target=target_tokens(state))
