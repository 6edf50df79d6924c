"""The stream of OpenAI's Responses: items with numbers, in events that are numbered too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .dialects import is_our_item
from .sse import Event
from .streams import Json, rewritten

_LAST = ("response.completed", "response.incomplete", "response.failed")
_OPENING = ("response.created", "response.in_progress", "response.queued")


class ResponsesStream:
    """`Stream` of the events of Responses: items are numbered, and so are events."""

    def __init__(self) -> None:
        self.turn: Json = {"output": []}
        self.whole = False
        self._first = True
        self._ours: set[int] = set()
        self._places: dict[int, int] = {}
        self._before: list[Json] = []
        self._shown: list[Json] = []
        """The items that the agent saw: in the turns before this one, and in all."""
        self._count = 0
        self._number = 0
        self._ident: Any = None

    @property
    def has_ours(self) -> bool:
        """See `Stream.has_ours`."""
        return bool(self._ours)

    def lacks(self, data: Json) -> str:
        """See `Stream.lacks`: a call that was not held back when it began was shown already."""
        kind = data.get("type")
        if kind == "response.output_item.done" and is_our_item(data["item"]) != (data["output_index"] in self._ours):
            return "an item ends as another than it began"
        if kind == "response.completed" and sum(map(is_our_item, _output(data))) != len(self._ours):
            return "its end has other calls than were told"
        return ""

    def learn(self, data: Json) -> None:
        """See `Stream.learn`."""
        kind = data.get("type")
        if kind in _LAST or kind in _OPENING:
            self._ident = self._ident or data["response"].get("id")
        if kind == "response.completed":
            self.turn, self.whole = {"output": _output(data)}, True
        if kind == "response.output_item.added" and is_our_item(data["item"]):
            self._ours.add(data["output_index"])

    def holds(self, event: Event, data: Json) -> bool:
        """See `Stream.holds`."""
        return data.get("type") in _LAST or data.get("output_index") in self._ours

    def told(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told`."""
        if self._first or data.get("type") not in _OPENING:
            self._show(data)
            yield self.renumbered(event, data)

    def told_last(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told_last`."""
        if data.get("type") in _LAST:
            response = {**data["response"], "id": self._ident, "output": self._shown}
            yield rewritten(event, self._numbered({**data, "response": response}))
        elif data.get("output_index") not in self._ours:
            self._show(data)
            yield self.renumbered(event, data)

    def renumbered(self, event: Event, data: Json) -> bytes:
        """See `Stream.renumbered`; an end names all that was said, as its agent goes on from that."""
        out, response = self._numbered(data), data.get("response")
        if not self._first and isinstance(response, dict):
            response = {**response, "id": self._ident} if "id" in response else response
            if data.get("type") in _LAST and isinstance(response.get("output"), list):
                response = {**response, "output": [*self._before, *response["output"]]}
            out = {**out, "response": response}
        return event.raw if out == data else rewritten(event, out)

    def next_turn(self) -> None:
        """See `Stream.next_turn`."""
        self.turn, self.whole = {"output": []}, False
        self._ours, self._places, self._first = set(), {}, False
        self._before = list(self._shown)

    def _show(self, data: Json) -> None:
        if data.get("type") == "response.output_item.done":
            self._shown.append(data["item"])

    def _numbered(self, data: Json) -> Json:
        """Return an event with its number, and its item's, among all that the agent sees."""
        out, place, number = dict(data), data.get("output_index"), data.get("sequence_number")
        if isinstance(place, int) and not isinstance(place, bool):
            if place not in self._places:
                # as its provider numbers the items of the first turn, while none of them is left out
                self._places[place] = place if self._first and not self._ours else self._count
                self._count = max(self._count, self._places[place] + 1)
            out["output_index"] = self._places[place]
        if isinstance(number, int) and not isinstance(number, bool):
            self._number = number if self._first and not self._ours else self._number
            out["sequence_number"] = self._number
            self._number += 1
        return out


def _output(data: Json) -> list[Json]:
    output = data["response"].get("output")
    return output if isinstance(output, list) else []
