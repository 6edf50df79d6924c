"""Doctor: check each thing that Jettison needs, and say how to mend what is wrong."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path

from nats.js.errors import APIError

from actors.host.bootstrap import Runtime, data_folder, runtime
from actors.host.settings import Settings
from actors.model_info.tokens import counter
from protocol.connection import NO_JETSTREAM_FIX, TRANSIENT, check_there, reason_of
from protocol.errors import JettisonError, KeysUnavailable, NotPermitted, NotProvisioned, Unavailable, UnknownRules
from protocol.ids import Token, written_address
from protocol.keys import FolderKeys, newest_is_wrapped
from storage.durability import filled, is_synced, looked_at, trouble
from storage.known_layout import known_layout
from storage.partition_streams import computes_shards, leaders_away
from storage.partitions import Layout, grows
from storage.streams import consumers, drift, streams

from . import UNREACHABLE
from .doctor_store import Finding, archives_found, artifacts_found, store_found
from .doctor_workers import at_work_found, queues_found
from .options import StackOptions
from .session import located, printed, run, running_stack, settings_of
from .terminal_text import counted

FILLED_SHARE_MAX = 0.9
"""Of a server's storage, before it is said: there is still time to make room."""

DAMAGED_REASONS = ("damaged", "unreadable")
NAMED_MAX = 20

OPERATOR_ALONE = "run doctor as operator: only that user may look at all streams (JETTISON_NATS__USER)"

NOT_ON_NATS = Finding(what="all on NATS", ok=True, warns=True, detail="not looked at, but for what stands above")

RESTART = "then restart that nats-server (or `jettison up`): until then its stream takes no write"


def doctor(stack: StackOptions, *, monitor: str, as_json: bool) -> int:
    """Check everything; see `jettison doctor --help`."""
    settings = settings_of(stack)

    async def main() -> int:
        found = []
        async for finding in _findings(settings, monitor):
            found.append(finding)
            if as_json:
                printed(finding)
            else:
                mark = "BAD " if not finding.ok else "WARN" if finding.warns else "ok  "
                fix = f"\n     fix: {finding.fix}" if finding.fix else ""
                sys.stdout.write(f"{mark} {finding.what}: {finding.detail}{fix}\n")
        return 0 if all(finding.ok for finding in found) else UNREACHABLE

    return run(main(), service="doctor", settings=settings, trace=False)


async def _findings(settings: Settings, monitor: str) -> AsyncIterator[Finding]:
    yield _tokenizer()
    there = settings if settings.s3.endpoint else None
    try:
        there = located(settings)
        async with runtime(there, role="doctor") as running:
            yield Finding(what="nats", ok=True, detail=f"{there.nats.url} answers")
            for finding in await _streams(running, there):
                yield finding
            monitor = monitor or _embedded_monitor(there)
            for finding in await _durability(running, there, monitor):
                yield finding
            for finding in await at_work_found(there, monitor):
                yield finding
            for finding in await queues_found(running.connection):
                yield finding
            yield await artifacts_found(running)
            yield await archives_found(running)
            for finding in await _conversations(running):
                yield finding
            yield _model(there)
            yield await _keys(running)
    except (NotPermitted, NotProvisioned) as error:
        yield Finding(what="nats", ok=False, detail=str(error), fix="see infra/nats for users and their rights")
        yield NOT_ON_NATS
    except Unavailable as error:
        yield Finding(what="nats", ok=False, detail=str(error), fix="start a server, or `jettison up`")
        yield NOT_ON_NATS
    if there is None:
        yield Finding(
            what="s3", ok=True, warns=True, detail="not looked at: which one, says `jettison up` or a setting"
        )
    else:
        yield await store_found(there)


def _tokenizer() -> Finding:
    tokens = counter("o200k_base")("hello world")
    return Finding(what="tokenizer", ok=tokens == 2, detail="o200k_base from packaged ranks, hash checked")


async def _streams(running: Runtime, settings: Settings) -> list[Finding]:
    try:
        differences = await drift(running.connection, replicas=settings.nats.replicas)
    except (JettisonError, APIError, *TRANSIENT) as error:
        # a refusal of one question names its subject: JetStream is there, and this user may not ask it
        is_refused = isinstance(error, NotPermitted) and "subject" in error.fields
        fix = OPERATOR_ALONE if is_refused else NO_JETSTREAM_FIX
        return [Finding(what="jetstream", ok=False, detail=await _why(running, error), fix=fix)]
    layout = await known_layout(running.connection).layout()
    if layout.moving:
        fix = f"jettison repartition {layout.partitions}, unless somebody runs it"
        return [Finding(what="partitions", ok=False, detail=grows(layout), fix=fix)]
    if not differences:
        count = len(consumers()) * layout.partitions
        detail = f"{len(streams(layout=layout))} streams and {count} consumers are as designed"
        found = [Finding(what="streams", ok=True, detail=detail)]
        return [*found, await _partitions(running, layout)] if layout.partitions > 1 else found
    return [
        Finding(
            what=f"stream {one.name}",
            ok=False,
            detail=f"{one.setting} is {one.found}, wanted {one.wanted}",
            fix="jettison provision" + ("; after a loss jettison restore instead" if one.found == "missing" else ""),
        )
        for one in differences
    ]


