"""Our rules as a system for a turn-by-turn scorer: `append(messages)`, `view()`, `recover(view)`."""

from __future__ import annotations

import re
from typing import Any

from protocol.formats import messages
from protocol.policy import resolve
from tests.builders import Talk

POINTER = re.compile(r'read_artifact\("([^"]+)"')


class Jettison:
    """One conversation under the default policy and a budget in tokens; no LLM."""

    def __init__(self, budget: int) -> None:
        self._talk = Talk(resolve([{"budget": {"window": budget, "reserve": 0}}]))
        self._said: list[dict[str, Any]] = []

    def append(self, new: list[dict[str, Any]]) -> None:
        """Append OpenAI chat messages."""
        self._said += new
        self._talk.append(*new)
        self._talk.settle()

    def view(self) -> list[dict[str, Any]]:
        """Return the view for the next call."""
        return self._talk.shown()

    def recover(self, view: list[dict[str, Any]]) -> str:
        """Return what the pointers in *view* lead to, and nothing else."""
        text = "\n".join(part.text for message in view for part in messages.parse(message).parts)
        return "\n".join(self._behind(key) for key in dict.fromkeys(POINTER.findall(text)))

    def _behind(self, key: str) -> str:
        if not key.startswith("messages:"):
            return next(body.decode() for sha256, body in self._talk.bodies.items() if sha256.startswith(key))
        first, _, last = key.removeprefix("messages:").partition("-")
        found = self._said[int(first) - 1 : int(last or first)]
        return "\n".join(part.text for message in found for part in messages.parse(message).parts)
