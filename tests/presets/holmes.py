"""HolmesGPT: what the tests of its preset share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, result, user, words
from tests.presets.cases import Cases

CASES = Cases(H=38)

NOT_OURS: dict[str, str] = {}
"""Case to reason; every case of HolmesGPT has a counterpart here."""


def holmes(window: int = 128_000, **sections: Mapping[str, Any]) -> Policy:
    layer = {"preset": "holmes", "squeeze": {"model": "m"}, "budget": {"window": window, "reserve": window // 5}}
    return resolve([layer, sections])


def called(text: Any, wanted: Policy) -> Talk:
    """Return a conversation in which a tool has just returned *text*."""
    talk = Talk(wanted)
    talk.append(user("why?"), assistant(None, "c"), result("c", text))
    return talk


def lines(tokens: int) -> str:
    """Return about as many *tokens* in lines of ten."""
    return "\n".join([words(9)] * (tokens // 10))


def users(tokens: int) -> list[dict[str, Any]]:
    """Return messages of exactly *tokens* together, none so large that it is estimated."""
    full = max(0, tokens - 5_000) // 5_000
    return [*[user(words(4_996))] * full, user(words(tokens - full * 5_000 - 4))]
