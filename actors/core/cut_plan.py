"""Cut plan: what would leave a list of entries so that it fits, and what that would then cost.

Whole units leave, oldest first; only then is anything shortened. Cut asks it, and a view for a smaller budget.

The ladder: `none`, `units` (drop the oldest units that are neither pinned nor in the floor), `floor`
(shorten long texts inside the floor), `fewer` (lower a soft floor), `shrink` (shorten all that is left),
`bare` (drop the digest too), and then a refusal that names what is too large. What the user asked for last stays
word for word, unless neither of the last two leaves room for it or it is most of the budget itself. A call never
parts from its results, and the order never changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from protocol.account import Trim
from protocol.errors import BudgetRefused
from protocol.policy import share_of

from .entry import Entry
from .kept import named_first, spares_kept
from .pins import pinned_numbers
from .pressure import fixed_tokens
from .shrink import RESULT_TOKENS_MIN, lowered, results_in, shown_by_ends, shrink, texts_in
from .state import State
from .text.count import Count
from .trimmed import trimmed
from .units import Unit, floor_pairs, floor_units, last_user, units

FLOOR_TOKENS_MIN = 256
"""A text of a soft floor is not shortened below this: rather, the floor is lowered."""

SHRUNK_TOKENS_MIN = 24
"""A text is not shortened below this: less says nothing."""

RESULTS_SHARE = 0.9
"""Of the budget, for all that stays when results alone are shortened for good."""

VERBATIM_SHARE = 0.5
"""Of the budget: up to here the user's last message is not shortened, though instructions and results are; nor are
instructions while results can be."""


class CutPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What would leave a list of entries, and what it would then cost."""

    level: str
    dropped: tuple[int, ...] = ()
    trimmed: tuple[Trim, ...] = ()
    digest_dropped: bool = False
    tokens: int = 0


def plan_cut(
    state: State,
    entries: Sequence[Entry],
    *,
    down_to: int,
    within: int,
    count: Count,
    shrunk: int | None = None,
    part: int | None = None,
) -> CutPlan:
    """Return the plan that brings *entries* with the digest down to *down_to* tokens, at worst to *within*.

    Where texts of all that is left must be shortened, they are to *shrunk* tokens, if that is possible. Before that,
    where units are not enough, each text that stays is shortened to *part* tokens.

    Raises `BudgetRefused` when what must stay is above *within* even at the last level.
    """
    assert state.policy is not None
    policy = state.policy.cut
    digest_tokens = state.digest.tokens if state.digest else 0
    tokens = sum([entry.tokens for entry in entries], digest_tokens)
    if tokens <= down_to or (policy.mode == "off" and tokens <= within):
        return CutPlan(level="none", tokens=tokens)
    if policy.mode == "off":
        raise _refusal(entries, frozenset(), tokens, within)
    order = _order(state, entries)
    # what an account could not tell for less is not dropped untold for the sake of one long result
    is_over = tokens > within and policy.on_overflow != "refuse" and part is None and not order.at_once
    if is_over and (plan := _with_short_results(state, entries, (), within, shrunk, count)) is not None:
        return plan
    dropped, tokens = _drop(order.free, tokens, down_to, at_once=order.at_once, wholes=order.wholes)
    for units_, most in ((order.stale, down_to), (order.kept, within)):
        more, tokens = _drop(units_, tokens, most)
        dropped += more
    if part is not None and tokens > down_to:
        staying = _staying(entries, dropped)
        texts = texts_in(staying, but=_task(entries, within))
        trims, used = lowered(staying, texts, part, count, shown_by_ends(count))
        if trims and used + digest_tokens <= within:
            return CutPlan(level="shrink", dropped=dropped, trimmed=trims, tokens=used + digest_tokens)
    if tokens <= within:
        return CutPlan(level="units" if dropped else "none", dropped=dropped, tokens=tokens)
    if policy.on_overflow == "refuse":
        raise _refusal(entries, frozenset(dropped), tokens, within)
    if (plan := _with_short_results(state, entries, dropped, within, shrunk, count)) is not None:
        return plan
    if order.soft:
        staying = _staying(entries, dropped)
        texts = texts_in(staying, but=_task(entries, within))
        trims, used = shrink(staying, texts, within - digest_tokens, count, least=FLOOR_TOKENS_MIN)
        if used + digest_tokens <= within:
            return CutPlan(level="floor", dropped=dropped, trimmed=trims, tokens=used + digest_tokens)
        more, tokens = _drop(order.soft, tokens, within)
        dropped += more
        if tokens <= within:
            return CutPlan(level="fewer", dropped=dropped, tokens=tokens)
    return _with_short_texts(state, entries, dropped, within, shrunk, count)


