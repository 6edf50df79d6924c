"""`replay`: one conversation, many bundles, or all there is, decided again and compared."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from actors.audit.replay import Replayed
from actors.host.bootstrap import Runtime
from protocol.errors import NotFound
from protocol.ids import Address, written_address

from . import FAILED, MISMATCH, UNREACHABLE
from .asked_about import chosen, missing, named_file
from .options import StackOptions, WrongUsage
from .progress import bar, lines
from .replay_pool import Failed, How, ReplayResult, ReplaySource, processors, replays
from .session import connected, located, printed, said, settings_of, shown
from .terminal_text import counted, named, plain

if TYPE_CHECKING:  # what bundles and older releases need is a fifth of the start
    from actors.audit.older_release import Release

PATTERN = "*.tar"
"""Of the bundles in a folder."""


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What is to be exit 3, and which other releases decide what rests on the record."""

    verify: bool
    strict: bool
    environments: tuple[Path, ...]
    fold: bool


def replay(
    stack: StackOptions, what: Sequence[str], *, everything: bool, checks: Checks, jobs: int, as_json: bool
) -> int:
    """Rebuild conversations from the log, or from bundles alone; see `jettison replay --help`."""
    if bool(what) == everything:
        raise WrongUsage("say what to replay: conversations, bundles' files or folders of them, or --all")
    if checks.fold and (checks.strict or checks.environments):
        raise WrongUsage("--fold decides nothing again: without --strict and --with")
    signal.signal(signal.SIGTERM, _ended)
    releases = _releases(checks.environments)
    files, names = _parted(what)
    addresses = _addresses(stack, names, everything=everything)
    settings = settings_of(stack)
    sources: list[ReplaySource] = [*files, *addresses]
    how = How(settings=located(settings) if addresses else settings, releases=releases, fold=checks.fold)
    outcomes = replays(sources, how, jobs=jobs or processors())
    if len(sources) == 1 and not everything:
        return _outcome_shown(next(outcomes), checks=checks, as_json=as_json, briefly=False)
    return _all_shown(outcomes, len(sources), checks=checks, as_json=as_json)


def replay_text(found: Replayed, *, strict: bool = False) -> str:
    """Return the outcome of a replay as text for a person; *strict*: a step that rests proves nothing."""
    view = f"{found.tokens:,} tokens, hash {found.view_hash[:16]}"
    lines = [
        f"{found.address}: {found.messages} messages, {found.commits} commits, {found.facts} facts",
        _done_text(found),
        f"version {found.version}, hash {found.hash[:16]}; its view: {view}",
    ]
    lines.append(_different(found) or _verified_text(found, strict=strict))
    return "\n".join(lines) + "\n"


def _verified_text(found: Replayed, *, strict: bool) -> str:
    """Return the sentence about what came out the same: what was only folded is not verified."""
    if not found.decided_again + found.decided_elsewhere:
        return "nothing was decided again: what was folded came out the same"
    if not found.rests:
        return "replay verified: all of these came out the same"
    verified = "not verified as a whole" if strict else "replay verified"
    return f"{verified}: what was decided again came out the same"


def _done_text(found: Replayed) -> str:
    views = f"rebuilt {found.views} served views"
    if found.folded_only:
        return f"folded, nothing decided again; {views}, compared {counted(found.states, 'kept state')}"
    older = rests_text(found)
    return (
        f"decided again {found.decided_again} of {found.commits - found.views} steps{older and f', {older}'} (the "
        f"others rest on what settings, a store or a model said), {views}"
    )


def rests_text(found: Replayed) -> str:
    """Return the sentence about steps of older rules, empty if there are none."""
    told = []
    if found.decided_elsewhere:
        told = [f"{counted(found.decided_elsewhere, 'step')} of older rules decided again by their own release"]
    if rules := " and ".join(sorted(found.rests)):
        told += [f"{counted(sum(found.rests.values()), 'step')} of older rules ({rules}) rest on the record"]
    return ", ".join(told)


def brief_text(found: Replayed) -> str:
    """Return the same in one line."""
    older = rests_text(found)
    same = (
        "all the same"
        if found.decided_again + found.decided_elsewhere
        else "nothing decided again, all folded the same"
    )
    return (
        f"{found.address}: version {found.version}, {found.messages} messages, {found.facts} facts, {found.views} "
        f"served views: {_different(found) or same}{older and f'; {older}'}\n"
    )


