"""Cut: the last resort, the last of the four actors. Whole units leave, oldest first; then texts are shortened.

By rules 3 results of the newest units are shortened before all else, for they are answered soon.

Decides only. What leaves, and in which order, is planned in `actors/core/cut_plan.py`, since a view for a smaller
budget is made by the same plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.cut_plan import CutPlan, after_plan, plan_cut
from actors.core.entry import Entry
from actors.core.ledger import changes, known_after
from actors.core.loss import fates
from actors.core.pressure import target_tokens
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.units import speaks
from protocol.errors import BudgetRefused
from protocol.facts import CompactionDeclined, Fate, HistoryCut
from protocol.policy import share_of

SHRUNK_SHARE = 0.75
"""Of the usable tokens, for all that stays when texts must be shortened for good: with less room left, the next few
messages would have instructions and requests shortened again, and the prompt cached anew."""


def cut(state: State, *, count: Count) -> tuple[HistoryCut | CompactionDeclined, ...]:
    """Return the fact that brings the view down to the target, or why nothing can; nothing if not asked."""
    if state.episode is None or state.episode.stage != "cut" or state.policy is None:
        return ()
    boundary = state.episode.boundary
    try:
        plan = plan_cut(
            state,
            state.live,
            down_to=_down_to(state),
            within=state.usable_tokens,
            shrunk=_shrunk_to(state),
            part=_part_tokens(state),
            count=count,
        )
    except BudgetRefused as refused:
        return (CompactionDeclined(boundary=boundary, stage="cut", reason=str(refused)[:300]),)
    if plan.level == "none":
        return (CompactionDeclined(boundary=boundary, stage="cut", reason="nothing that may be dropped"),)
    return (_fact_of(state, plan, boundary),)


def _fact_of(state: State, plan: CutPlan, boundary: int) -> HistoryCut:
    """Return the fact that *plan* is carried out."""
    leaving = _losing_words(plan, state.live)
    return HistoryCut(
        boundary=boundary,
        dropped=plan.dropped,
        trimmed=plan.trimmed,
        level=plan.level,
        digest_dropped=plan.digest_dropped,
        before_tokens=state.live_tokens,
        after_tokens=plan.tokens,
        ledger=changes(state.shown.raw_ledger, known_after(state, leaving)) if leaving else (),
        fates=_fates(state, plan),
    )


def _losing_words(plan: CutPlan, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries that leave, and those of which a part is shortened: a user's, or one not yet changed."""
    whole = {(entry.number, part.pointer) for entry in entries for part in entry.parts}
    whole -= {(entry.number, one.pointer) for entry in entries if not speaks(entry) for one in entry.shown}
    gone = {*plan.dropped, *(trim.number for trim in plan.trimmed if (trim.number, trim.pointer) in whole)}
    return tuple(entry for entry in entries if entry.number in gone)


def _fates(state: State, plan: CutPlan) -> tuple[Fate, ...]:
    touched = {*plan.dropped, *(trim.number for trim in plan.trimmed)}
    changed = [entry for entry in state.live if entry.number in touched]
    digest = None if plan.digest_dropped else state.digest
    return fates(state, changed, after_plan(state.live, plan), after=digest)


def _down_to(state: State) -> int:
    assert state.policy is not None
    if state.policy.cut.down_to == "usable" and not _is_emergency(state):
        return state.usable_tokens
    return target_tokens(state)


def _shrunk_to(state: State) -> int:
    """Return the tokens to which all that stays is shortened, if it must be."""
    assert state.policy is not None
    if state.policy.cut.down_to == "usable":
        return _down_to(state)
    share = share_of(state.usable_tokens, SHRUNK_SHARE)
    return min(share, target_tokens(state)) if _is_emergency(state) else share


def _part_tokens(state: State) -> int | None:
    """Return the tokens of a text that stays in an emergency."""
    assert state.policy is not None
    share = state.policy.emergency.part
    return share_of(state.usable_tokens, share) if share is not None and _is_emergency(state) else None


def _is_emergency(state: State) -> bool:
    return state.episode is not None and state.episode.cause == "overflow"
