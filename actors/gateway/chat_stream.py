"""The stream of chat completions: chunks, each with a piece of a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.tools import READ_TOOL

from .sse import Event
from .streams import Json, rewritten


class ChatStream:
    """`Stream` of chat completions' chunks."""

    def __init__(self) -> None:
        self.turn: Json = {"role": "assistant", "content": None}
        self.whole = False
        self._calls: dict[int, Json] = {}
        self._first = True
        self._ident: Any = None

    @property
    def has_ours(self) -> bool:
        """See `Stream.has_ours`."""
        return any(call["function"]["name"] == READ_TOOL for call in self._calls.values())

    def lacks(self, data: Json) -> str:
        """See `Stream.lacks`: a chunk stands alone."""
        return ""

    def learn(self, data: Json) -> None:
        """See `Stream.learn`."""
        choice, delta = _choice_in(data)
        self._ident = self._ident or data.get("id")
        self.whole = self.whole or choice.get("finish_reason") in ("tool_calls", "stop")
        for key, value in delta.items():
            if key == "tool_calls":
                for one in value or ():
                    self._learn_call(one)
            elif isinstance(value, str) and key != "role":
                self.turn[key] = (self.turn.get(key) or "") + value
        if self._calls:
            self.turn["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]

    def holds(self, event: Event, data: Json) -> bool:
        """See `Stream.holds`."""
        choice, delta = _choice_in(data)
        return bool(event.is_done or delta.get("tool_calls") or choice.get("finish_reason"))

    def told(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told`."""
        choice, delta = _choice_in(data)
        if self._first:
            yield event.raw
        elif not data.get("choices"):
            yield self.renumbered(event, data)
        elif any(value for key, value in delta.items() if key != "role"):
            yield self._written(event, data, choice, {key: value for key, value in delta.items() if key != "role"})

    def told_last(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told_last`."""
        if not data.get("choices"):
            yield self.renumbered(event, data)
            return
        names = {index: call["function"]["name"] for index, call in self._calls.items()}
        theirs = [index for index in sorted(names) if names[index] != READ_TOOL]
        choice, delta = _choice_in(data)
        calls = delta.pop("tool_calls", None) or ()
        placed = [(self._place(one), one) for one in calls]
        kept = [{**one, "index": theirs.index(place)} for place, one in placed if place in theirs]
        if kept:
            delta["tool_calls"] = kept
        if choice.get("finish_reason") == "tool_calls" and not theirs:
            choice = {**choice, "finish_reason": "stop"}
        if delta or choice.get("finish_reason"):
            yield self._written(event, data, choice, delta)

    def renumbered(self, event: Event, data: Json) -> bytes:
        """See `Stream.renumbered`; who puts deltas together would have two roles, too."""
        out = {**data, "id": self._ident} if "id" in data else data
        choice, delta = _choice_in(data)
        if delta.pop("role", None) is not None:
            out = {**out, "choices": [{**choice, "delta": delta}, *data["choices"][1:]]}
        return event.raw if out == data else rewritten(event, out)

    def next_turn(self) -> None:
        """See `Stream.next_turn`."""
        self.turn, self.whole = {"role": "assistant", "content": None}, False
        self._calls, self._first = {}, False

    def _learn_call(self, one: Json) -> None:
        call = self._calls.setdefault(self._place(one), {"id": "", "type": "function", "function": {}})
        call["id"] = call["id"] or one.get("id") or ""
        said = one.get("function") or {}
        function = call["function"]
        function["name"] = (function.get("name") or "") + (said.get("name") or "")
        function["arguments"] = (function.get("arguments") or "") + (said.get("arguments") or "")

    def _place(self, one: Json) -> int:
        """Return the number of a call; some servers give none, and begin each call with its id."""
        if isinstance(index := one.get("index"), int):
            return index
        known = [place for place, call in self._calls.items() if call["id"] == one.get("id")]
        return known[0] if known else max(0, len(self._calls) - (not one.get("id")))

    def _written(self, event: Event, data: Json, choice: Json, delta: Json) -> bytes:
        return rewritten(event, {**data, "id": self._ident, "choices": [{**choice, "delta": delta}]})


def _choice_in(data: Json) -> tuple[Json, Json]:
    """Return a chunk's choice and a copy of its delta; each is empty where there is none."""
    choices = data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    choice = choice if isinstance(choice, dict) else {}
    delta = choice.get("delta")
    return choice, dict(delta) if isinstance(delta, dict) else {}
