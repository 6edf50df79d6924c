"""Sharing: which objects of conversations that are to be erased another conversation of their tenant names.

All logs of the tenant are read for it, which needs no pause of the actors: within one only what the log got since is
read. What an archived log names stands in the commit that says where its archive is, so that no archive is read. A log
that cannot be read holds up who names objects, and nobody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import aclosing
from typing import cast

from actors.runtime.task_group import together
from protocol import codec
from protocol.errors import (
    ArtifactsUnavailable,
    BadEnvelope,
    Damaged,
    JettisonError,
    KeysUnavailable,
    LogRegression,
    UnknownRules,
)
from protocol.facts import ConversationArchived, MessagesAppended, ToolOutputSpilled
from protocol.ids import Address, Token, is_sha256
from storage.archives import newest_archive
from storage.ports import EventLog, Record
from storage.sweep_ports import LogChange, LogChanges
from storage.tombstones import is_erasure

AT_ONCE = 8
"""Logs that are read at the same time."""


class Sharing:
    """Who names the objects of some conversations that are to be erased, besides themselves.

    *stored* is the log as its stream has it, *log* as everybody reads it.
    """

    def __init__(self, *, stored: EventLog, log: EventLog, changes: LogChanges) -> None:
        self._stored, self._log, self._changes = stored, log, changes
        self._sought: dict[Token, dict[str, int]] = {}
        """By tenant and SHA-256: how many conversations name it."""
        self._names: dict[Address, set[str]] = {}
        """What each of them names of what is sought, where it is anything."""
        self._reached: dict[Address, int] = {}
        self._ends: dict[int, int] = {}
        self._faults: dict[Address, JettisonError] = {}

    async def look(self, ats: Collection[Address]) -> None:
        """Find who names the objects of *ats*. Raises `LogUnavailable`."""
        self._ends = await self._ends_now()
        for at in ats:
            for name in (await self._objects(at))[0]:
                self._sought.setdefault(at.tenant, {})[name] = 0
        self._reached.clear()
        await self._read(await self._all())

    async def again(self) -> None:
        """Read what the log got since; who has a tombstone by now names nothing. Raises `LogUnavailable`."""
        ends, changed = await self._ends_now(), set[Address]()
        for partition, end in ends.items():
            changes = cast("AsyncGenerator[LogChange]", self._changes.after(self._ends.get(partition, 0), upto=end))
            async with aclosing(changes):
                changed |= {change.at async for change in changes if change.at.tenant in self._sought}
        await self._read(changed)
        self._ends = ends

    async def with_others(self, at: Address, names: Collection[str]) -> set[str]:
        """Return what of *names* a conversation other than *at* names too.

        Raises what is wrong with one of its tenant that cannot be read, and may name them.
        """
        sought = self._sought.setdefault(at.tenant, {})
        if new := set(names) - sought.keys():
            # it was spoken in since the look, and all others are read once more
            sought |= dict.fromkeys(new, 0)
            self._reached.clear()
            await self._read(await self._all())
        for other in [one for one in self._faults if names and one != at and one.tenant == at.tenant]:
            # what was not there for a moment may be there by now
            await self._read([other])
            if fault := self._faults.get(other):
                raise fault
        own = self._names.get(at, ())
        return {name for name in names if sought[name] > (name in own)}

    async def _ends_now(self) -> dict[int, int]:
        return {one: await self._stored.end(one) for one in range(await self._changes.partitions())}

    async def _all(self) -> list[Address]:
        return [one for one in await self._stored.addresses() if self._sought.get(one.tenant)]

    async def _read(self, ats: Collection[Address]) -> None:
        """Count what *ats* name of what is sought, of each what came since it was read last."""
        room = asyncio.Semaphore(AT_ONCE)

        async def one(at: Address) -> None:
            sought = self._sought[at.tenant]
            async with room:
                names, is_erased = await self._objects(at)
            if is_erased:
                # also where who erases it is not at the end: of two at once neither would take what both name
                for name in self._names.pop(at, ()):
                    sought[name] -= 1
            elif names := names & sought.keys():
                known = self._names.setdefault(at, set())
                for name in names - known:
                    sought[name] += 1
                known |= names

        async with together() as group:
            for at in ats:
                group.create_task(one(at))

    async def _objects(self, at: Address) -> tuple[set[str], bool]:
        """Return what *at* names that was not read before, and whether it has a tombstone; what is wrong is kept.

        Raises `LogUnavailable`.
        """
        self._faults.pop(at, None)
        try:
            try:
                records = await self._stored.read(at, after=self._reached.get(at, 0))
            except LogRegression:
                records = await self._stored.read(at, after=0)  # it moved, or was erased
            if newest_archive(records) is not None and archived_objects(records) is None:
                records = await self._log.read(at, after=0)
            is_erased = any(map(is_erasure, records))
            names = set[str]() if is_erased else await asyncio.to_thread(named, records)
        except UnknownRules as error:
            self._faults[at] = UnknownRules(f"{at} cannot be read: {error}", address=str(at))
            return set(), False
        except (Damaged, KeysUnavailable, ArtifactsUnavailable) as error:
            self._faults[at] = error
            return set(), False
        if records:
            self._reached[at] = records[-1].seq
        return names, is_erased


def named(records: Sequence[Record]) -> set[str]:
    """Return all objects that *records* name, also those that never came.

    Raises `UnknownRules` where a newer release wrote a commit: what that names is not known here.
    """
    found = set[str]()
    for record in records:
        try:
            facts = codec.decode_commit(record.body).facts if record.side == "done" else ()
            said = codec.decode_said(record.body).facts if record.side == "said" else ()
        except UnknownRules:
            raise
        except BadEnvelope:
            continue
        found |= {fact.sha256 for fact in facts if isinstance(fact, ToolOutputSpilled)}
        for appended in (fact for fact in said if isinstance(fact, MessagesAppended)):
            found |= {claim.sha256 for message in appended.messages for claim in message.claims}
    return found | set(archived_objects(records) or ())


def objects_of(records: Sequence[Record]) -> set[str]:
    """Return what is to go with *records*: also what came after the log said it never did. Raises as `named`."""
    return set(filter(is_sha256, named(records)))  # an agent may announce anything


def archived_objects(records: Sequence[Record]) -> tuple[str, ...] | None:
    """Return the objects that the archives of *records* name, as the newest commit says that tells of one.

    None where it does not say: no archive, or too many objects.
    """
    found = newest_archive(records)
    try:
        facts = codec.decode_commit(found[1].body).facts if found else ()
    except BadEnvelope:
        facts = ()
    return next((fact.objects for fact in facts if isinstance(fact, ConversationArchived)), None)