def least_tokens(state: State, entries: Sequence[Entry], *, count: Count) -> int:
    """Return the fewest tokens of *entries*: all has left that may, all is shortened that can be."""
    assert state.policy is not None
    policy = state.policy.cut
    tokens = sum([entry.tokens for entry in entries], state.digest.tokens if state.digest else 0)
    if policy.mode == "off":
        return tokens
    order = _order(state, entries)
    dropped, tokens = _drop((*order.free, *order.stale, *order.kept), tokens, 0)
    if policy.on_overflow == "refuse":
        return tokens
    staying = _staying(entries, dropped + _drop(order.soft, tokens, 0)[0])
    return shrink(staying, texts_in(staying), 0, count, least=SHRUNK_TOKENS_MIN)[1]


def _task(entries: Sequence[Entry], within: int) -> int:
    """Return the number of what the user asked for last, 0 where it is so long that all others would pay for it."""
    number = last_user(entries)
    tokens = sum(entry.tokens for entry in entries if entry.number == number)
    return number if tokens <= share_of(within, VERBATIM_SHARE) else 0


def after_plan(entries: Sequence[Entry], plan: CutPlan) -> list[Entry]:
    """Return *entries* without what *plan* drops, and with the texts that it shortens."""
    staying = _staying(entries, plan.dropped)
    return trimmed(staying, plan.trimmed) if plan.trimmed else staying


class _Order(msgspec.Struct, frozen=True, kw_only=True):
    """Units in the order in which they leave: freely, and those of a soft floor before texts are shortened hard."""

    free: tuple[Unit, ...]
    soft: tuple[Unit, ...]
    stale: tuple[Unit, ...]
    """What may leave from inside the floor, after the free ones."""
    kept: tuple[Unit, ...]
    """What the policy names to stay: it leaves where the view does not fit, and for no other reason."""
    at_once: int
    """Of the free ones, how many leave at once, because the policy's window does not hold them."""
    wholes: tuple[int, ...] = ()
    """Numbers of the messages that begin what leaves as a whole; behind the last one, units leave alone."""


def _order(state: State, entries: Sequence[Entry]) -> _Order:
    """Return the units that may leave; the newest unit and the pinned messages stay."""
    assert state.policy is not None
    policy = state.policy.cut
    pins = pinned_numbers(state, tuple(entries))
    every = units(entries)
    guarded = floor_units(every, policy.floor)
    outside = _outside(every, policy.window)
    free = [unit for unit in every[: len(every) - max(1, guarded)] if not _pinned(unit, pins)]
    inside = every[len(every) - guarded : -1] if guarded else ()
    soft = inside if policy.floor.mode == "soft" else ()
    stale: tuple[Unit, ...] = ()
    if policy.floor.calls == "leave":
        stay = pins | floor_pairs(every, policy.floor)
        stale = tuple(unit for unit in inside if not _pinned(unit, stay))
        soft = tuple(unit for unit in soft if _pinned(unit, stay))
    kept: list[Unit] = []
    if spares_kept(policy):
        first = named_first(state, every, pins)
        place = every[first].first if first is not None and every else 0
        kept = [unit for unit in free if place and unit.first >= place]
        free = [unit for unit in free if not place or unit.first < place]
    free.sort(key=lambda unit: unit.last > outside)  # stable: what is outside the window leaves before all others
    at_once = sum(unit.last <= outside for unit in free)
    rest = free[at_once:]
    for kind in reversed(policy.first):
        rest.sort(key=lambda unit: _kind(unit) != kind)
    return _Order(
        free=(*free[:at_once], *rest),
        stale=stale,
        kept=tuple(kept),
        soft=tuple(unit for unit in soft if not _pinned(unit, pins)),
        at_once=at_once,
        wholes=tuple(unit.first for unit in every if unit.opens_block) if policy.by == "blocks" else (),
    )


