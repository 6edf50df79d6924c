"""Pressure: when compaction begins, how far it goes, and what is not worth doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state import State


def trigger_tokens(state: State) -> int:
    """Return the tokens above which compaction begins (strictly above)."""
    assert state.policy is not None
    return int(state.usable_tokens * state.policy.trigger.ratio)


def target_tokens(state: State) -> int:
    """Return the tokens that compaction goes down to; reaching them exactly is enough."""
    assert state.policy is not None
    return int(state.usable_tokens * state.policy.target.low_water)


def gain_tokens_min(state: State) -> int:
    """Return the tokens that a stage must win to be worth a new prompt cache."""
    assert state.policy is not None
    return int(state.usable_tokens * state.policy.target.min_gain)


def over_trigger(state: State) -> bool:
    """Tell whether compaction must begin: over the trigger, and over what it could not help before."""
    return state.live_tokens > max(trigger_tokens(state), state.quiet_tokens)


def over_target(state: State) -> bool:
    """Tell whether the next stage still has something to do."""
    return state.live_tokens > target_tokens(state)


def pressure(state: State) -> float:
    """Return tokens in use / tokens usable."""
    return state.live_tokens / max(1, state.usable_tokens)
