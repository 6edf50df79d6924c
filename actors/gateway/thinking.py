"""Thinking: what a model of Anthropic's thought holds only behind what its call saw, its list of tools too.

A view is served in view of that, by its conversation's log. What the log cannot know is decided here: an answer to a
request that went on as it came was made behind something else than the views before it.
"""

from __future__ import annotations

from typing import Any

from cachetools import LRUCache

from protocol.formats.anthropic import EMPTY, THINKING
from protocol.jsonbytes import decode, encode

THREADS_MAX = 16_384

_NAMED = tuple(b'"' + kind.encode() + b'"' for kind in THINKING)


def thinks(raw: bytes) -> bool:
    """Tell whether a message may hold thoughts."""
    return any(name in raw for name in _NAMED)


def thoughts_in(raw: bytes) -> list[Any]:
    """Return the thoughts of a message as JSON, each by its seal: two messages with the same words may have others."""
    content = decode(raw).get("content") if thinks(raw) else None
    blocks = content if isinstance(content, list) else []
    found = [block for block in blocks if isinstance(block, dict) and block.get("type") in THINKING]
    return [block.get("signature") or block.get("data") for block in found]


def without_thinking(message: dict[str, Any]) -> dict[str, Any]:
    """Return an assistant's *message* without its thoughts; any other as it is."""
    content = message.get("content")
    if message.get("role") != "assistant" or not isinstance(content, list):
        return message
    kept = [block for block in content if not (isinstance(block, dict) and block.get("type") in THINKING)]
    return {**message, "content": kept or [{"type": "text", "text": EMPTY}]}


def raw_without_thinking(raw: bytes) -> bytes:
    """Return the same of a message as JSON."""
    return encode(without_thinking(decode(raw))) if thinks(raw) else raw


class Threads:
    """What this process knows of conversations where their log cannot be asked; another process knows nothing of it."""

    def __init__(self) -> None:
        self._changed: LRUCache[bytes, bool] = LRUCache(THREADS_MAX)
        self._passed: LRUCache[bytes, bool] = LRUCache(THREADS_MAX)

    def managed(self, thread: bytes, *, changed: bool) -> None:
        """Say that a request was managed; *changed*: its provider was sent something else than came."""
        self._passed.pop(thread, None)
        if changed:
            self._changed[thread] = True

    def mark_changed(self, thread: bytes) -> None:
        """Say that its provider was sent something else than came, whoever did it."""
        self._changed[thread] = True

    def passed(self, thread: bytes) -> None:
        """Say that a request went on as it came."""
        self._passed[thread] = True

    def is_changed(self, thread: bytes) -> bool:
        """Tell whether thoughts of the conversation may be from behind something else than what its agent sends."""
        return thread in self._changed

    def was_passed(self, thread: bytes) -> bool:
        """Tell whether a request went on as it came: thoughts in it may be from behind something that no view has."""
        return thread in self._passed
