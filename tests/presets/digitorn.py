"""Digitorn: what the tests of its two presets share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.facts import ContextServed
from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, user, words
from tests.presets.cases import Cases

CASES = Cases(K=31, Y=14)

NOT_OURS: dict[str, str] = {
    "K15": "a field of their result object; what did nothing is a fact under the name of its stage here",
    "K23": "their facts are a section of the summary's text; ours are items beside it, so none is ever stripped",
    "Y11": "advice in their tuning table, and no behaviour",
}


def digitorn(window: int = 4000, *, preset: str = "digitorn-truncate", **sections: Any) -> Policy:
    """Return the preset with *window* tokens usable, and a model for its summaries."""
    base = {"preset": preset, "budget": {"window": window, "reserve": 0}, "squeeze": {"model": "brain"}}
    return resolve([base, sections])


def said_at(talk: Talk, seconds: float, *new: Mapping[str, Any]) -> None:
    """Say each of *new* at a time of the agent's clock, and let the actors act."""
    talk.play(*new, at_ms=int(seconds * 1000))


def turn(number: int, tokens: int = 90) -> tuple[dict[str, Any], dict[str, Any]]:
    return user(f"MSG-{number} {words(tokens)}"), assistant(f"Looked at {number}. {words(tokens)}")


TALK = [message for number in range(1, 16) for message in turn(number)]


def served(talk: Talk) -> str:
    """Hand out the view, and return its hash."""
    seen = talk.view()
    fact = ContextServed(
        upto=seen.upto,
        budget=talk.state.usable_tokens,
        profile=seen.profile,
        view_hash=seen.hash,
        tokens=seen.tokens,
        level=seen.level,
    )
    talk.land(talk.sealed((fact,)))
    return seen.hash
