"""Listing: write the list of all conversations, open it, and forget one of them.

Whoever sweeps writes it (`actors/services/sweeper.py`). Records of a tenant are encrypted with one key of the tenant's
own, which is kept like that of a conversation: to open a list with a key for each conversation would take minutes.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from actors.core.listed import ERASED, About, Chunk, Listed, ListHead, Named, Section, chunked, is_scattered, merged
from protocol.cipher import Key
from protocol.errors import UNREADABLE, Damaged, Erased, KeysUnavailable
from protocol.ids import Address, Token
from storage.list_ports import Document, KeptList
from storage.ports import Keys

log = logging.getLogger("jettison.list")

_Told = TypeVar("_Told", About, Named)

HEAD = "head"
LISTS = Token("h--list")
"""In the place of a conversation, for the key of a tenant's lists: no name of a conversation becomes this token."""

# made at import, since threads decode with them: see `kept_states.py`
_TOLD: dict[type, msgspec.msgpack.Decoder[list[Any]]] = {
    About: msgspec.msgpack.Decoder(list[About]),
    Named: msgspec.msgpack.Decoder(list[Named]),
}

COMPRESSION_LEVEL = 1
TRIES_MAX = 5


@dataclass(frozen=True, kw_only=True)
class _Open:
    """The chunk that is written to, as it is kept."""

    number: int
    revision: int
    rows: list[Listed]
    closed: list[Section]


