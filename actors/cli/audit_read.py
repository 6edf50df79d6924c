"""Audit reads: what the commands that explain do. Find the records, ask the pure functions, print."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.audit import bundle as bundles
from actors.audit.diff import diff as compared
from actors.audit.stats import conversation_stats
from actors.audit.stats import stats as added_up
from actors.audit.sums import ConversationStats
from actors.audit.trail import versioned
from actors.audit.versions import UNSENT, served_context
from actors.audit.versions import versions as listed
from actors.audit.where import claimed, with_lost
from actors.audit.where import where as found_where
from actors.audit.why import why as explained
from actors.host.bootstrap import Runtime
from actors.runtime.fold import check_living
from protocol.errors import ArtifactDamaged, ArtifactsUnavailable, KeysUnavailable, NotFound
from protocol.formats import messages
from protocol.history import Where
from protocol.ids import Address
from storage.ports import Artifacts, Record

from . import MISMATCH
from . import audit_output as texts
from .asked_about import chosen, maybe_file, missing, named_file
from .options import StackOptions, WrongUsage
from .progress import bar
from .session import connected, printed, said, shown


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation to look at; `artifacts` is none for a bundle, which holds its own."""

    at: Address
    version: int | None
    records: Sequence[Record]
    artifacts: Artifacts | None = None
    bundled: Mapping[str, bytes] = {}


Look = Callable[[Source], Coroutine[Any, Any, int]]


def versions(stack: StackOptions, conv: str, *, losses: bool, changes: bool, as_json: bool) -> int:
    """List versions; see `jettison versions --help`."""

    async def look(source: Source) -> int:
        for row in listed(source.at, source.records, losses=losses):
            if not (changes and row.only_served):
                shown(row, texts.version_text(row), as_json=as_json)
        return 0

    return _looking(stack, conv, look, erased=True)


def served(stack: StackOptions, conv: str, *, as_json: bool) -> int:
    """Write a served context's bytes; see `jettison show --help`."""

    async def look(source: Source) -> int:
        found = served_context(source.at, source.records, version=source.version)
        shown = found.view.messages if found.view else ()
        if as_json:
            row: dict[str, object] = {"address": str(source.at), "version": found.version, "time": found.time}
            row |= {"same": found.same, "unsent": found.unsent}
            decoded = [messages.decode(raw) for raw in shown]
            # a fact is an array on the wire, without the names of its fields
            printed(
                {**row, "served": msgspec.structs.asdict(found.served), "refused": found.refused, "messages": decoded}
            )
        elif found.view is not None:
            sys.stdout.buffer.write(found.view.body)
            sys.stdout.buffer.flush()
        if found.same:
            late = f"; {UNSENT}" if found.unsent else ""
            said(f"version {found.version}, {found.served.tokens:,} tokens, as served: {found.served.view_hash}{late}")
            return 0
        rebuilt = f"rebuilt as {found.view.hash}" if found.view else f"not rebuilt: {found.refused}"
        said(f"DIFFERENT: version {found.version} was served as {found.served.view_hash}, {rebuilt}")
        return MISMATCH

    return _looking(stack, conv, look)


def diff(stack: StackOptions, older: str, newer: str, *, full: bool, as_json: bool) -> int:
    """Compare two versions; see `jettison diff --help`."""

    first, second, second_of = _pair(older, newer)

    async def look(source: Source) -> int:
        if second_of not in (None, source.at):
            raise WrongUsage(f"diff compares two versions of one conversation, not {source.at} with {second_of}")
        if first > second:
            said(f"note: told from the older to the newer one, @{second} to @{first}")
        found = compared(source.at, source.records, older=first, newer=second)
        if as_json:
            printed(found)
        else:
            texts.print_diff(found, full=full)
        return 0

    return _looking(stack, older, look)


def why(stack: StackOptions, conv: str, message: int, *, full: bool, as_json: bool) -> int:
    """Explain one message; see `jettison why --help`."""

    async def look(source: Source) -> int:
        found = explained(source.at, source.records, number=message, version=source.version)
        shown(found, texts.why_text(found, full=full), as_json=as_json)
        return 0

    return _looking(stack, conv, look)


