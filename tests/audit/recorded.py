"""Logs for the tests of the audit: the recorded sample, served before each turn, as agents do."""

from __future__ import annotations

from functools import cache

from actors.core.sizes import sizes_of
from protocol.facts import ContextServed
from protocol.policy import Policy
from tests.builders import Talk, policy, sample


@cache
def recorded(window: int = 8000) -> Talk:
    """Return the sample in a window of *window* tokens; nobody may change it."""
    talk = Talk(policy(window))
    for message in sample():
        if message["role"] == "assistant":
            serve(talk)
        talk.play(message)
    serve(talk)
    return talk


def small(**sections: dict[str, object]) -> Policy:
    """Return a policy under which a few short messages are already too many."""
    wanted: dict[str, dict[str, object]] = {"target": {"low_water": 0.4, "min_gain": 0.0}, "digest": {"keep_blocks": 1}}
    return policy(1000, **{**wanted, **sections})


def serve(talk: Talk, budget: int | None = None, *, view_hash: str = "", unsent: tuple[int, ...] = ()) -> int:
    """Serve a context as the service does, under another hash if one is given; return the version."""
    asked, budget = budget or 0, budget or talk.state.usable_tokens
    seen = talk.view(budget)
    fact = ContextServed(
        upto=seen.upto,
        budget=budget,
        profile="openai-chat",
        view_hash=view_hash or seen.hash,
        tokens=seen.tokens,
        level=seen.level,
        asked=asked,
        unsent=unsent,
        sizes=sizes_of(talk.state),
    )
    talk.land(talk.sealed((fact,)))
    return talk.state.version