def _outside(every: Sequence[Unit], window: int | None) -> int:
    """Return the number of the last message that is older than the newest *window* blocks; 0 for none."""
    if window is None:
        return 0
    blocks = [unit.first for unit in every if unit.opens_block]
    if len(blocks) <= window:
        return 0
    return (blocks[-window] if window else every[-1].first) - 1


def _drop(
    units_: Sequence[Unit], tokens: int, down_to: int, *, at_once: int = 0, wholes: Sequence[int] = ()
) -> tuple[tuple[int, ...], int]:
    """Drop *units_* in their order until the rest fits *down_to*, the first *at_once* of them in any case.

    What began to leave leaves whole: the unit before is of the same one of *wholes*, but for the newest of them.
    """
    dropped: list[int] = []
    whole = -1
    for index, unit in enumerate(units_):
        before, whole = whole, bisect_right(wholes, unit.first)
        if tokens <= down_to and index >= at_once and (whole != before or whole == len(wholes)):
            break
        dropped += [entry.number for entry in unit.entries]
        tokens -= unit.tokens
    return tuple(sorted(dropped)), tokens


def _kind(unit: Unit) -> str:
    return "results" if unit.entries[0].call_ids else "talk"


def _staying(entries: Sequence[Entry], dropped: tuple[int, ...]) -> list[Entry]:
    if not dropped:
        return list(entries)
    gone = frozenset(dropped)
    return [entry for entry in entries if entry.number not in gone]


def _pinned(unit: Unit, pins: frozenset[int]) -> bool:
    return any(entry.number in pins for entry in unit.entries)


def _with_short_results(
    state: State, entries: Sequence[Entry], dropped: tuple[int, ...], within: int, shrunk: int | None, count: Count
) -> CutPlan | None:
    """Return the plan that shortens nothing but results, if they go first and that is enough."""
    if not results_go_first(state, within):
        return None
    staying, digest_tokens = _staying(entries, dropped), state.digest.tokens if state.digest else 0
    most = within if shrunk is None else max(shrunk, share_of(within, RESULTS_SHARE))
    room = most - digest_tokens
    trims, used = shrink(staying, results_in(staying), room, count, least=RESULT_TOKENS_MIN, by_kind=True)
    if used + digest_tokens > within:
        return None
    return CutPlan(level="shrink", dropped=dropped, trimmed=trims, tokens=used + digest_tokens)


def _with_short_texts(
    state: State, entries: Sequence[Entry], dropped: tuple[int, ...], within: int, shrunk: int | None, count: Count
) -> CutPlan:
    """Return the plan that shortens all that stays. Raises `BudgetRefused` where that is not enough."""
    staying, digest_tokens = _staying(entries, dropped), state.digest.tokens if state.digest else 0
    for verbatim in dict.fromkeys((_task(entries, within), 0)):
        for level, beside in (("shrink", digest_tokens), ("bare", 0)):
            spare = within - beside
            wanted = spare if shrunk is None else min(spare, max(0, shrunk - beside))
            texts = texts_in(staying, but=verbatim)
            trims, used = shrink(staying, texts, wanted, count, least=SHRUNK_TOKENS_MIN)
            if used <= spare:
                total, gone = used + beside, level == "bare"
                return CutPlan(level=level, dropped=dropped, trimmed=trims, digest_dropped=gone, tokens=total)
    raise _refusal(entries, frozenset(dropped), sum([entry.tokens for entry in staying], digest_tokens), within)


def results_go_first(state: State, within: int) -> bool:
    """Tell whether results are shortened before all else: not where instructions alone are most of the budget."""
    assert state.policy is not None
    return state.policy.digest.rules_3 and fixed_tokens(state) <= share_of(within, VERBATIM_SHARE)


def _refusal(entries: Sequence[Entry], gone: frozenset[int], tokens: int, within: int) -> BudgetRefused:
    largest = sorted((entry for entry in entries if entry.number not in gone), key=lambda entry: -entry.tokens)[:3]
    named = ", ".join(f"message {entry.number} ({entry.role}, {entry.tokens:,} tokens)" for entry in largest)
    return BudgetRefused(
        f"what must stay needs {tokens:,} tokens, the budget is {within:,}; largest: {named}",
        tokens=tokens,
        budget=within,
        parts=[(entry.number, entry.role, entry.tokens) for entry in largest],
    )
