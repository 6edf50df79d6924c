"""Rewind: go back to an earlier version, or put back what has left the view.

What is put back is taken from the states of earlier versions, which the log folds to; the facts hold only where it
stands there. The next compaction may take it away again.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from protocol.errors import BudgetRefused, NotFound, PastNeeded
from protocol.fact_parts import Restored, Unspilled
from protocol.facts import ConversationRewound, HistoryExpanded

from .entry import Entry
from .state import State
from .state_parts import Agenda
from .units import Unit, units


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """The state that a commit was decided on, and the state after it."""

    before: State
    after: State


Past = Mapping[int, Transition]
"""What is known of earlier commits, by version."""


class UnitSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A unit as the view showed most of it, and the version that was decided on that view."""

    unit: Unit
    version: int


Views = dict[tuple[int, ...], UnitSeen]
"""What views have shown, by the numbers of a unit: one that an undone turn had completed otherwise is another one."""


def look(seen: Views, state: State) -> None:
    """Note in *seen* what the view of *state*, on which the next version is decided, shows at least as full."""
    for unit in units([_bare(entry) for entry in state.live]):
        numbers = tuple(entry.number for entry in unit.entries)
        known = seen.get(numbers)
        if known is None or unit.tokens >= known.unit.tokens:
            seen[numbers] = UnitSeen(unit=unit, version=state.version + 1)


def rewind(state: State, earlier: State) -> ConversationRewound | None:
    """Return the fact that makes the context that of *earlier* again; None if it is that already."""
    after = _returned(state, earlier)
    if (after.shown, after.waiting) == (state.shown, state.waiting):
        return None
    return ConversationRewound(
        to_version=earlier.version,
        upto=earlier.messages,
        before_tokens=state.live_tokens,
        after_tokens=after.live_tokens,
    )


def expand(
    state: State, seen: Views, *, first: int, last: int, parts: tuple[Unspilled, ...] = ()
) -> HistoryExpanded | None:
    """Return the fact that shows messages *first* to *last* in full again, with the units they belong to.

    None if the view shows them so already. Raises `NotFound`, `BudgetRefused` with the tokens that it would take.
    """
    live = {entry.number: entry for entry in state.live}
    wanted = _chosen(state, seen, first=first, last=last)
    restored = tuple(
        Restored(number=entry.number, version=one.version)
        for one in wanted
        for entry in one.unit.entries
        if entry.number not in live or _bare(live[entry.number]).tokens < entry.tokens
    )
    fuller = {entry.number: entry for one in wanted for entry in one.unit.entries}
    fuller = {one.number: fuller[one.number] for one in restored}
    shown = tuple(part for part in parts if not _shows(fuller.get(part.number) or live[part.number], part))
    if not restored and not shown:
        return None
    after = _with(state, fuller, shown).live_tokens
    if after > state.usable_tokens:
        raise BudgetRefused(
            f"in full they take {after - state.live_tokens:,} tokens more; "
            f"{max(0, state.usable_tokens - state.live_tokens):,} of {state.usable_tokens:,} are free: put back fewer, "
            'or read them in parts: read_artifact("messages:N")',
            tokens=after,
            budget=state.usable_tokens,
        )
    return HistoryExpanded(restored=restored, parts=shown, before_tokens=state.live_tokens, after_tokens=after)


def _chosen(state: State, seen: Views, *, first: int, last: int) -> list[UnitSeen]:
    """Return the units around *first* to *last*, each as it was at its fullest and as it fits into the view."""
    live = {unit.first: tuple(entry.number for entry in unit.entries) for unit in units(state.live)}
    best: dict[int, UnitSeen] = {}
    for numbers, one in seen.items():
        begin = numbers[0]
        if numbers[-1] < first or begin > last:
            continue
        # what is open in the view is answered there, not by what was undone
        if live[begin] != numbers if begin in live else not _is_whole(one.unit):
            continue
        if begin not in best or (len(numbers), one.unit.tokens) >= (
            len(best[begin].unit.entries),
            best[begin].unit.tokens,
        ):
            best[begin] = one
    # an answer that came when its call was undone stands alone, or with another call: neither may be parted
    spans, chosen = [*live.values()], list[UnitSeen]()
    for _, one in sorted(best.items()):
        if not any(_parts(one.unit, span) for span in spans):
            spans.append((one.unit.first, one.unit.last))
            chosen.append(one)
    if not chosen:
        raise NotFound(_never_shown(state, first, last), first=first, last=last)
    return chosen


