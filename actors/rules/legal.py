"""Legal: what any OpenAI-compatible provider would refuse in a list of messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import BadMessage
from protocol.messages import parse


def problems(view: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what is wrong with *view*, in order; empty if a provider would take it."""
    found: list[str] = []
    open_calls: set[str] = set()
    seen: set[str] = set()
    for index, message in enumerate(view):
        try:
            parsed = parse(message)
        except BadMessage as error:
            found.append(f"message {index}: {error}")
            continue
        if parsed.role == "tool":
            if parsed.result_of not in open_calls:
                found.append(f"message {index}: a result without its call")
            open_calls.discard(parsed.result_of or "")
            continue
        found += [f"message {index}: a call before it has no result" for _ in open_calls]
        open_calls = {call.id for call in parsed.calls}
        if len(open_calls) < len(parsed.calls) or open_calls & seen:
            found.append(f"message {index}: a call id stands twice")
        seen |= open_calls
    return found
