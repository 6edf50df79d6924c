"""Flow: who acts next. The table is what is executed, and the diagram of `architecture.md` is drawn from it.

After every envelope the rows of `log` say whose turn it is. A compaction begins in the row of its cause, and the rows
of a stage say what follows it; a declined or failed stage hands on like a done one. The first row that holds decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from msgspec.structs import replace

from protocol.policy import share_of
from protocol.subjects import Actor

from .entry import MESSAGE_TOKENS
from .in_force import in_force
from .kept import all_kept, spares_kept
from .pressure import over_target, target_tokens
from .state import State
from .state_parts import REMINDER, Cause, Compacted, Due, Episode
from .view import unspilled

After = Literal["log"] | Cause | Actor
"""What has just happened: anything at all, a compaction's cause, or a stage of it that acted."""

Then = Literal["log", "stage", "ready"] | Actor
"""`log`: the compaction is over, look anew; `stage`: the one that the compaction waits for; `ready`: nobody."""


class FlowRow(NamedTuple):
    """One transition: after *after*, if *holds*, *then* acts. *when* says the condition to people."""

    after: After
    when: str
    holds: Callable[[State], bool]
    then: Then


def _always(state: State) -> bool:
    return True


def _unadopted(state: State) -> bool:
    return state.policy is None and bool(state.messages or state.terms.name or state.heard.unrecorded)


def _unrecorded(state: State) -> bool:
    return bool(state.heard.unrecorded or state.agenda.due)


def _oversized(state: State) -> bool:
    return bool(unspilled(state))


def _under_way(state: State) -> bool:
    return state.episode is not None


def _to_summarize(state: State) -> bool:
    assert state.policy is not None
    assert state.episode is not None
    if state.digest is None:
        return False
    told = state.digest.tells and state.policy.squeeze.prompt_version != "v1"
    if told and (_asks(state, "squeeze") or _asks(state, "select")):
        return state.episode.applied
    return _asks(state, "summarize") and bool(state.digest.pending)


def _may_shorten(state: State) -> bool:
    return _asks(state, "squeeze") and not _is_enough(state)


def _is_enough(state: State) -> bool:
    """Tell whether the view fits and the policy stops there; where a provider refused it, it does not."""
    assert state.policy is not None
    assert state.episode is not None
    cut, fits = state.policy.cut, state.live_tokens <= state.usable_tokens
    return spares_kept(cut) and cut.down_to == "usable" and fits and state.episode.cause != "overflow"


def _within_target(state: State) -> bool:
    return not over_target(state)


def _must_leave(state: State) -> bool:
    """Tell whether units must leave that no digest stands for.

    Not where the view fits, and digest did nothing or all that is left is to be kept.
    """
    assert state.policy is not None
    assert state.episode is not None
    if state.episode.cause == "overflow":
        return True
    fits = state.live_tokens <= state.usable_tokens
    if _is_enough(state) or (spares_kept(state.policy.cut) and fits and all_kept(state)):
        return False
    return state.episode.applied or state.live_tokens > state.usable_tokens or state.policy.digest.mode == "off"


def _asks(state: State, mode: str) -> bool:
    """Tell whether the policy has an LLM work so on the digest; after an overflow nobody waits for one."""
    assert state.policy is not None
    assert state.episode is not None
    return state.policy.squeeze.way == mode and state.digest is not None and state.episode.cause != "overflow"


