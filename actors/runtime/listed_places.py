"""Listed places: which conversations a list shows, from what is kept of them; only those shown are opened.

What the log got since the list was written is looked up, so that a list is never behind what was said before it was
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from heapq import nsmallest
from typing import Literal, NamedTuple

import msgspec

from actors.core.listed import About, Chunk, Listed, ListHead, Named, Section
from protocol.errors import NotPermitted, NotProvisioned
from protocol.ids import Address, Token, name_of
from storage.ports import EventLog
from storage.sweep_ports import LogChange, LogChanges

from .listing import HEAD, Listing, Opened, decoded

TAIL_MAX = 1_000
"""Records of the log that are looked at behind the list; where there are more, the list says its age and no more."""

Sort = Literal["active", "tokens", "saved", "name"]


Name = tuple[Token, Token]
"""Tenant and conversation: a tuple, since there may be a million."""


class ListPlace(NamedTuple):
    """Where the record of a conversation is kept, in a section; in none where the log is newer."""

    at_ms: int
    seq: int
    section: Section | None = None
    row: int = 0


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """All conversations, and how far the list goes that they are of."""

    head: ListHead
    all: dict[Name, ListPlace]
    is_kept: bool = True
    """A list is kept here, and may be read."""

    @property
    def sections(self) -> list[Section]:
        """Return the sections in which these places are, each once."""
        return list({id(one.section): one.section for one in self.all.values() if one.section}.values())


class PlacesWanted(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to see of a list."""

    text: str = ""
    """In the name, or in the address."""
    sort: Sort = "active"
    first: int = 0
    most: int = 50
    """0: all."""


class PlacesShown(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown; of `stale` ones the log has more than the list, or the list has nothing."""

    rows: list[Listed]
    stale: frozenset[Address]
    total: int


async def places(listing: Listing, *, changes: LogChanges, log: EventLog) -> Places:
    """Return all conversations, of which the log got something last or first as it may be. Raises `Unavailable`."""
    try:
        documents = await listing.documents()
    except (NotPermitted, NotProvisioned):
        documents = []
    head = next((decoded(one.body, ListHead) for one in documents if one.name == HEAD), None)
    chunks = [decoded(one.body, Chunk) or Chunk() for one in documents if one.name != HEAD]
    tail, is_all = await newer(head or ListHead(), changes)
    # a list that is made anew, or that nobody keeps here
    others = await log.addresses() if head is None or not is_all else []
    return Places(head=head or ListHead(), all=gathered(chunks, tail, others), is_kept=head is not None)


async def newer(head: ListHead, changes: LogChanges) -> tuple[list[LogChange], bool]:
    """Return the changes of the log since the list was written, and whether these are all."""
    parts = [
        await changes.tail(head.seq(partition), most=TAIL_MAX, partition=partition)
        for partition in range(await changes.partitions())
    ]
    return [change for part in parts for change in part], all(len(part) < TAIL_MAX for part in parts)


def gathered(chunks: Iterable[Chunk], tail: Iterable[LogChange], others: Iterable[Address]) -> dict[Name, ListPlace]:
    """Return each conversation once: where it is kept furthest in its log, or that the log has more."""
    found: dict[Name, ListPlace] = {}
    for chunk in chunks:
        for section in chunk.sections:
            tenant = section.tenant
            for index, (name, seq, at_ms) in enumerate(section.places):
                there = found.get((tenant, name))
                if there is None or seq >= there.seq:
                    found[tenant, name] = ListPlace(at_ms, seq, section, index)
    for change in tail:
        key = (change.at.tenant, change.at.conversation)
        if key not in found or found[key].seq < change.seq:
            found[key] = ListPlace(change.at_ms, change.seq)
    for at in others:
        found.setdefault((at.tenant, at.conversation), ListPlace(0, 0))
    return found


def chosen(found: Places, wanted: PlacesWanted, opened: Opened) -> PlacesShown:
    """Return the rows of *found* that are *wanted*; *opened* opens the sections that are needed for it."""
    rows = list(found.all.items())
    if wanted.text:
        rows = _with_text(rows, wanted.text.casefold(), cache(lambda section: opened(section, Named)))
    known = cache(lambda section: opened(section, About))
    last = wanted.first + wanted.most if wanted.most else len(rows)
    ordered = nsmallest(last, rows, key=lambda row: _order(row, known, wanted.sort))[wanted.first :]
    listed = [
        Listed(at=_address(name), seq=place.seq, at_ms=place.at_ms, about=_about(place, known))
        for name, place in ordered
    ]
    stale = frozenset(_address(name) for name, place in ordered if place.section is None)
    return PlacesShown(rows=listed, stale=stale, total=len(rows))


def _with_text(
    rows: Iterable[tuple[Name, ListPlace]], text: str, names: Callable[[Section], list[Named]]
) -> list[tuple[Name, ListPlace]]:
    return [
        (name, place)
        for name, place in rows
        if (place.section is not None and text in names(place.section)[place.row].name.casefold())
        or text in name_at(_address(name)).casefold()
    ]


def _address(name: Name) -> Address:
    return Address(tenant=name[0], conversation=name[1])


def _about(place: ListPlace, known: Callable[[Section], list[About]]) -> About:
    return About() if place.section is None else known(place.section)[place.row]


def name_at(at: Address) -> str:
    """Return an address as people wrote it, where it can be told."""
    return f"{name_of(at.tenant)}/{name_of(at.conversation)}"


def saved_tokens(about: About) -> int:
    """Return the tokens that its calls were spared."""
    return sum(one.said_tokens - one.served_tokens for one in about.days)


def _order(row: tuple[Name, ListPlace], known: Callable[[Section], list[About]], sort: Sort) -> tuple[int, str]:
    name, place = row
    match sort:
        case "active":
            return -place.at_ms, ""
        case "tokens":
            return -_about(place, known).tokens, ""
        case "saved":
            return -saved_tokens(_about(place, known)), ""
        case "name":
            return 0, name_at(_address(name))
