"""What doctor says of the store: whether it takes and gives bytes, what the log names last, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.audit.verify import mentioned
from actors.host.adapters import objects
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.errors import PROVISION, JettisonError, NotFound
from protocol.ids import Address, Token

from .terminal_text import counted

STORE_SECONDS = 5.0
"""For the store to write and read a few bytes, while a person waits."""

LOOK_SECONDS = 10.0
ARCHIVES_MAX = 5
"""Conversations that are named."""

TAIL_MESSAGES, ARTIFACTS_MAX = 500, 5
"""Of each partition's end, and of what these name: a look, not the audit that `jettison verify --all` is."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str
    fix: str = ""
    warns: bool = False
    """Nothing is known to be wrong: it was not looked at, or a person is to watch it."""


async def store_found(settings: Settings) -> Finding:
    """Say whether the store takes and gives bytes; NATS is not needed for it."""
    artifacts = objects(settings)
    probe, owner, where = b"jettison doctor", Token("doctor"), settings.s3.endpoint or "AWS"
    try:
        async with asyncio.timeout(STORE_SECONDS):
            key = await artifacts.put(owner, probe)
            same = await artifacts.get(owner, key) == probe
    except TimeoutError:
        detail = f"{where} takes connections and does not answer in {STORE_SECONDS:g} s"
        return Finding(what="s3", ok=False, detail=detail, fix="look at its process and its disk, and restart it")
    except JettisonError as error:
        fix = f"check its disk, s3.endpoint, bucket and credentials; where the bucket is missing {PROVISION}"
        return Finding(what="s3", ok=False, detail=str(error), fix=fix)
    finally:
        artifacts.close()
    detail = f"{where}, bucket {settings.s3.bucket}: a probe was written and read back, nothing else was looked at"
    return Finding(what="s3", ok=same, detail=detail)


async def artifacts_found(running: Runtime) -> Finding:
    """Say whether the store has the few artifacts that the end of the log names: a lost bucket takes probes too."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            named = await _named(running)
            missing = [(at, key) for at, key in named if not await _is_there(running, at, key)]
    except TimeoutError:
        return _not_looked_at(f"no answer in {LOOK_SECONDS:g} s")
    except JettisonError as error:
        return _not_looked_at(str(error))
    what = f"{counted(len(named), 'artifact')} that the log names last"
    if missing:
        gone = ", ".join(f"{key[:16]} of {at}" for at, key in missing)
        fix = "`jettison restore FOLDER --objects`; `jettison verify --all` names all that are gone"
        return Finding(what="artifacts", ok=False, detail=f"{what}: not in the bucket: {gone}", fix=fix)
    there = f"{what}: in the bucket" if named else f"the last {TAIL_MESSAGES} messages of the log name none"
    return Finding(what="artifacts", ok=True, detail=f"{there}; `jettison verify --all` looks at all there are")


async def archives_found(running: Runtime) -> Finding:
    """Say which archives were left behind: of conversations that the log does not know, or by an erasure."""
    try:
        async with asyncio.timeout(LOOK_SECONDS):
            known = set(await running.log.addresses())
            lost = [at async for at in running.archives.addresses() if at not in known]
            left = [due.at for due in await running.retaining().due() if due.wish == "erase again"] if not lost else []
    except TimeoutError:
        return _not_looked_at(f"no answer in {LOOK_SECONDS:g} s", what="archives")
    except JettisonError as error:
        return _not_looked_at(str(error), what="archives")
    if lost:
        detail = (
            f"of {counted(len(lost), 'conversation')} the log has nothing, not even a tombstone: {_named_few(lost)}"
        )
        fix = "`jettison restore FOLDER`: their logs are gone, and an archive alone is not read"
        return Finding(what="archives", ok=False, detail=detail, fix=fix)
    if left:
        detail = (
            f"{counted(len(left), 'erasure')} did not come to an end, or an archiver was at them: {_named_few(left)}"
        )
        return Finding(what="archives", ok=True, warns=True, detail=detail, fix="jettison retain")
    return Finding(what="archives", ok=True, detail="each is of a conversation that the log has")


def _named_few(ats: Sequence[Address]) -> str:
    more = f" and {len(ats) - ARCHIVES_MAX} more" if len(ats) > ARCHIVES_MAX else ""
    return f"{', '.join(map(str, ats[:ARCHIVES_MAX]))}{more}"


def _not_looked_at(why: str, *, what: str = "artifacts") -> Finding:
    fix = "`jettison verify --all`, where the log and the store can be read"
    return Finding(what=what, ok=True, warns=True, detail=f"not looked at: {why}", fix=fix)


async def _named(running: Runtime) -> list[tuple[Address, str]]:
    """Return artifacts that the end of the log names, the newest conversation's first.

    Raises the last reason why nothing could be read, where no conversation could.
    """
    firsts: dict[Address, int] = {}
    lasts: dict[Address, int] = {}
    for partition in range(await running.changes.partitions()):
        after = max(0, await running.log.end(partition) - TAIL_MESSAGES)
        for change in await running.changes.tail(after, most=TAIL_MESSAGES, partition=partition):
            firsts.setdefault(change.at, change.seq)
            lasts[change.at] = change.at_ms
    found: list[tuple[Address, str]] = []
    refused: JettisonError | None = None
    for at in sorted(lasts, key=lambda one: lasts[one], reverse=True):
        try:
            records = await running.log.read(at, after=firsts[at])
        except JettisonError as error:  # erased, damaged, or of a tenant whose key is not here: the next one
            refused = error
            continue
        found += [(at, key) for key in reversed(mentioned(at, records))]
        if len(found) >= ARTIFACTS_MAX:
            break
    if refused is not None and not found:
        raise refused
    return found[:ARTIFACTS_MAX]


async def _is_there(running: Runtime, at: Address, key: str) -> bool:
    try:
        await running.artifacts.find(at.tenant, key)
    except NotFound:
        return False
    return True