class Listing:
    """The list of all conversations, as *kept* has it. Calls raise `Unavailable` and `NotProvisioned`."""

    def __init__(self, kept: KeptList, *, keys: Keys) -> None:
        self._kept = kept
        self._keys = keys
        self._open_chunk: _Open | None = None

    async def head(self) -> ListHead:
        """Return the list's head, as the leader has it; of a list that was never written, its beginning."""
        return (await self._head())[0]

    async def record(self, rows: Collection[Listed], *, seq: int | None = None, partition: int = 0) -> bool:
        """Write *rows*, and that all is written up to *seq*; false if somebody else wrote at the same time."""
        head, revision = await self._head()
        last = head.last
        if rows and not (last := await self._record(rows, head.last)):
            self._open_chunk = None  # somebody else wrote since
            if not (last := await self._record(rows, head.last)):
                return False
        seqs = head.seqs if seq is None else head.reached(seq, partition)
        new = msgspec.structs.replace(head, last=last, seqs=seqs, at_ms=time.time_ns() // 1_000_000)
        if not await self._kept.put(HEAD, msgspec.msgpack.encode(new), expected=revision):
            return False
        if is_scattered(new):
            await self._merge()
        return True

    async def _record(self, rows: Collection[Listed], number: int) -> int:
        """Write *rows* into the chunk *number*, and what it has no room for behind it; return the last one's number.

        0 where another was faster.
        """
        chunk = self._open_chunk
        if chunk is None or chunk.number != number:
            chunk = await self._read(number)
        closed = chunk.closed
        for at, part in enumerate(chunked(merged(chunk.rows, rows)), number):
            expected = chunk.revision if at == number else (await self._read(at)).revision
            revision = await self._put(at, part, closed, expected=expected)
            if not revision:
                return 0
            self._open_chunk = _Open(number=at, revision=revision, rows=part, closed=closed)
            closed = []
        assert self._open_chunk is not None
        return self._open_chunk.number

    async def _read(self, number: int) -> _Open:
        there = await self._kept.find(str(number))
        rows, closed = await self._open(there.body) if there else ([], [])
        return _Open(number=number, revision=there.revision if there else 0, rows=rows, closed=closed)

    async def begin_anew(self) -> None:
        """Drop all of it: its log is gone."""
        for one in await self._kept.read():
            await self._kept.drop(one.name)

    async def forget(self, gone: Collection[Address]) -> int:
        """Take those that are *gone* out of every chunk, and overwrite what named them; return the number of chunks.

        What only says that one of them was erased stays: a sweep may have written it already, and looks no more.
        """
        count = 0
        for name in [one.name for one in await self._kept.read() if _names(one, gone)] if gone else ():
            for _ in range(TRIES_MAX):
                there = await self._kept.find(name)
                left = await self._without(there, gone) if there and _names(there, gone) else None
                if there is None or left is None:
                    break
                if await self._put(int(name), *left, expected=there.revision):
                    count += 1
                    break
        return count

    async def documents(self, *, after: int = 0) -> Sequence[Document]:
        """Return the documents that were written after the revision *after*, as they are kept."""
        return await self._kept.read(after=after)

    async def opener(self, sections: Iterable[Section]) -> Opened:
        """Return the function that opens any of *sections*: one key for each tenant was asked for."""
        keys = {tenant: await self._key(tenant) for tenant in {one.tenant for one in sections}}
        return Opened(keys)

    async def told(self, document: Document) -> tuple[ListHead | None, list[Listed]]:
        """Return a document decoded: the head, or the records of a chunk."""
        if document.name == HEAD:
            return decoded(document.body, ListHead), []
        return None, await self.opened(document.body)

    async def opened(self, body: bytes) -> list[Listed]:
        """Return the records of a chunk; those whose key is not here tell their address and their time."""
        rows, closed = await self._open(body)
        return rows + [row for one in closed for row in _rows(one, None)]

    async def _open(self, body: bytes) -> tuple[list[Listed], list[Section]]:
        """Return the records of a chunk, and its sections whose key is not here."""
        chunk = decoded(body, Chunk) or Chunk()
        keys = {one.tenant: await self._key(one.tenant) for one in chunk.sections}
        there = [one for one in chunk.sections if keys[one.tenant] or not one.closed]
        rows = await asyncio.to_thread(lambda: [row for one in there for row in _rows(one, keys[one.tenant])])
        return rows, [one for one in chunk.sections if one not in there]

    async def _without(
        self, document: Document, gone: Collection[Address]
    ) -> tuple[list[Listed], list[Section]] | None:
        """Return the records of a chunk without those that are *gone*, and the sections that do not name them.

        None where nothing is to be taken out.
        """
        kept, rows, taken = list[Section](), list[Listed](), 0
        for one in (decoded(document.body, Chunk) or Chunk()).sections:
            if any(Address(tenant=one.tenant, conversation=name) in gone for name, _, _ in one.places):
                there = _rows(one, await self._key(one.tenant))
                stay = [row for row in there if row.at not in gone or row.about.fault == ERASED]
                taken += len(there) - len(stay)
                rows += stay
            else:
                kept.append(one)
        return (rows, kept) if taken else None

    async def _head(self) -> tuple[ListHead, int]:
        found = await self._kept.find(HEAD)
        return (decoded(found.body, ListHead) or ListHead(), found.revision) if found else (ListHead(), 0)

    async def _put(self, number: int, rows: Sequence[Listed], closed: Sequence[Section], *, expected: int) -> int:
        by_tenant: dict[Token, list[Listed]] = {}
        for one in rows:
            by_tenant.setdefault(one.at.tenant, []).append(one)
        sections = [await self._section(tenant, its) for tenant, its in by_tenant.items()]
        chunk = msgspec.msgpack.encode(Chunk(sections=(*sections, *closed)))
        return await self._kept.put(str(number), chunk, expected=expected)

    async def _section(self, tenant: Token, rows: Sequence[Listed]) -> Section:
        plain = msgspec.msgpack.encode([one.about for one in rows])
        try:
            key = await self._keys.key(Address(tenant=tenant, conversation=LISTS))
            closed = key.encrypt(zlib.compress(plain, COMPRESSION_LEVEL), f"list {tenant}")
        except (KeysUnavailable, Erased, Damaged) as error:
            log.warning("of %s only addresses are listed: %s", tenant, error)
            closed = b""
        places = tuple((one.at.conversation, one.seq, one.at_ms) for one in rows)
        return Section(tenant=tenant, places=places, closed=closed)

    async def _key(self, tenant: Token) -> Key | None:
        try:
            return await self._keys.known(Address(tenant=tenant, conversation=LISTS))
        except (KeysUnavailable, Erased, Damaged):
            return None

    async def _merge(self) -> None:
        """Write the newest record of each conversation into new chunks, and drop the old ones."""
        head, revision = await self._head()
        chunks = sorted((one for one in await self._kept.read() if one.name != HEAD), key=lambda one: int(one.name))
        newest: dict[Address, tuple[int, int]] = {}
        for index, one in enumerate(chunks):
            for at, seq in _places(one):
                newest[at] = max(newest.get(at, (0, 0)), (seq, index))
        kept, closed = list[Listed](), list[Section]()
        number = head.last
        for index, one in enumerate(chunks):
            rows, others = await self._open(one.body)
            closed += others
            kept += [row for row in rows if newest[row.at] == (row.seq, index)]
            *full, kept = chunked(kept)
            for part in full:
                number += 1
                await self._put_over(number, part, closed)
                closed = []
        await self._put_over(number + 1, kept, closed)
        new = msgspec.structs.replace(head, first=head.last + 1, last=number + 1, merged=number + 1 - head.last)
        if await self._kept.put(HEAD, msgspec.msgpack.encode(new), expected=revision):
            for one in chunks:
                if int(one.name) <= head.last:
                    await self._kept.drop(one.name)

    async def _put_over(self, number: int, rows: Sequence[Listed], closed: Sequence[Section]) -> None:
        """Write a chunk over what somebody left there who was interrupted."""
        there = await self._kept.find(str(number))
        await self._put(number, rows, closed, expected=there.revision if there else 0)


def _rows(section: Section, key: Key | None) -> list[Listed]:
    known = Opened({section.tenant: key})(section, About)
    return [
        Listed(at=Address(tenant=section.tenant, conversation=name), seq=seq, at_ms=at_ms, about=known[index])
        for index, (name, seq, at_ms) in enumerate(section.places)
    ]


@dataclass(frozen=True)
class Opened:
    """Opens sections by their tenants' *keys*."""

    keys: Mapping[Token, Key | None]

    def __call__(self, section: Section, kind: type[_Told]) -> list[_Told]:
        """Return the records of *section*, each as *kind*; none of those whose key is not here."""
        key = self.keys[section.tenant]
        plain = key.decrypt(section.closed, f"list {section.tenant}") if key and section.closed else None
        try:
            found = _TOLD[kind].decode(zlib.decompress(plain)) if plain else []
        except (*UNREADABLE, zlib.error):
            found = []
        none = About(fault="no key") if kind is About else kind()
        return found if len(found) == len(section.places) else [none] * len(section.places)  # type: ignore[list-item]


def _places(document: Document) -> list[tuple[Address, int]]:
    chunk = decoded(document.body, Chunk) or Chunk()
    return [
        (Address(tenant=one.tenant, conversation=name), seq) for one in chunk.sections for name, seq, _ in one.places
    ]


def _names(document: Document, gone: Collection[Address]) -> bool:
    return document.name != HEAD and any(place in gone for place, _ in _places(document))


_Kind = TypeVar("_Kind", Chunk, ListHead)


def decoded(body: bytes, kind: type[_Kind]) -> _Kind | None:
    """Return *body* decoded; None where a newer release wrote it: its conversations are listed without more."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except UNREADABLE:
        return None
