"""Admit: let waiting messages into the live view, and begin a compaction where the policy says so."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from protocol.policy import share_of

from .calibrating import learned
from .caps import oversized
from .flow import begun
from .hooks import fired
from .pressure import begins, target_tokens
from .state import State, with_ended
from .state_parts import OVERFLOW, Arrived, BudgetWish, Counted, Due
from .written_words import ABORTED_TOKENS

RATIO_MIN, RATIO_MAX = 0.25, 4.0
"""Bounds on what is believed of a provider's count (Digitorn's)."""

OVERFLOW_SHARE = 0.5
"""Of the view that a provider refused: where the emergency stops, if the policy's target is not lower."""


def admit(state: State) -> State:
    """Return the state with all messages admitted that nothing holds back."""
    policy, waiting, taken = state.policy, state.waiting, 0
    while taken < len(waiting) and policy is not None and state.episode is None and not state.agenda.due:
        first = waiting[taken]
        match first:
            case BudgetWish():
                state = replace(
                    state,
                    terms=replace(state.terms, budget=first.budget),
                    agenda=replace(state.agenda, quiet_tokens=0),
                )
                boundary = bool(state.live)
            case Counted():
                state = _counted(state, first)
                boundary = False
            case Arrived():
                if oversized(first.entry, policy, state.usable_tokens):
                    break
                state = fired(_arrived(state, first), first.entry)
                boundary = first.entry.boundary
            case _:
                assert_never(first)
        taken += 1
        if boundary and state.episode is None and begins(state):
            state = begun(state, "trigger", boundary=state.live[-1].number)
    # taken off at once: one by one, a backlog would be copied as often as it has messages
    return replace(state, waiting=waiting[taken:]) if taken else state


def _arrived(state: State, arrived: Arrived) -> State:
    entry, counters, policy = arrived.entry, state.counters, state.policy
    if policy is not None and policy.digest.secrets == "show":
        entry = replace(entry, open=True)
    return replace(
        state,
        shown=replace(
            state.shown,
            live=(*with_ended(state.live, arrived.ended, awaited=arrived.awaited), entry),
            live_tokens=state.live_tokens + entry.tokens + len(arrived.ended) * ABORTED_TOKENS,
        ),
        counters=replace(
            counters,
            now_ms=max(counters.now_ms, arrived.at_ms),
            user_messages=counters.user_messages + (entry.role == "user"),
            replies=counters.replies + (entry.role == "assistant" and not entry.joins),
            calls=counters.calls + len(entry.call_ids),
        ),
    )


def _counted(state: State, counted: Counted) -> State:
    """Learn from a provider's count; one that refused a view starts an emergency, a bounded number of times."""
    policy = state.policy
    assert policy is not None
    known, apart = state.calibration, policy.budget.calibrate == "apart"
    beside = known.overhead if apart and counted.told > known.overhead else 0.0
    ratio = (counted.told - beside) / counted.ours if beside else counted.ratio
    told = min(RATIO_MAX, max(RATIO_MIN, ratio))
    if not counted.refused:
        ratio = (known.ratio + told) / 2 if known.ratio else told
        known = learned(known, counted) if apart else replace(known, ratio=ratio)
        return replace(state, calibration=known, counters=replace(state.counters, refusals=0))
    if not state.live:
        return state
    number, agenda = state.live[-1].number, state.agenda
    if state.counters.refusals >= policy.emergency.retries:
        due = (*agenda.due, Due(number=number, hook=OVERFLOW))
        return replace(state, agenda=replace(agenda, due=due))
    state = replace(
        state,
        calibration=replace(known, ratio=max(known.ratio, told), window=counted.window or known.window),
        counters=replace(state.counters, refusals=state.counters.refusals + 1),
        agenda=replace(agenda, quiet_tokens=0),
    )
    half, share = share_of(state.live_tokens, OVERFLOW_SHARE), policy.emergency.down_to
    down_to = min(half, target_tokens(state) if share is None else share_of(state.usable_tokens, share))
    return begun(state, "overflow", boundary=number, down_to=max(1, down_to))
