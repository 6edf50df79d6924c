"""The model of every run: it follows a script, sees only views, and keeps each of them. No framework is named here."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

POINTER = re.compile(r'read_artifact\("([^"]+)"')
TURN = re.compile(r"\bturn (\d+)\b")
READS = (22, 43)
"""Turns whose model reads back what a pointer names; the log before it is a large one."""
OVERFLOWS = (20, 52)
"""Turns whose first call the provider refuses; the second one streams."""
REFUSAL = "This model's maximum context length is 5000 tokens. However, your messages resulted in 6500 tokens."

HELPED = 10
"""The turn in which a tool asks an agent of its own."""
LARGE = range(7, 61, 7)
"""Services whose log is larger than the window."""
LOG_LINES = {"small": 40, "large": 1500}


class TooLong(Exception):
    """What a provider says of a request that is too long."""


def asked(turn: int) -> str:
    """Return what the user says in *turn*."""
    return f"In turn {turn}: what does the log of service {turn} say?"


def log_of(service: str) -> str:
    """Return what the tool of all runs answers."""
    size = "large" if int(service.partition("-")[0]) in LARGE else "small"
    return "\n".join(
        f"service {service} line {line}: request {line * 7919 + int(service.partition('-')[0])} took {line % 97} ms"
        for line in range(LOG_LINES[size])
    )


@dataclass
class Script:
    """Answers a view by the newest thing in it. Views are OpenAI chat messages, as the framework itself writes them."""

    views: list[list[Json]] = field(default_factory=list)
    refused: dict[int, int] = field(default_factory=dict)
    """Turn -> characters of the view that was refused."""

    def answer(self, view: list[Json]) -> Json:
        """Return `content` and `calls` (id, name, arguments). Raises `TooLong`."""
        turn, answered = _newest(view)
        chars = len(json.dumps(view))
        if turn in OVERFLOWS and not answered and turn not in self.refused:
            self.refused[turn] = chars
            raise TooLong(REFUSAL)
        self.views.append(view)
        if turn in OVERFLOWS and not answered:
            assert chars < self.refused[turn], "the view after a refusal is no shorter one"
        return self._said(turn, answered, view)

    def _said(self, turn: int, answered: str, view: list[Json]) -> Json:
        if answered:
            text = str(next(one["content"] for one in reversed(view) if one["role"] == "tool"))
            return {"content": f"answer {turn} after {answered}: {text[:80]}", "calls": []}
        if turn in READS:
            keys = POINTER.findall(json.dumps(view).replace('\\"', '"'))
            # of an artifact, if its pointer is still there, else of messages that left the view
            key = sorted(keys, key=lambda one: one.startswith("messages:"))[0]
            return called("", f"call-{turn}-read", "read_artifact", key=key, lines="1-3")
        if turn == HELPED:
            return called("I ask.", f"call-{turn}-help", "ask_helper", about=str(turn))
        services = [f"{turn}-{part}" for part in range(3)] if turn % 5 == 3 else [f"{turn}"]
        calls = [{"id": f"call-{one}", "name": "log_of", "args": {"service": one}} for one in services]
        return {"content": f"I look at {len(calls)}.", "calls": calls}


def called(said: str, ident: str, name: str, **arguments: str) -> Json:
    """Return an answer that calls one tool."""
    return {"content": said, "calls": [{"id": ident, "name": name, "args": arguments}]}


def _newest(view: list[Json]) -> tuple[int, str]:
    """Return the turn that a view ends in, and the id of the call that was answered last in it."""
    for message in reversed(view):
        if message["role"] == "tool":
            ident = str(message["tool_call_id"])
            return int(ident.split("-")[1]), ident
        if message["role"] == "user" and (found := TURN.findall(json.dumps(message["content"]))):
            return int(found[-1]), ""
    raise AssertionError("the view has no question")