async def _partitions(running: Runtime, layout: Layout) -> Finding:
    """Say whether this server finds the partition of what is published, and whether others lead as many as it does."""
    what = f"{layout.partitions} of the log"
    if not await computes_shards(running.connection):
        fix = "include infra/nats/shards.conf in the account of the log on every server, and reload them"
        return Finding(what="partitions", ok=False, detail=f"{what}; this server does not compute shards", fix=fix)
    away = await leaders_away(running.connection, layout)
    fix = "jettison provision spreads them" if away else ""
    led = f"{counted(len(away), 'stream')} led by a server that leads more than its share" if away else "leaders spread"
    return Finding(what="partitions", ok=True, warns=bool(away), detail=f"{what}; {led}", fix=fix)


async def _why(running: Runtime, error: Exception) -> str:
    if isinstance(error, JettisonError):
        return str(error)
    try:
        await check_there(running.connection)
    except JettisonError as reason:
        return str(reason)
    return f"does not answer: {reason_of(error)}"


async def _durability(running: Runtime, settings: Settings, monitor: str) -> list[Finding]:
    """Name what may lose acknowledged facts. What cannot be seen from here is said to be so."""
    try:
        kept = await looked_at(running.connection, replicas=settings.nats.replicas)
        found = [Finding(what=f"log {one.name}", ok=False, detail=one.what, fix=one.fix) for one in kept.hazards]
        synced = await is_synced(monitor) if monitor else None
        found += await _server(monitor) if monitor else []
    except Unavailable as error:
        return [Finding(what="durability", ok=False, detail=str(error), fix="give --monitor http://HOST:8222")]
    copies = "1 copy" if kept.replicas == 1 else f"{kept.replicas} copies"
    if synced:
        found.append(Finding(what="durability", ok=True, detail=f"{copies}, each write synced"))
    elif synced is None:
        fix = "give --monitor http://HOST:8222, the server's monitoring port"
        detail = f"{copies}; whether each write is synced cannot be seen from here"
        found.append(Finding(what="durability", ok=True, warns=True, detail=detail, fix=fix))
    else:
        lost = "a power cut" if kept.replicas == 1 else "a power cut of the whole cluster"
        detail = f"{copies}, not each write synced: {lost} loses what was acknowledged last"
        fix = "set `sync_interval: always` in the server's `jetstream` block (infra/nats/prod.conf)"
        found.append(Finding(what="durability", ok=False, detail=detail, fix=fix))
    return found


async def _server(monitor: str) -> list[Finding]:
    """Say what the server at *monitor* knows of its own troubles."""
    found = []
    if said := await trouble(monitor):
        found.append(Finding(what="server", ok=False, detail=said, fix=_mended(said)))
    if (share := await filled(monitor)) > FILLED_SHARE_MAX:
        fix = "make room, or raise `max_file_store`; at the limit agents are told `Busy`"
        found.append(Finding(what="server", ok=False, detail=f"{share:.0%} of its storage is filled", fix=fix))
    return found


def _mended(trouble: str) -> str:
    """Return the advice on a server's own report."""
    if "no space left" in trouble:
        return f"make room on its disk, {RESTART}"
    if "write error" in trouble:
        return f"look at its disk, {RESTART}"
    if "not current" in trouble:
        return "wait until it has caught up, and restart no other server before"
    return "see that server's log"


def _embedded_monitor(settings: Settings) -> str:
    """Return the monitoring port of the embedded server; empty if that is not the one that is asked about."""
    stack = running_stack(data_folder(settings))
    return stack.endpoints.monitor if stack and stack.endpoints.nats_url == settings.nats.url else ""


