"""llm4s: its cases and defects by their numbers, those that are not ours with the reason, and its fixtures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from actors.squeeze.decide import Ask
from protocol.facts import CompactionRequested
from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, user
from tests.presets.cases import Cases

CASES = Cases(M=16, W=15, T=14, D=14, S=9, Q=6, R=11, C=6, E=6, P=6, L=18)

NOT_OURS: dict[str, str] = {
    "M10": "the words of their report; ours is a sum of the recorded facts (actors/audit/report.py)",
    "M11": "the words of their report, step by step; ours is a sum of the recorded facts (actors/audit/report.py)",
    "M13": "the configuration of their deprecated compressor of whole conversations",
    "T9": "the interface of their in-memory store; ours has a contract (tests/storage/test_artifact_contract.py)",
    "R4": "rewriting what the assistant said: ours stays byte for byte, or leaves, or is a digest",
    "R6": "marking repeated sentences of the assistant: as R4",
    "R9": "merging examples of the assistant: as R4; unused in their own pipeline",
    "R10": "removing phrases of the assistant: as R4; unused in their own pipeline",
    "C2": "an encoding is no setting of ours: it follows from the model",
    "E5": "a sweep of caps for rewriting what the assistant said: as R4",
    "P1": "tiers of their adaptive window: our share is one number, the economy gate decides by prices",
    "P2": "the least window of their tiers: as P1; a budget that leaves nothing is refused",
    "P3": "the price of their tiers: as P1",
    "P4": "the price of their tiers: as P1",
}


def quarters(text: str) -> int:
    """Count as their tests do: ceil(length / 4)."""
    return -(-len(text) // 4)


def wanted(window: int = 1_000_000, **sections: Any) -> Policy:
    """Return the preset with *window* as the budget that their caller gives."""
    return resolve([{"preset": "llm4s", "budget": {"window": window, "reserve": 0}}, sections])


def said_so_far(window: int, *said: dict[str, Any], **sections: Any) -> Talk:
    """Return a conversation in which nobody has acted: its view is cut as their last step would."""
    talk = Talk(wanted(window, **sections), count=quarters)
    talk.append(*said)
    return talk


def managed(budget: int, *said: dict[str, Any], answer: str | Callable[[Ask], str] = "", **sections: Any) -> Talk:
    """Return the conversation of *said* after the whole pipeline brought it to *budget* at once."""
    talk = Talk(wanted(**sections), count=quarters)
    talk.answer = answer
    talk.append(*said)
    talk.settle()
    talk.say(CompactionRequested(budget=budget))
    talk.settle()
    return talk


def chat(pairs: int, *, first: int = 1) -> list[dict[str, Any]]:
    """Return *pairs* exchanges of two messages, each of 18 tokens with its frame."""
    said = []
    for number in range(first, first + pairs):
        said.append(user(f"Question {number:2}: where is order ORD-{10_000 + number}?".ljust(56, ".")))
        said.append(assistant(f"Answer {number:2}: it is on its way to you now.".ljust(56, ".")))
    return said