def _ended(number: int, _frame: object) -> None:
    """End as an error does, so that the processes end too; never with the code of a replay without a difference."""
    raise SystemExit(128 + number)


def _different(found: Replayed) -> str:
    gap = found.divergence
    return plain(f"DIFFERENT at version {gap.version}: {gap.fact} {gap.field}: {gap.reason}") if gap else ""


def _parted(what: Sequence[str]) -> tuple[list[Path], list[str]]:
    """Return the files that *what* names, those in its folders too, and the rest: names of conversations."""
    files: list[Path] = []
    names: list[str] = []
    for text in what:
        file = named_file(text)
        if file is not None:
            files.append(file)
        elif _is_folder(text):
            found = sorted(path for path in Path(text).glob(PATTERN) if path.is_file())
            if not found:
                raise NotFound(f"there is no bundle ({PATTERN}) in the folder {text}", folder=text)
            files += found
        else:
            names.append(text)
    return files, names


def _is_folder(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except (OSError, ValueError):
        return False


def _releases(environments: Sequence[Path]) -> tuple[Release, ...]:
    if not environments:
        return ()
    from actors.audit.older_release import release_in

    return tuple(release_in(path) for path in environments)


def _addresses(stack: StackOptions, names: Sequence[str], *, everything: bool) -> list[Address]:
    found: dict[Address, None] = {}
    if not names and not everything:
        return []

    async def main(running: Runtime) -> int:
        everyone = await running.log.addresses()
        for name in names or [""]:
            try:
                found.update(dict.fromkeys(chosen(everyone, name)))
            except NotFound:
                if name.endswith("/"):
                    raise
                raise missing(name, written_address(name)) from None
        return 0

    connected(main, stack)
    return list(found)


def _all_shown(outcomes: Iterator[ReplayResult], total: int, *, checks: Checks, as_json: bool) -> int:
    """Tell each outcome as it comes, and the sum of them on stderr."""
    worst = count = facts = different = failed = rests = 0
    began = time.perf_counter()
    shown = lines if sys.stdout.isatty() else bar
    with shown("replaying", total, unit="conversations") as step:
        for count, outcome in enumerate(outcomes, 1):
            worst = _worse(worst, _outcome_shown(outcome, checks=checks, as_json=as_json, briefly=True))
            if isinstance(outcome, Failed):
                failed += 1
            else:
                facts += outcome.messages + outcome.facts
                different += outcome.divergence is not None
                rests += sum(outcome.rests.values())
            step("", count, total)
    seconds = time.perf_counter() - began
    result = f"{different} DIFFERENT" if different else "all the same"
    unread = f", {failed} NOT read" if failed else ""
    unread += f"; {counted(rests, 'step')} of older rules rest on the record" if rests else ""
    said(
        f"{count:,} conversations, {facts:,} messages and facts in {seconds:.1f} s "
        f"({facts / max(seconds, 1e-9):,.0f} a second): {result}{unread}"
    )
    return worst


def _outcome_shown(outcome: ReplayResult, *, checks: Checks, as_json: bool, briefly: bool) -> int:
    """Write *outcome*; return the exit code."""
    if isinstance(outcome, Failed):
        said(f"jettison: {named(outcome.error)}")
        if as_json:
            printed(msgspec.structs.asdict(outcome))
        return UNREACHABLE if outcome.unavailable else FAILED
    shown(outcome, brief_text(outcome) if briefly else replay_text(outcome, strict=checks.strict), as_json=as_json)
    if checks.strict and outcome.rests:
        said(f"jettison: {outcome.address} is not proven: {rests_text(outcome)}; --with ENV decides them")
    differs = checks.verify and outcome.divergence is not None
    return MISMATCH if differs or (checks.strict and outcome.rests) else 0


def _worse(one: int, other: int) -> int:
    """Return the exit code that says more: a difference, then a service that is not there, then any failure."""
    order = (0, FAILED, UNREACHABLE, MISMATCH)
    return max(one, other, key=order.index)
