"""What `repair` does."""

from __future__ import annotations

import hashlib
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from actors.audit import bundle as bundles
from actors.audit.bundle import Bundle
from actors.audit.repairing import Repairable, Repairing
from actors.core.flow import next_actor
from actors.host.adapters import log_elsewhere
from actors.host.bootstrap import Runtime
from protocol.connecting import connect
from protocol.errors import Contended, Rejected
from protocol.ids import Address, fresh_id, written_address

from .bundle import SUFFIX
from .doctor import DAMAGED_REASONS
from .options import StackOptions
from .session import check_flag, connected, said, shown, writable
from .terminal_text import counted, plain
from .verify import answering, end_text


@dataclass(frozen=True, kw_only=True)
class RepairJob:
    """What to repair from, where the damaged log goes, and whether to do it at all."""

    files: tuple[Path, ...]
    urls: tuple[str, ...]
    out: Path | None
    yes: bool


class RepairRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a repair did, or would do."""

    address: str
    done: bool
    problem: str
    """Empty: the log is sound."""
    version: int
    """Of the last sound commit; of the repair's own one, when it is done."""
    dropped: tuple[int, ...]
    """Sequences of the commits that leave."""
    from_copy: int
    unreadable: tuple[int, ...]
    missing: tuple[tuple[str, int, int], ...]
    gone: tuple[tuple[int, int, int], ...]
    """Where the log ends, where it once did, and the anchor that saw it (0: a snapshot)."""
    artifacts: tuple[str, ...]
    """That a copy has and the store has not."""
    lost_artifacts: dict[str, str]
    export: str = ""
    """The file with the log as it was."""


def repair(stack: StackOptions, conv: str, job: RepairJob, *, as_json: bool) -> int:
    """Repair; see `jettison repair --help`."""
    at = written_address(conv)
    copies = [bundles.sound(bundles.read(file)) for file in job.files]
    for url in job.urls:
        check_flag("--from-nats", url)

    async def main(running: Runtime) -> int:
        sources = await answering(running)
        repairing = Repairing(
            erasure=running.erasure,
            stored=running.stored,
            sources=sources,
            conversations=running.conversations,
        )
        async with AsyncExitStack() as opened:
            streams = [await _copy_of(running, at, url, opened) for url in job.urls]
            everything = [*copies, *streams]
            if not job.yes:
                return _repair_shown(await repairing.looked_at(at, everything), as_json=as_json)
            async with running.erasure.paused():
                found = await repairing.looked_at(at, everything)
                file, export = _exported(found, job.out)
                try:
                    version = await repairing.repair(found, by=running.by, export=export)
                except Contended as error:
                    again = f"nothing is lost: do it again, with `--from {file}` as one more copy"
                    raise Contended(f"{error}; {again}", address=str(at)) from None
        await _go_on(running, at)
        return _repair_shown(found, as_json=as_json, done=version, file=str(file or ""))

    return connected(main, stack, role="repair")


def _exported(found: Repairable, out: Path | None) -> tuple[Path | None, str]:
    """Write the log as it is to a new file that outlives a power cut; return it with its hash."""
    if not found.needed or found.damaged is None:
        return None, ""
    path = writable(out or Path(f"{found.at.conversation}.damaged-{fresh_id()[:8]}{SUFFIX}"))
    body = bundles.packed(found.damaged)
    try:
        with path.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise Rejected(f"{path} is there already; the damaged log never overwrites anything") from None
    return path, hashlib.sha256(body).hexdigest()


async def _copy_of(running: Runtime, at: Address, url: str, opened: AsyncExitStack) -> Bundle:
    """Return the log of *at* on another server, which has it under the same names; it holds no artifacts."""
    connection = await connect(url, name="jettison-repair", login=running.settings.nats.login())
    opened.push_async_callback(connection.close)
    records = await log_elsewhere(connection, running).read(at, after=0)
    return Bundle(at=at, records=tuple(records))


async def _go_on(running: Runtime, at: Address) -> None:
    """Wake who has to act, and drop the letters of those who could not."""
    async for kept in running.dead_letters.all():
        if kept.letter.at == at and kept.letter.reason in DAMAGED_REASONS:
            await running.dead_letters.drop(kept)
    follower = next_actor(await running.conversations.load(at))
    if follower is not None:
        await running.wakes.wake(follower, at, headers={})


def _repair_shown(found: Repairable, *, as_json: bool, done: int | None = None, file: str = "") -> int:
    """Write what was *found*, and what was *done* about it; return the exit code."""
    plan = found.plan
    row = RepairRow(
        address=str(found.at),
        done=done is not None,
        problem=plan.problem,
        version=plan.version if done is None else done,
        dropped=tuple(record.seq for record in plan.dropped),
        from_copy=plan.from_copy,
        unreadable=plan.unreadable,
        missing=plan.missing,
        gone=plan.gone,
        artifacts=tuple(found.artifacts),
        lost_artifacts=dict(found.lost),
        export=file,
    )
    shown(row, plain("\n".join(_lines(row)) + "\n"), as_json=as_json)
    if not row.done and (row.problem or row.artifacts):
        said("nothing was changed; --yes does it")
    return 0


def _mended(row: RepairRow) -> list[str]:
    how = f"{counted(row.from_copy, 'record')} from a copy" if row.from_copy else "no copy is of use"
    return [
        f"{row.address}: damaged at {row.problem}",
        f"  {'goes' if row.done else 'would go'} on as version {row.version + (not row.done)}: {how}, "
        f"{counted(len(row.dropped), 'commit')} dropped and decided again",
        *(f"  LOST: what was said at sequence {seq} is not readable" for seq in row.unreadable),
        *(f"  LOST: envelopes {first} to {last} of writer {writer}" for writer, first, last in row.missing),
        *(f"  LOST: {end_text(*one)}" for one in row.gone),
    ]


def _lines(row: RepairRow) -> list[str]:
    lines = []
    if row.problem:
        lines += _mended(row)
    else:
        lines.append(f"{row.address}: the log is sound up to version {row.version}, there is nothing to repair")
    lines += [f"  artifact {sha256}: put back from a copy" for sha256 in row.artifacts]
    lines += [f"  LOST: artifact {sha256} {why}" for sha256, why in row.lost_artifacts.items()]
    if row.export:
        lines.append(f"  the log as it was is in {row.export}")
    return lines
