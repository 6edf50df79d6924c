"""The stream of Anthropic's Messages: blocks with numbers, each begun, said piece by piece, and ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from protocol.errors import BadMessage
from protocol.jsonbytes import decode_value
from protocol.tools import READ_TOOL

from .sse import Event
from .streams import Json, rewritten

_DELTAS = {
    "text_delta": ("text",),
    "citations_delta": ("text",),
    "thinking_delta": ("thinking",),
    "signature_delta": ("thinking",),
    "input_json_delta": ("tool_use", "server_tool_use", "mcp_tool_use"),
}
"""The kinds of blocks that each kind of Anthropic's deltas is for; of one that is not named we know nothing."""


class MessagesStream:
    """`Stream` of Anthropic's events."""

    def __init__(self) -> None:
        self.turn: Json = {"role": "assistant", "content": []}
        self.whole = False
        self._parts: dict[int, list[str]] = {}
        self._open: set[int] = set()
        self._first = True
        self._places: dict[int, int] = {}
        """Of the blocks of the turn that is heard, in what the agent sees."""
        self._shown = 0

    @property
    def has_ours(self) -> bool:
        """See `Stream.has_ours`."""
        return READ_TOOL in self._called

    @property
    def _called(self) -> list[Any]:
        return [block.get("name") for block in self.turn["content"] if block["type"] == "tool_use"]

    def lacks(self, data: Json) -> str:
        """See `Stream.lacks`: blocks begin in order, and have to be open for what is said in them."""
        kind, index, content = data.get("type"), data.get("index"), self.turn["content"]
        if kind == "content_block_start" and index != len(content):
            return f"content block {index} begins in the place of {len(content)}"
        if kind in ("content_block_delta", "content_block_stop") and index not in self._open:
            return f"content block {index} is not open"
        if kind != "content_block_start" and index is not None and index >= len(content):
            return f"content block {index} is not there"
        if kind == "content_block_delta" and not _fits(data["delta"], content[index]):
            return f"content block {index} is of another kind"
        return "a content block has no end" if kind in ("message_delta", "message_stop") and self._open else ""

    def learn(self, data: Json) -> None:
        """See `Stream.learn`."""
        kind, content = data.get("type"), self.turn["content"]
        if kind == "content_block_start":
            self._open.add(data["index"])
            content.append(dict(data["content_block"]))
        elif kind == "content_block_delta":
            self._learn(content[data["index"]], data["delta"], data["index"])
        elif kind == "content_block_stop":
            self._open.remove(data["index"])
            self._learn_input(content[data["index"]], self._parts.get(data["index"]))
        elif kind == "message_delta":
            self.whole = data["delta"].get("stop_reason") in ("tool_use", "end_turn")

    def holds(self, event: Event, data: Json) -> bool:
        """See `Stream.holds`."""
        block = data.get("content_block") or {}
        return data.get("type") in ("message_delta", "message_stop") or block.get("type") == "tool_use"

    def told(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told`."""
        if self._first or data.get("type") != "message_start":
            yield self.renumbered(event, data)

    def told_last(self, event: Event, data: Json) -> Iterator[bytes]:
        """See `Stream.told_last`."""
        index, delta = data.get("index"), data.get("delta") or {}
        if index is not None:
            if self.turn["content"][index].get("name") != READ_TOOL:
                yield self.renumbered(event, data)
        elif delta.get("stop_reason") == "tool_use" and all(name == READ_TOOL for name in self._called):
            yield rewritten(event, {**data, "delta": {**delta, "stop_reason": "end_turn"}})
        else:
            yield event.raw

    def renumbered(self, event: Event, data: Json) -> bytes:
        """See `Stream.renumbered`: a block has a number among all that the agent sees."""
        index = data.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            return event.raw
        if index not in self._places:
            self._places[index] = self._shown
            self._shown += 1
        place = self._places[index]
        return event.raw if place == index else rewritten(event, {**data, "index": place})

    def next_turn(self) -> None:
        """See `Stream.next_turn`."""
        self.turn, self.whole = {"role": "assistant", "content": []}, False
        self._parts, self._open, self._places, self._first = {}, set(), {}, False

    def _learn(self, block: Json, delta: Json, index: int) -> None:
        if "partial_json" in delta:
            self._parts.setdefault(index, []).append(delta["partial_json"])
        elif delta["type"] == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        else:
            for key, value in delta.items():
                if key != "type" and isinstance(value, str):
                    block[key] = (block.get(key) or "") + value

    def _learn_input(self, block: Json, parts: list[str] | None) -> None:
        """Take in the arguments of a call, written in *parts*; a model may write what is no object."""
        if parts is None:
            return
        text = "".join(parts)
        try:
            given = decode_value(text.encode("utf-8", "surrogatepass") or b"{}")
        except BadMessage:
            given = None
        block["input"] = given if isinstance(given, dict) else {"arguments": text}


def _fits(delta: Json, block: Json) -> bool:
    """Tell whether *delta* can be said in *block*: what has words gets more of them."""
    words = (key for key, value in delta.items() if key != "type" and isinstance(value, str))
    kinds = _DELTAS.get(delta["type"], (block["type"],))
    return block["type"] in kinds and all(isinstance(block.get(key), str | None) for key in words)
