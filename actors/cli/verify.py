"""Verify commands, which prove: `verify` and `anchor`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

from actors.audit import bundle as bundles
from actors.audit.anchoring import Anchored, Anchoring
from actors.audit.evidence import Sources, all_verified, verified
from actors.audit.repairs import Repair
from actors.audit.unnamed import Unnamed
from actors.audit.unnamed import unnamed as unnamed_objects
from actors.audit.verify import Verified
from actors.host.bootstrap import Runtime
from protocol import codec
from protocol.errors import Damaged, KeysUnavailable, NotFound
from protocol.ids import written_address

from . import MISMATCH, REPAIRED
from .asked_about import maybe_file, missing, named_file
from .options import StackOptions, WrongUsage
from .progress import LINE_SECONDS
from .session import connected, said, shown
from .terminal_text import counted, plain

SUMMARIES = {0: "all fine", REPAIRED: "all fine, some repaired", MISMATCH: "NOT all fine"}


def verify(stack: StackOptions, what: str, *, everything: bool, unnamed: bool, as_json: bool) -> int:
    """Judge a conversation, a bundle or all there is; see `jettison verify --help`."""
    if bool(what) == everything:
        raise WrongUsage("say what to verify: a conversation, a bundle's file, or --all")
    if unnamed and not everything:
        raise WrongUsage("--unnamed looks at all logs: give --all")
    file = named_file(what) if what else None
    if file is not None:
        try:
            return _verdicts_shown([bundles.judged(bundles.read(file))], as_json)
        except Damaged as error:
            said(f"{file}: DIFFERENT: {error}")
            return MISMATCH

    async def main(running: Runtime) -> int:
        sources = await answering(running)
        if what:
            at = written_address(what)
            try:
                found = _verdicts_shown([await verified(at, sources)], as_json)
            except NotFound:
                raise missing(what, at) from None
        else:
            found = await _verified_all(sources, as_json)
        if unnamed:
            for one in await unnamed_objects(running.artifacts, running.log, running.snapshots):
                shown(one, _unnamed_text(one), as_json=as_json)
        say_what_was_not_compared(sources)
        return found

    with maybe_file(what):
        return connected(main, stack)


def say_what_was_not_compared(sources: Sources) -> None:
    """Say that snapshots were not compared with their logs, where this user may not read them."""
    if why := sources.snapshots.refused:
        said(f"no snapshot was compared with its log: {why}")


async def _verified_all(sources: Sources, as_json: bool) -> int:
    worst = count = 0
    try:
        async for verdict in all_verified(sources, progress=_progress()):
            worst = _worse(worst, _verdicts_shown([verdict], as_json))
            count += 1
    except KeysUnavailable as error:
        if worst != MISMATCH:
            raise
        said(str(error))  # a difference that was found is the worse news
    said(f"{counted(count, 'verdict')}, {SUMMARIES[worst]}")
    return worst


def anchor(stack: StackOptions, *, every: float, as_json: bool) -> int:
    """Write anchors; see `jettison anchor --help`."""

    async def main(running: Runtime) -> int:
        anchoring = Anchoring(log=running.log, anchors=running.anchors)
        while True:
            refused = 0
            for done in await anchoring.all_tenants():
                refused += len(done.refused)
                shown(done, _anchored_text(done), as_json=as_json)
            if not every:
                return MISMATCH if refused else 0
            sys.stdout.flush()
            await asyncio.sleep(every)

    return connected(main, stack)


async def answering(running: Runtime) -> Sources:
    """Return the sources of evidence, after a look whether the store answers: each read of it waits five times as long.

    Raises `ArtifactsUnavailable`.
    """
    await running.anchors.check()
    return sources_of(running)


def sources_of(running: Runtime) -> Sources:
    """Return the sources of evidence on the connected stack."""
    return Sources(
        log=running.log,
        snapshots=running.snapshots,
        artifacts=running.artifacts,
        archives=running.archives,
        anchors=running.anchors,
    )


def verdict_text(verdict: Verified) -> str:
    """Return a verdict as text for a person."""
    repaired = "".join(
        f"{verdict.address}: REPAIRED at version {one.version} by {one.by}: {one.problem}; {_repair_text(one)}\n"
        for one in verdict.repairs
    )
    if verdict.first is None and verdict.erased:
        text = f"{verdict.address}: erased; what is left, its tombstone, is fine: version {verdict.version} "
        text += f"({verdict.head[:16]}), {counted(verdict.anchors, 'anchor')}"
        return text + ("; not anchored yet\n" if verdict.unanchored_commits else "\n")
    if verdict.first is None:
        text = f"{plain(repaired)}{verdict.address}: {'since then ' if repaired else ''}"
        text += f"fine up to version {verdict.version} ({verdict.head[:16]}), "
        text += f"{counted(verdict.commits, 'commit')}, {counted(verdict.said, 'envelope')} said, "
        text += f"{counted(verdict.artifacts, 'artifact')}, {counted(verdict.anchors, 'anchor')}"
        if older := sum(number for rules, number in verdict.rules.items() if rules != codec.RULES_VERSION):
            text += f"; {counted(older, 'commit')} of older rules, which replay takes as they are"
            text += f" ({verdict.older_behind_newer} behind newer ones)" if verdict.older_behind_newer else ""
        if verdict.unanchored_messages or verdict.unanchored_commits:
            text += f"; not anchored yet: {counted(verdict.unanchored_messages, 'envelope')}, "
            text += counted(verdict.unanchored_commits, "commit")
        return text + "\n"
    lines = [
        f"{verdict.address}: DIFFERENT at version {one.version}, {one.where}: {one.what}: {one.reason}"
        for one in verdict.problems
    ]
    return plain(repaired + "\n".join(lines) + "\n")


def _unnamed_text(one: Unnamed) -> str:
    if one.unread:
        return plain(f"{one.tenant}: whether each object is named is not known: {one.unread}\n")
    first = ", ".join(name[:16] for name in one.first)
    return f"{one.tenant}: {counted(one.objects, 'object')} of {one.bytes:,} bytes that no log names: {first}\n"


def _repair_text(one: Repair) -> str:
    lost = [f"the envelope at {seq}" for seq in one.unreadable]
    lost += [f"envelopes {first} to {last} of {writer}" for writer, first, last in one.missing]
    lost += [end_text(*ends) for ends in one.gone]
    if one.anchor and not one.gone:
        lost.append(f"the end that anchor {one.anchor} saw; not here")  # a release before did not write where
    text = f"{counted(one.dropped, 'commit')} dropped, {counted(one.from_copy, 'record')} from a copy, "
    text += f"lost: {', '.join(lost[:20]) or 'nothing that was said'}{' …' * (len(lost) > 20)}"
    return f"{text}; the log before: {one.export or 'nothing was left'}"


def end_text(end: int, saw: int, anchor: int) -> str:
    """Return the words for an end that nobody has."""
    who = f"anchor {anchor}" if anchor else "a snapshot"
    return f"what stood behind position {end}, up to {saw}, seen by {who}; not here"


def _worse(one: int, other: int) -> int:
    """Return the worse of two exit codes: a difference is, of one that was repaired."""
    return MISMATCH if MISMATCH in (one, other) else max(one, other)


def _verdicts_shown(verdicts: list[Verified], as_json: bool) -> int:
    """Write *verdicts* to stdout; return the exit code."""
    for verdict in verdicts:
        shown(verdict, verdict_text(verdict), as_json=as_json)
    if not all(verdict.ok for verdict in verdicts):
        return MISMATCH
    return REPAIRED if any(verdict.repairs for verdict in verdicts) else 0


def _anchored_text(done: Anchored) -> str:
    if not done.number:
        return f"{done.tenant}: nothing to anchor\n"
    news = f"{done.moved} moved" if done.moved else "nothing new"
    heads = counted(done.conversations, "conversation")
    text = f"{done.tenant}: anchor {done.number}, {heads}, {news}, root {done.root}\n"
    lines = [f"{done.tenant}/{name}: NOT anchored: {reason}\n" for name, reason in done.refused.items()]
    return text + "".join(lines)


def _progress() -> Callable[[int, int], None]:
    """Return the callback that reports progress on stderr: every few seconds, or at once to a terminal."""
    told_at = time.monotonic()

    def report(done: int, of: int) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= (0.1 if sys.stderr.isatty() else LINE_SECONDS) or done == of:
            told_at = time.monotonic()
            said(f"verified {done:,} of {of:,} conversations")

    return report