async def _conversations(running: Runtime) -> list[Finding]:
    """Name the conversations that a worker gave up because what is kept of them is damaged, or newer than it."""
    try:
        letters = [kept.letter async for kept in running.dead_letters.all()]
    except (Unavailable, NotProvisioned) as error:
        return [Finding(what="conversations", ok=False, detail=str(error))]
    met = [letter for letter in letters if letter.reason in DAMAGED_REASONS]
    newer = {str(letter.at) for letter in met if letter.error == UnknownRules.__name__}
    damaged = {str(letter.at) for letter in met} - newer
    told = []
    if damaged:
        fix = "\n          ".join(f"jettison repair {conv}" for conv in sorted(damaged)[:NAMED_MAX])
        told.append((_named(damaged, "damaged"), fix))
    if newer:
        told.append((_named(newer, "written by a newer release"), "update all workers, then `jettison dlq retry CONV`"))
    if not told:
        return [Finding(what="conversations", ok=True, detail="no worker met a damaged one")]
    return [Finding(what="conversations", ok=False, detail=detail, fix=fix) for detail, fix in told]


def _named(found: Collection[str], how: str) -> str:
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    return f"{counted(len(found), 'conversation')} {how}: {', '.join(sorted(found)[:NAMED_MAX])}{more}"


async def _keys(running: Runtime) -> Finding:
    """Say whether what is kept can be read without the tenants' keys."""
    if running.tenants is None and await newest_is_wrapped(running.connection):
        detail = "the log is encrypted, and no keys folder is set here: nothing of it can be read from here"
        fix = "set keys.folder (JETTISON_KEYS__FOLDER) to the folder that the workers have"
        return Finding(what="keys", ok=True, warns=True, detail=detail, fix=fix)
    if running.tenants is None:
        detail = "none: the log is kept in plain text; erasing overwrites it, and no copy made before"
        return Finding(what="keys", ok=True, detail=detail, fix="set keys.folder (JETTISON_KEYS__FOLDER) to encrypt it")
    files = _key_files(running.tenants)
    if isinstance(files, Finding):
        return files
    if (wrong := await _tenants_wrong(running, running.tenants, files)) is not None:
        return wrong
    where = f"of {counted(len(files), 'tenant')} in {running.tenants.folder}"
    detail = f"{where}: what actors commit is encrypted, and what agents with keys say"
    return Finding(what="keys", ok=True, detail=detail)


def _key_files(tenants: FolderKeys) -> list[Path] | Finding:
    """Return the files of tenants' keys, or what is wrong with them."""
    folder = Path(tenants.folder)
    try:
        files = sorted(folder.glob("*.key"))
        open_to_others = [file.name for file in files if file.stat().st_mode & 0o077]
        if not folder.is_dir() and not tenants.makes:
            raise FileNotFoundError
    except OSError as error:
        detail = f"{folder} cannot be read: {type(error).__name__}"
        return Finding(what="keys", ok=False, detail=detail, fix="mount the folder with the tenants' keys")
    if open_to_others:
        detail = f"others on this machine may read {', '.join(open_to_others[:5])} in {folder}"
        return Finding(what="keys", ok=False, detail=detail, fix=f"chmod 600 {folder}/*.key")
    return _useless(tenants, files) or files


def _useless(tenants: FolderKeys, files: Iterable[Path]) -> Finding | None:
    for file in files:
        try:
            tenants.check(Token(file.stem))
        except KeysUnavailable as error:
            return Finding(what="keys", ok=False, detail=str(error), fix=f"put the copy of {file.name} back")
    return None


async def _tenants_wrong(running: Runtime, keys: FolderKeys, files: Sequence[Path]) -> Finding | None:
    """Return whose keys are not among *files*; None if what is kept of everybody can be read."""
    # an auditor may not read every key; who speaks has a log, also where the tenant's file is gone
    try:
        tenants = {at.tenant for at in await running.log.addresses()}
        tenants |= {written_address(f"{file.stem}/doctor").tenant for file in files}
        for tenant in sorted(tenants | ({Token("default")} if keys.makes else set())):
            await running.keys.check(tenant)
    except NotProvisioned:
        pass  # said above
    except KeysUnavailable as error:
        there = (Path(keys.folder) / f"{tenant}.key").exists()
        above = f"put the lines of the copy of {tenant}.key above those that {keys.folder} has, and keep all"
        fix = above if there else f"put the copy of {tenant}.key back"
        return Finding(what="keys", ok=False, detail=str(error), fix=fix)
    return None


def _model(settings: Settings) -> Finding:
    if not (settings.llm.base_url or settings.llm.api_key):
        return Finding(what="llm", ok=True, detail="none configured; digests are never squeezed")
    return Finding(
        what="llm", ok=True, detail=f"{settings.llm.base_url or 'OpenAI'} (asked only when a policy squeezes)"
    )