FLOW: tuple[FlowRow, ...] = (
    FlowRow("log", "no policy is adopted yet", _unadopted, "spill"),
    FlowRow("log", "a repair, a hook or a reminder is to be recorded", _unrecorded, "spill"),
    FlowRow("log", "a part is over its cap", _oversized, "spill"),
    FlowRow("log", "a compaction is under way", _under_way, "stage"),
    FlowRow("log", "nothing is left to do", _always, "ready"),
    FlowRow("trigger", "the view is over the trigger", _always, "digest"),
    FlowRow("hook", "a hook asks for a compaction", _always, "digest"),
    FlowRow("overflow", "the provider refused a view", _always, "digest"),
    FlowRow("digest", "an LLM is to summarize what left", _to_summarize, "squeeze"),
    FlowRow("digest", "within the target", _within_target, "log"),
    FlowRow("digest", "over the target, and an LLM may shorten the digest", _may_shorten, "squeeze"),
    FlowRow("digest", "over the target, and units must leave", _must_leave, "cut"),
    FlowRow("digest", "over the target, but the view fits and the rest stays", _always, "log"),
    FlowRow("squeeze", "within the target", _within_target, "log"),
    FlowRow("squeeze", "over the target, and units must leave", _must_leave, "cut"),
    FlowRow("squeeze", "over the target, but the view fits and the rest stays", _always, "log"),
    FlowRow("cut", "whatever is left", _always, "log"),
)


def next_actor(state: State) -> Actor | None:
    """Return the next actor for *state*; None if it is ready."""
    then = deciding_row("log", state).then
    return _waits_for(state) if then == "stage" else _actor(then)


def begun(state: State, cause: Cause, *, boundary: int, down_to: int = 0, hook: str = "") -> State:
    """Return the state with a compaction under way."""
    stage = _actor(deciding_row(cause, state).then)
    assert stage is not None
    episode = Episode(boundary=boundary, stage=stage, cause=cause, down_to=down_to, before=state.live_tokens, hook=hook)
    return replace(state, agenda=replace(state.agenda, episode=episode))


def after_stage(state: State, stage: Actor, *, applied: bool) -> State:
    """Return the state with its compaction handed to the next stage, or closed."""
    if state.episode is None:
        return state
    episode = replace(state.episode, applied=state.episode.applied or applied)
    state = replace(state, agenda=replace(state.agenda, episode=episode))
    follower = _actor(deciding_row(stage, state).then)
    if follower is None:
        return _closed(state, episode)
    return replace(state, agenda=replace(state.agenda, episode=replace(episode, stage=follower)))


def deciding_row(after: After, state: State) -> FlowRow:
    """Return the row of the table that decides who acts on *state*."""
    ruled = in_force(state)
    return next(row for row in _ROWS[after] if row.holds(ruled))


def _by_after(rows: Iterable[FlowRow]) -> dict[After, tuple[FlowRow, ...]]:
    rows = tuple(rows)
    return {one.after: tuple(row for row in rows if row.after == one.after) for one in rows}


_ROWS = _by_after(FLOW)


def _actor(then: Then) -> Actor | None:
    match then:
        case "log" | "stage" | "ready":
            return None
        case _:
            return then


def _waits_for(state: State) -> Actor:
    assert state.episode is not None
    return state.episode.stage


def _closed(state: State, episode: Episode) -> State:
    """End a compaction: remember it, and when the next one may begin."""
    policy = state.policy
    assert policy is not None
    quiet = state.live_tokens + share_of(state.usable_tokens, policy.target.min_gain)
    quiet = quiet if state.live_tokens > target_tokens(state) else 0
    agenda = replace(state.agenda, episode=None, quiet_tokens=quiet)
    if not episode.applied:
        return replace(state, agenda=agenda)
    counters = state.counters
    compacted = Compacted(
        user_messages=counters.user_messages, at_ms=counters.now_ms, tokens=state.live_tokens, replies=counters.replies
    )
    # a reminder never costs what the compaction won
    won = episode.before - state.live_tokens
    most = share_of(state.usable_tokens, policy.reminder.cap) + MESSAGE_TOKENS
    if policy.reminder.mode != "off" and state.live and won > most:
        agenda = replace(agenda, due=(*agenda.due, Due(number=episode.boundary, hook=REMINDER)))
    return replace(state, agenda=agenda, counters=replace(state.counters, compacted=compacted))
