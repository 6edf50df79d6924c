"""DocsGPT: what the tests of its preset share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, result, user, words
from tests.presets.cases import Cases

CASES = Cases(G=40, X=12)

NOT_OURS = {
    "G8": "a compaction takes no index from a caller: its boundary is a message of the log",
    "G13": "there is no compaction without a log",
    "G17": "a conversation without messages is an empty list, there is no null",
    "G35": "there is one path: the log has the conversation, in the middle of a run too",
    "G38": "a view is rendered from the state; there is no second conversation to be rebuilt",
}
"""Case to reason why it has no counterpart."""


def docsgpt(window: int = 128_000, **sections: Mapping[str, Any]) -> Policy:
    layer = {"preset": "docsgpt", "budget": {"window": window}, "squeeze": {"model": "m", "window": 100_000}}
    return resolve([layer, sections])


def lines(tokens: int) -> str:
    """Return about as many *tokens* in lines of ten."""
    return "\n".join([words(9)] * (tokens // 10))


def users(tokens: int) -> list[dict[str, Any]]:
    """Return messages of exactly *tokens* together, none so large that it is spilled or estimated."""
    full = max(0, tokens - 5_000) // 5_000
    return [*[user(words(4_996))] * full, user(words(tokens - full * 5_000 - 4))]


def turn(number: int, *, tokens: int = 300) -> tuple[dict[str, Any], ...]:
    """Return one of DocsGPT's turns: a question, a call with its result, and the answer."""
    call = assistant(None, f"c{number}", arguments=json.dumps({"path": f"/docs/page_{number}.md"}))
    return (
        user(f"Question {number}?"),
        call,
        result(f"c{number}", f"REF-{1000 + number} {lines(tokens)}"),
        assistant(f"Answer {number} stands there."),
    )


def facts_of(talk: Talk, kind: type) -> list[Any]:
    return [fact for fact in talk.facts if isinstance(fact, kind)]
