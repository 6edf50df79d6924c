"""Kept request: one whose messages are in the log, and what its view may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.core.entry import ESTIMATE_BYTES_PER_TOKEN
from protocol.conversation import Conversation
from protocol.foreseen import Foreseen
from protocol.ids import Token
from protocol.policy import Policy

from .bodies import Body
from .callers import Caller
from .identity import Head

PAYS_SHARE = 0.25
"""Of the usable tokens: a conversation that has less is sent as it came, and nobody is asked for a view of it."""

BYTES_PER_TOKEN = 4
"""Most often: for what is told to people, and for whether a view pays. What has to fit is reckoned by
`ESTIMATE_BYTES_PER_TOKEN`: rather too many tokens than too few."""

ROUND_TOKENS = 1024


@dataclass(frozen=True, kw_only=True)
class KeptRequest:
    """A request whose messages are all in the log, or that is beside it; and its conversation."""

    head: Head
    caller: Caller
    place: Token
    talk: Conversation
    hashes: Sequence[bytes]
    beside: int
    """Messages at the end of the request that are not in the log, and are sent as they came."""
    policy: Policy
    outside: int
    alone: bool
    """It was this process that spoke last in its log."""
    foreseen: Foreseen | None = None
    """The view's question, where it went out together with what was appended."""


def pays(kept: KeptRequest, body: Body, *, changed: bool) -> bool:
    """Tell whether a view is asked for: once one was sent that was *changed*, always, so that it begins as before."""
    size = sum(map(len, body.messages)) / BYTES_PER_TOKEN
    return body.earlier is not None or changed or size > PAYS_SHARE * kept.policy.usable_tokens


def budget_of(kept: KeptRequest, body: Body, *, counts: bool) -> int:
    """Return the tokens of a view for this call, 0 for the policy's own: less where its answer or tools need more."""
    policy = kept.policy.budget
    answer = min(body.answer_tokens, policy.window // 2) - policy.reserve
    given = () if counts else body.messages[len(body.messages) - kept.beside :]
    beside = sum(map(len, given)) // ESTIMATE_BYTES_PER_TOKEN
    more = max(0, answer) + max(0, kept.outside - kept.head.outside) + beside
    if not more:
        return 0
    # in steps, so that a budget is the same from call to call
    return max(1, kept.policy.usable_tokens - -(-more // ROUND_TOKENS) * ROUND_TOKENS)
