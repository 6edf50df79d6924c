"""Admit: let waiting messages into the live view, and begin a compaction where the policy says so."""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from protocol.policy import share_of
from protocol.subjects import Actor

from .caps import oversized
from .entry import ABORTED_TOKENS, MESSAGE_TOKENS
from .hooks import fired
from .pressure import begins, over_target, target_tokens
from .state import State, with_ended
from .state_parts import OVERFLOW, REMINDER, Arrived, Asked, Compacted, Counted, Due, Episode

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
            case Asked():
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
            number = state.live[-1].number
            episode = Episode(boundary=number, stage="digest", before=state.live_tokens)
            state = replace(state, agenda=replace(state.agenda, episode=episode))
    # taken off at once: one by one, a backlog would be copied as often as it has messages
    return replace(state, waiting=waiting[taken:]) if taken else state


def after_stage(state: State, stage: Actor, *, applied: bool) -> State:
    """Return the state with the episode handed to the next stage, or closed."""
    assert state.policy is not None
    if state.episode is None:
        return state
    episode = replace(state.episode, applied=state.episode.applied or applied)
    mode = state.policy.squeeze.mode
    asks = stage == "digest" and state.digest is not None and episode.cause != "overflow"
    if asks and mode == "summarize" and state.digest and state.digest.pending:
        return _handed(state, episode, "squeeze")
    if stage == "cut" or not over_target(state):
        return _closed(state, episode)
    follower: Actor = "squeeze" if asks and mode == "squeeze" else "cut"
    if follower == "cut" and not _must_cut(state, episode):
        return _closed(state, episode)
    return _handed(state, episode, follower)


def _handed(state: State, episode: Episode, stage: Actor) -> State:
    return replace(state, agenda=replace(state.agenda, episode=replace(episode, stage=stage)))


def _must_cut(state: State, episode: Episode) -> bool:
    """Tell whether units must leave that no digest stands for: not where the view fits and digest did nothing."""
    assert state.policy is not None
    fits = state.live_tokens <= state.usable_tokens
    return episode.applied or not fits or episode.cause == "overflow" or state.policy.digest.mode == "off"


def _closed(state: State, episode: Episode) -> State:
    """End a compaction: remember it, and when the next one may begin."""
    policy = state.policy
    assert policy is not None
    quiet = state.live_tokens + share_of(state.usable_tokens, policy.target.min_gain)
    quiet = quiet if state.live_tokens > target_tokens(state) else 0
    agenda = replace(state.agenda, episode=None, quiet_tokens=quiet)
    if not episode.applied:
        return replace(state, agenda=agenda)
    compacted = Compacted(user_messages=state.tally.user_messages, at_ms=state.tally.now_ms, tokens=state.live_tokens)
    # a reminder never costs what the compaction won
    won = episode.before - state.live_tokens
    most = share_of(state.usable_tokens, policy.reminder.cap) + MESSAGE_TOKENS
    remind = policy.reminder.mode != "off" and state.live and won > most
    if remind:
        agenda = replace(agenda, due=(*agenda.due, Due(number=episode.boundary, hook=REMINDER)))
    return replace(state, agenda=agenda, tally=replace(state.tally, compacted=compacted))


def _arrived(state: State, arrived: Arrived) -> State:
    entry, tally = arrived.entry, state.tally
    return replace(
        state,
        shown=replace(
            state.shown,
            live=(*with_ended(state.live, arrived.ended), entry),
            live_tokens=state.live_tokens + entry.tokens + len(arrived.ended) * ABORTED_TOKENS,
        ),
        tally=replace(
            tally,
            now_ms=max(tally.now_ms, arrived.at_ms),
            user_messages=tally.user_messages + (entry.role == "user"),
            replies=tally.replies + (entry.role == "assistant" and not entry.joins),
            calls=tally.calls + len(entry.call_ids),
        ),
    )


def _counted(state: State, counted: Counted) -> State:
    """Learn from a provider's count; one that refused a view starts an emergency, a bounded number of times."""
    policy = state.policy
    assert policy is not None
    told, known = min(RATIO_MAX, max(RATIO_MIN, counted.ratio)), state.calibration
    if not counted.refused:
        ratio = (known.ratio + told) / 2 if known.ratio else told
        return replace(state, calibration=replace(known, ratio=ratio), tally=replace(state.tally, refusals=0))
    if not state.live:
        return state
    number, agenda = state.live[-1].number, state.agenda
    if state.tally.refusals >= policy.emergency.retries:
        due = (*agenda.due, Due(number=number, hook=OVERFLOW))
        return replace(state, agenda=replace(agenda, due=due))
    state = replace(
        state,
        calibration=replace(known, ratio=max(known.ratio, told), window=counted.window or known.window),
        tally=replace(state.tally, refusals=state.tally.refusals + 1),
    )
    down_to = min(target_tokens(state), share_of(state.live_tokens, OVERFLOW_SHARE))
    before = state.live_tokens
    episode = Episode(boundary=number, stage="digest", cause="overflow", down_to=max(1, down_to), before=before)
    return replace(state, agenda=replace(agenda, episode=episode, quiet_tokens=0))