def where(stack: StackOptions, conv: str, text: str, *, as_json: bool) -> int:
    """Look for a text; see `jettison where --help`."""
    if not text:
        raise WrongUsage("where is what? the text is empty")

    async def look(source: Source) -> int:
        uploads = {key: await _upload(source, key) for key in claimed(source.at, source.records)}
        found = found_where(source.at, source.records, text=text, uploads=uploads)
        if source.artifacts is not None:
            found = await _with_lost(found, source.at, source.artifacts)
        shown(found, texts.where_text(found), as_json=as_json)
        return 0 if found.now != "absent" else 1

    return _looking(stack, conv, look)


def stats(stack: StackOptions, conv: str, *, price_as: str, as_json: bool) -> int:
    """Add up; see `jettison stats --help`."""

    async def main(running: Runtime) -> int:
        conversations: list[ConversationStats] = []
        locked: list[KeysUnavailable] = []
        addresses = chosen(await running.log.addresses(), conv)
        with bar("adding up", len(addresses), unit="conversations") as step:
            for index, at in enumerate(addresses, 1):
                try:
                    conversations.append(conversation_stats(at, await running.log.read(at, after=0), price_as=price_as))
                except KeysUnavailable as error:
                    locked.append(error)
                step(str(at), index, len(addresses))
        found = added_up(conversations)
        if as_json:
            printed(found)
        else:
            texts.print_stats(found)
        for address, damage in found.damaged.items():
            said(f"{address} is damaged and counted up to there: {damage}")
        if locked:
            raise KeysUnavailable(f"{len(locked)} conversations are not counted; the first: {locked[0]}")
        return 0

    return connected(main, stack)


def _looking(stack: StackOptions, conv: str, look: Look, *, erased: bool = False) -> int:
    """Run *look* on what *conv* names: a bundle's file where there is one, else a conversation in the log.

    Raises `Erased` where only the tombstone is left, unless *erased* ones are looked at too.
    """
    file, version = _bundle(conv)
    if file is not None:
        bundle = bundles.sound(bundles.read(file))
        if not erased:
            check_living(bundle.at, bundle.records)
        source = Source(at=bundle.at, version=version, records=bundle.records, bundled=bundle.artifacts)
        return asyncio.run(look(source))

    async def main(running: Runtime) -> int:
        at, version = versioned(conv)
        records = await running.log.read(at, after=0)
        if not records:
            raise missing(conv if version is None else conv.rpartition("@")[0], at)
        if not erased:
            check_living(at, records)
        return await look(Source(at=at, version=version, records=records, artifacts=running.artifacts))

    with maybe_file(conv):
        return connected(main, stack)


def _pair(older: str, newer: str) -> tuple[int, int, Address | None]:
    """Return the versions that are to be compared, and whose the second one is; None: the first one's.

    Raises `WrongUsage`.
    """
    (file, first), (other, second), at = _bundle(older), _bundle(newer), None
    if newer.startswith("@"):
        second = versioned(f"x{newer}")[1]
    elif other is None or other != file:
        at, second = versioned(newer)
    of, first = (None, first) if file else versioned(older)
    if first is None or second is None:
        raise WrongUsage("diff needs two versions: CONV@A CONV@B")
    if of and at and of != at:
        raise WrongUsage(f"diff compares two versions of one conversation, not {of} with {at}")
    return first, second, at


def _bundle(conv: str) -> tuple[Path | None, int | None]:
    """Return the bundle's file and the version that *conv* names, None where it names no file."""
    name, _, version = conv.rpartition("@")
    if named_file(conv) is None and version.isascii() and version.isdecimal():
        return named_file(name), versioned(f"x@{version}")[1]
    return named_file(conv), None


async def _with_lost(found: Where, at: Address, artifacts: Artifacts) -> Where:
    """Return *found* with those of its artifacts that the store has no more, as far as it answers."""
    try:
        return await with_lost(found, at, artifacts)
    except ArtifactsUnavailable as error:
        said(f"whether the store has the artifacts is not known: {error}")
        return found


async def _upload(source: Source, key: str) -> str | None:
    try:
        if source.artifacts is None:
            return source.bundled[key].decode("utf-8", "replace")
        return (await source.artifacts.get(source.at.tenant, key)).decode("utf-8", "replace")
    except (KeyError, NotFound, ArtifactDamaged):
        return None
