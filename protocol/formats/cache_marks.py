"""Cache marks: where a provider is to keep what it has read (`cache_control`). They are no part of what was said.

An agent's marks move with each request. They are taken off before a message is stored, so that it is the same one
wherever they stood, and a view gets new ones: on its instructions, and on its newest messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..jsonbytes import decode, json_copy

MARK = "cache_control"
MARK_AS_SENT = b'"cache_control"'
"""In whatever has a mark, and hardly in anything else."""

_MARKABLE = frozenset(("text", "image", "image_url", "document", "file", "tool_result"))

MARKS_MAX = 4
"""Blocks with `cache_control` in one request to Anthropic."""

MARKS_KEPT = 2
"""Of these for the messages: one for the system and one for the tools are left."""


class Marks(msgspec.Struct, frozen=True, kw_only=True):
    """The newest marks that an agent set, each as it wrote it: on instructions, and on other messages."""

    system: Mapping[str, Any] | None = None
    messages: Mapping[str, Any] | None = None

    def after(self, message: Mapping[str, Any]) -> Marks:
        """Return the marks after one more message was said."""
        found = next(marks_of(message), None)
        if found is None:
            return self
        key = "system" if message.get("role") in ("system", "developer") else "messages"
        return msgspec.structs.replace(self, **{key: found})


NO_MARKS = Marks()


def marks_in(raw: bytes) -> int:
    """Return the number of cache marks in a block or a message, and in the blocks inside it."""
    return sum(1 for _ in marks_of(decode(raw))) if MARK_AS_SENT in raw else 0


def without_marks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message or a block without its cache marks; what a tool is called with and what it says stays."""
    if next(marks_of(message), None) is None:
        return dict(message)
    copy: dict[str, Any] = json_copy(dict(message))
    for block in _blocks(copy):
        block.pop(MARK, None)
    return copy


def marked(
    system: str | list[dict[str, Any]], view: Sequence[dict[str, Any]], marks: Marks
) -> tuple[str | list[dict[str, Any]], list[dict[str, Any]]]:
    """Return instructions and messages with *marks* placed anew, at most three.

    One stands at the end of the instructions; those of the messages stand on the newest, and on the one before it that
    is not the assistant's: where the request before ended.
    """
    if isinstance(system, list):
        system = [without_marks(block) for block in system]
    out = [without_marks(message) for message in view]
    if marks.system is not None and system:
        system = with_mark(system, marks.system)
    if marks.messages is None:
        return system, out
    ends = [at for at, message in enumerate(out) if message.get("role") in ("user", "tool")]
    for at in ends[: -MARKS_KEPT - 1 : -1]:
        if content := out[at].get("content"):
            out[at] = {**out[at], "content": with_mark(content, marks.messages)}
    return system, out


def with_mark(content: str | list[dict[str, Any]], mark: Mapping[str, Any]) -> Any:
    """Return *content* with *mark* on the last of its blocks that can have one; itself where none can."""
    blocks: list[dict[str, Any]] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    for at in range(len(blocks) - 1, -1, -1):
        if blocks[at].get("type") in _MARKABLE and blocks[at].get("text", "x").strip():
            blocks[at] = {**blocks[at], MARK: dict(mark)}
            return blocks
    return content


def marks_of(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the cache marks of a message or a block, and of the blocks inside it, in order."""
    for block in _blocks(message):
        mark = block.get(MARK)
        if MARK in block:
            yield mark if isinstance(mark, dict) else {"type": "ephemeral"}


def _blocks(message: Any) -> Iterator[Any]:
    """Yield a message or a block, the blocks of its content, and theirs."""
    yield message
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            yield from _blocks(block)