def _parts(unit: Unit, span: tuple[int, ...]) -> bool:
    """Tell whether *unit* would stand between the messages of *span*, or these between its own."""
    return span[0] < unit.first < span[-1] or unit.first < span[0] < unit.last


def _never_shown(state: State, first: int, last: int) -> str:
    """Return the words for messages that cannot be put back: they are not there, or were never shown in full."""
    if first > state.messages:
        has = f"the last one is {state.messages}" if state.messages else "nothing was said yet"
        return f"there is no message {first}; {has}"
    named = f"message {first}" if first == last else f"messages {first}-{last}"
    span = f"{first}" if first == last else f"{first}-{last}"
    return f'no view ever showed {named} in full; read it in parts: read_artifact("messages:{span}")'


def expanded(state: State, fact: HistoryExpanded, past: Past) -> State:
    """Return the state after *fact*. Raises `PastNeeded`."""
    fuller = {}
    for one in fact.restored:
        entries = (entry for entry in _step(past, one.version).before.live if entry.number == one.number)
        fuller[one.number] = _bare(next(entries))
    return _with(state, fuller, fact.parts)


def rewound(state: State, fact: ConversationRewound, past: Past) -> State:
    """Return the state after *fact*. Raises `PastNeeded`."""
    return _returned(state, _step(past, fact.to_version).after)


def _step(past: Past, version: int) -> Transition:
    found = past.get(version)
    if found is None:
        raise PastNeeded(f"a commit goes back to version {version}, which is not at hand", version=version)
    return found


def _returned(state: State, earlier: State) -> State:
    """Return *state* with the context of *earlier*: what orders, identifies or was learned goes on.

    A compaction that was under way then does not go on: whoever goes back behind it wants it undone.
    """
    return replace(
        state,
        shown=earlier.shown,
        waiting=earlier.waiting,
        exchange=earlier.exchange,
        counters=earlier.counters,
        agenda=Agenda(quiet_tokens=earlier.live_tokens),
    )


def _with(state: State, fuller: Mapping[int, Entry], parts: tuple[Unspilled, ...]) -> State:
    entries = {entry.number: entry for entry in state.live}
    for number, entry in fuller.items():
        there = entries.get(number)
        entries[number] = replace(entry, notes=there.notes) if there else entry
    for part in parts:
        entries[part.number] = _in_full(entries[part.number], part)
    live = tuple(entries[number] for number in sorted(entries))
    tokens = sum(entry.tokens for entry in live) + (state.digest.tokens if state.digest else 0)
    return replace(
        state,
        shown=replace(state.shown, live=live, live_tokens=tokens),
        agenda=replace(state.agenda, quiet_tokens=tokens),
    )


def _in_full(entry: Entry, part: Unspilled) -> Entry:
    if part.text:
        return entry.with_shown(part.pointer, part.text, part.tokens)
    shown = tuple(one for one in entry.shown if one.pointer != part.pointer)
    return replace(entry, shown=shown)


def _shows(entry: Entry, part: Unspilled) -> bool:
    return _in_full(entry, part) == entry


def _bare(entry: Entry) -> Entry:
    """Return the entry without notes, which belong to the moment."""
    return replace(entry, notes=()) if entry.notes else entry


def _is_whole(unit: Unit) -> bool:
    """Tell whether all calls of *unit* have a result, or a written answer."""
    calls = {ident for entry in unit.entries for ident in entry.call_ids}
    given = {result.call for entry in unit.entries for result in entry.results}
    return calls <= given | {ident for entry in unit.entries for ident in entry.answers}
