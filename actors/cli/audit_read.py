"""What the commands that explain do: find the records, ask the pure functions, print."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.audit import bundle as bundles
from actors.audit.diff import diff as compared
from actors.audit.stats import Account, account
from actors.audit.stats import stats as added_up
from actors.audit.trail import versioned
from actors.audit.versions import served as rebuilt_context
from actors.audit.versions import versions as listed
from actors.audit.where import claimed
from actors.audit.where import where as found_where
from actors.audit.why import why as explained
from actors.bootstrap import Runtime
from protocol import messages
from protocol.errors import ArtifactDamaged, KeysUnavailable, NotFound, Rejected
from protocol.ids import Address, written_address
from storage.ports import Artifacts, Record

from . import audit_text as texts
from .bar import bar
from .session import printed, said
from .verify import connected

MISMATCH = 3


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Where to read, and how to print."""

    config: Path | None
    nats: str
    data: Path | None
    as_json: bool = False


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation to look at; `artifacts` is none for a bundle, which holds its own."""

    at: Address
    version: int | None
    records: Sequence[Record]
    artifacts: Artifacts | None = None
    bundled: Mapping[str, bytes] = {}


Look = Callable[[Source], Coroutine[Any, Any, int]]


def versions(conv: str, *, losses: bool, options: Options) -> int:
    """List versions; see `jettison versions --help`."""

    async def look(source: Source) -> int:
        for row in listed(source.at, source.records, losses=losses):
            if options.as_json:
                printed(row)
            else:
                sys.stdout.write(texts.version_text(row))
        return 0

    return _looking(conv, look, options)


def served(conv: str, *, options: Options) -> int:
    """Write a served context's bytes; see `jettison show --help`."""

    async def look(source: Source) -> int:
        found = rebuilt_context(source.at, source.records, version=source.version)
        shown = found.view.messages if found.view else ()
        if options.as_json:
            row = {"address": str(source.at), "version": found.version, "time": found.time, "same": found.same}
            decoded = [messages.decode(raw) for raw in shown]
            # a fact is an array on the wire, without the names of its fields
            printed(
                {**row, "served": msgspec.structs.asdict(found.served), "refused": found.refused, "messages": decoded}
            )
        elif found.view is not None:
            sys.stdout.buffer.write(found.view.body)
            sys.stdout.buffer.flush()
        if found.same:
            said(f"version {found.version}, {found.served.tokens:,} tokens, as served: {found.served.view_hash}")
            return 0
        rebuilt = f"rebuilt as {found.view.hash}" if found.view else f"not rebuilt: {found.refused}"
        said(f"DIFFERENT: version {found.version} was served as {found.served.view_hash}, {rebuilt}")
        return MISMATCH

    return _looking(conv, look, options)


def diff(older: str, newer: str, *, full: bool, options: Options) -> int:
    """Compare two versions; see `jettison diff --help`."""

    async def look(source: Source) -> int:
        file, second = _bundle(newer)
        if file is None or file != _bundle(older)[0]:
            at, second = versioned(f"{source.at}{newer}" if newer.startswith("@") else newer)
            if at != source.at:
                raise Rejected(f"diff compares two versions of one conversation, not {source.at} with {at}")
        if source.version is None or second is None:
            raise Rejected("diff needs two versions: CONV@A CONV@B")
        found = compared(source.at, source.records, older=source.version, newer=second)
        if options.as_json:
            printed(found)
        else:
            texts.print_diff(found, full=full)
        return 0

    return _looking(older, look, options)


def why(conv: str, message: int, *, full: bool, options: Options) -> int:
    """Explain one message; see `jettison why --help`."""

    async def look(source: Source) -> int:
        found = explained(source.at, source.records, number=message, version=source.version)
        if options.as_json:
            printed(found)
        else:
            sys.stdout.write(texts.why_text(found, full=full))
        return 0

    return _looking(conv, look, options)


def where(conv: str, text: str, *, options: Options) -> int:
    """Look for a text; see `jettison where --help`."""

    async def look(source: Source) -> int:
        uploads = {key: await _upload(source, key) for key in claimed(source.at, source.records)}
        found = found_where(source.at, source.records, text=text, uploads=uploads)
        if options.as_json:
            printed(found)
        else:
            sys.stdout.write(texts.where_text(found))
        return 0 if found.now != "absent" else 1

    return _looking(conv, look, options)


def stats(conv: str, *, price_as: str, options: Options) -> int:
    """Add up; see `jettison stats --help`."""

    async def main(running: Runtime) -> int:
        accounts: list[Account] = []
        locked: list[KeysUnavailable] = []
        addresses = await chosen(running, conv)
        with bar("adding up", len(addresses), unit="conversations") as step:
            for index, at in enumerate(addresses, 1):
                try:
                    accounts.append(account(at, await running.log.read(at, after=0), price_as=price_as))
                except KeysUnavailable as error:
                    locked.append(error)
                step(str(at), index, len(addresses))
        found = added_up(accounts)
        if options.as_json:
            printed(found)
        else:
            texts.print_stats(found)
        for address, damage in found.damaged.items():
            said(f"{address} is damaged and counted up to there: {damage}")
        if locked:
            raise KeysUnavailable(f"{len(locked)} conversations are not counted; the first: {locked[0]}")
        return 0

    return connected(main, config=options.config, nats=options.nats, data=options.data)


async def chosen(running: Runtime, conv: str) -> list[Address]:
    """Return the conversations that *conv* names: one, those of `TENANT/`, or all."""
    everyone = await running.log.addresses()
    if not conv:
        return everyone
    if conv.endswith("/"):
        tenant = written_address(f"{conv}x").tenant
        found = [at for at in everyone if at.tenant == tenant]
        if not found:
            raise NotFound(f"there is no conversation of the tenant {tenant}", tenant=tenant)
        return found
    at = written_address(conv)
    if at not in everyone:
        raise NotFound(f"there is no conversation {at}", address=str(at))
    return [at]


def _looking(conv: str, look: Look, options: Options) -> int:
    """Run *look* on what *conv* names: a bundle's file where there is one, else a conversation in the log."""
    file, version = _bundle(conv)
    if file is not None:
        bundle = bundles.sound(bundles.read(file))
        source = Source(at=bundle.at, version=version, records=bundle.records, bundled=bundle.artifacts)
        return asyncio.run(look(source))

    async def main(running: Runtime) -> int:
        at, version = versioned(conv)
        records = await running.log.read(at, after=0)
        if not records:
            raise NotFound(f"there is no conversation {at}", address=str(at))
        return await look(Source(at=at, version=version, records=records, artifacts=running.artifacts))

    return connected(main, config=options.config, nats=options.nats, data=options.data)


def named_file(text: str) -> Path | None:
    """Return the file that *text* names, if there is one; an id may hold what no file's name can."""
    try:
        return Path(text) if Path(text).is_file() else None
    except (OSError, ValueError):
        return None


def _bundle(conv: str) -> tuple[Path | None, int | None]:
    """Return the bundle's file and the version that *conv* names, none where it names no file."""
    name, _, version = conv.rpartition("@")
    if named_file(conv) is None and version.isascii() and version.isdecimal():
        return named_file(name), versioned(f"x@{version}")[1]
    return named_file(conv), None


async def _upload(source: Source, key: str) -> str | None:
    try:
        if source.artifacts is None:
            return source.bundled[key].decode("utf-8", "replace")
        return (await source.artifacts.get(source.at.tenant, key)).decode("utf-8", "replace")
    except (KeyError, NotFound, ArtifactDamaged):
        return None
