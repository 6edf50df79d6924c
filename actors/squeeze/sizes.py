"""Sizes: how much is asked of a model, how long it may take, and what is not worth its work."""

from __future__ import annotations

from actors.core.pressure import gain_tokens_min
from actors.core.state import State
from actors.core.state_parts import Digest
from protocol.policy import share_of

ANSWER_TOKENS_MIN = 16

DEADLINE_SHARE_PRESSED = 0.25
"""Of the policy's deadline, while the view is over its budget and served cut down."""

DEADLINE_TOKENS = 8_000
"""Tokens to read that the policy's deadline is meant for; more of an account take longer, in proportion."""


def window_tokens(state: State) -> int:
    """Return the tokens of the window that a request and its answer must fit."""
    assert state.policy is not None
    return state.policy.squeeze.window or state.policy.budget.window


def counted_window(state: State) -> int:
    """Return the window of the model that squeezes, in our tokens where its provider told how it counts the agent's."""
    assert state.policy is not None
    own = state.policy.squeeze.model in ("", state.terms.model)
    return int(window_tokens(state) / max(1.0, state.calibration.ratio if own else 1.0))


def answer_tokens_max(state: State) -> int:
    """Return the largest answer that is asked for."""
    assert state.policy is not None
    wanted = state.policy.squeeze
    most = share_of(state.usable_tokens, wanted.cap)
    if wanted.cap_tokens is not None:
        most = min(most, wanted.cap_tokens)
    return max(ANSWER_TOKENS_MIN, min(most, window_tokens(state) // 4))


def least_gain(state: State, digest: Digest) -> int:
    """Return the tokens that an answer must win."""
    return max(1, min(gain_tokens_min(state), digest.tokens // 10))


def deadline_seconds(state: State) -> float:
    """Return how long the answers may take together: shorter while a full view is held up by them."""
    assert state.policy is not None
    share = 1.0 if fits(state) else DEADLINE_SHARE_PRESSED
    if state.digest is not None and state.digest.tells:
        share = max(1.0, (state.digest.tokens + sum(one.tokens for one in state.digest.pending)) / DEADLINE_TOKENS)
    return state.policy.squeeze.deadline_seconds * share


def fits(state: State) -> bool:
    """Tell whether the view is within its budget as it is, so that nothing is urgent."""
    return state.live_tokens <= state.usable_tokens
