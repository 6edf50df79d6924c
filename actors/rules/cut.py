"""Cut: the last resort. Whole units leave, oldest first; only then is anything shortened.

The ladder: `none`, `units` (drop the oldest units that are not pinned), `shrink` (shorten texts inside
what must stay), `bare` (drop the digest too), and then a refusal that names what is too large. A call
never parts from its results, and the order never changes.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from protocol import messages
from protocol.errors import BudgetRefused
from protocol.facts import CompactionDeclined, HistoryCut, Trim

from .budget import target_tokens
from .digest import pinned_numbers
from .entry import Count, Entry
from .preview import preview
from .state import State
from .units import Unit, units

SHRUNK_TOKENS_MIN = 24
"""A text is not shortened below this: less says nothing."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would leave a list of entries, and what it would then cost."""

    level: str
    dropped: tuple[int, ...] = ()
    trimmed: tuple[Trim, ...] = ()
    digest_dropped: bool = False
    tokens: int = 0


def cut(state: State, *, count: Count) -> tuple[HistoryCut | CompactionDeclined, ...]:
    """Return the fact that brings the view down to the target, or why nothing can; nothing if not asked."""
    if state.episode is None or state.episode.stage != "cut" or state.policy is None:
        return ()
    boundary = state.episode.boundary
    try:
        plan = plan_cut(state, state.live, down_to=target_tokens(state), within=state.usable_tokens, count=count)
    except BudgetRefused as refused:
        return (CompactionDeclined(boundary=boundary, stage="cut", reason=str(refused)[:300]),)
    if plan.level == "none":
        return (CompactionDeclined(boundary=boundary, stage="cut", reason="nothing that may be dropped"),)
    fact = HistoryCut(
        boundary=boundary,
        dropped=plan.dropped,
        trimmed=plan.trimmed,
        level=plan.level,
        digest_dropped=plan.digest_dropped,
        before_tokens=state.live_tokens,
        after_tokens=plan.tokens,
    )
    return (fact,)


def plan_cut(state: State, entries: Sequence[Entry], *, down_to: int, within: int, count: Count) -> Plan:
    """Return how *entries* with the digest come down to *down_to* tokens, at worst to *within*.

    Raises `BudgetRefused` when what must stay is above *within* even at the last level.
    """
    assert state.policy is not None
    digest_tokens = state.digest.tokens if state.digest else 0
    tokens = sum(entry.tokens for entry in entries) + digest_tokens
    if tokens <= down_to:
        return Plan(level="none", tokens=tokens)
    dropped, tokens = _drop_units(state, entries, tokens, down_to)
    if tokens <= within:
        return Plan(level="units" if dropped else "none", dropped=dropped, tokens=tokens)
    if state.policy.cut.on_overflow == "refuse":
        raise _refusal(entries, frozenset(dropped), tokens, within)
    gone = frozenset(dropped)
    staying = [entry for entry in entries if entry.number not in gone]
    for level, without_digest in (("shrink", False), ("bare", True)):
        spare = within - (0 if without_digest else digest_tokens)
        trims, used = _shrink(staying, spare, count)
        if used <= spare:
            total = used + (0 if without_digest else digest_tokens)
            return Plan(level=level, dropped=dropped, trimmed=trims, digest_dropped=without_digest, tokens=total)
    raise _refusal(entries, gone, tokens, within)


def _drop_units(state: State, entries: Sequence[Entry], tokens: int, down_to: int) -> tuple[tuple[int, ...], int]:
    """Drop the oldest units until the rest fits; the newest unit and the pinned messages stay."""
    pins = pinned_numbers(state, tuple(entries))
    dropped: list[int] = []
    for unit in units(entries)[:-1]:
        if tokens <= down_to:
            break
        if _pinned(unit, pins):
            continue
        dropped += [entry.number for entry in unit.entries]
        tokens -= unit.tokens
    return tuple(dropped), tokens


def _pinned(unit: Unit, pins: frozenset[int]) -> bool:
    return any(entry.number in pins for entry in unit.entries)


def _shrink(entries: Sequence[Entry], room: int, count: Count) -> tuple[tuple[Trim, ...], int]:
    """Shorten the longest texts, each to the same height, until all fits *room* or nothing is left to shorten."""
    total = sum(entry.tokens for entry in entries)
    texts = [one for entry in entries for one in _texts(entry)]
    fixed = total - sum(tokens for *_, tokens in texts)
    trims: tuple[Trim, ...] = ()
    spare = max(0, room - fixed)
    for _ in range(6):
        height = max(SHRUNK_TOKENS_MIN, water_level([tokens for *_, tokens in texts], spare))
        trims = tuple(_trim(entry, pointer, height, count) for entry, pointer, tokens in texts if tokens > height)
        saved = sum(tokens for *_, tokens in texts if tokens > height) - sum(trim.tokens for trim in trims)
        if total - saved <= room or height == SHRUNK_TOKENS_MIN:
            return trims, total - saved
        spare -= max(8, total - saved - room)
    return trims, total - saved


def water_level(sizes: Sequence[int], room: int) -> int:
    """Return the height to which all *sizes* must be cut so that their sum is at most *room*."""
    left = sorted(sizes)
    while left:
        share = room // len(left)
        if left[0] > share:
            return max(0, share)
        room -= left.pop(0)
    return max(sizes, default=0)


def _texts(entry: Entry) -> list[tuple[Entry, str, int]]:
    """Return the parts of an entry that may be shortened, with what they cost as they are shown."""
    shown = {one.pointer: one.tokens for one in entry.shown}
    return [
        (entry, part.pointer, shown.get(part.pointer, part.tokens))
        for part in entry.parts
        if part.kind in ("text", "arguments") or part.pointer in shown
    ]


def _trim(entry: Entry, pointer: str, height: int, count: Count) -> Trim:
    before = {one.pointer: one.text for one in entry.shown}
    text = before.get(pointer)
    if text is None:
        text = messages.leaf(messages.decode(entry.raw), pointer)
    arguments = pointer.startswith("/tool_calls/")
    # a call's arguments stay JSON, and quoting costs tokens of its own
    short = preview(text, tokens_max=height * 3 // 4 - 8 if arguments else height, count=count)
    short = short or f"[left out: {len(text):,} characters]"
    if arguments:
        short = msgspec.json.encode({"shortened": short}).decode()
    return Trim(number=entry.number, pointer=pointer, text=short, tokens=count(short))


def _refusal(entries: Sequence[Entry], gone: frozenset[int], tokens: int, within: int) -> BudgetRefused:
    largest = sorted((entry for entry in entries if entry.number not in gone), key=lambda entry: -entry.tokens)[:3]
    named = ", ".join(f"message {entry.number} ({entry.role}, {entry.tokens:,} tokens)" for entry in largest)
    return BudgetRefused(
        f"what must stay needs {tokens:,} tokens, the budget is {within:,}; largest: {named}",
        tokens=tokens,
        budget=within,
        parts=[(entry.number, entry.role, entry.tokens) for entry in largest],
    )
