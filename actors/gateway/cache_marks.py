"""Cache marks: what an agent of Anthropic's marks for its provider's cache, taken off what is kept and put on a view.

They move with every request, so they are nobody's words; a request may have four of them, those of its instructions and
tools too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from protocol.errors import BadMessage
from protocol.jsonbytes import decode, encode

MARK = b'"cache_control"'

MARKS_MAX = 4
"""Of one request."""

MARKED_MAX = 2
"""Of the messages: the newest one, for the next request, and one before it, where the last request's was."""


def unmarked(message: dict[str, Any]) -> dict[str, Any]:
    """Return *message* without marks; tools' arguments stay as they are, whatever is in them."""
    out = {key: value for key, value in message.items() if key != "cache_control"}
    if isinstance(out.get("content"), list):
        out["content"] = [unmarked(block) if isinstance(block, dict) else block for block in out["content"]]
    return out


def marks_in(raw: bytes) -> int:
    """Return how many marks there are in JSON, or a few more where a text has the word."""
    return raw.count(MARK)


def marked(messages: Sequence[bytes], *, like: Sequence[bytes], elsewhere: int) -> list[bytes]:
    """Return a view's *messages* with a mark as those in *like* have; *elsewhere* are so many already.

    Nothing is marked where the agent marked nothing.
    """
    mark = next((found for raw in reversed(like) if MARK in raw and (found := _mark_in(raw))), None)
    out = [encode(unmarked(decode(raw))) if MARK in raw else raw for raw in messages]
    left = min(MARKED_MAX, MARKS_MAX - elsewhere)
    for at in range(len(out) - 1, -1, -1):
        if mark is None or left <= 0:
            break
        if other := _with_mark(decode(out[at]), mark):
            out[at] = encode(other)
            left -= 1
    return out


def _mark_in(raw: bytes) -> Any:
    """Return the last mark on a block of a message."""
    try:
        content = decode(raw).get("content")
    except BadMessage:
        return None
    blocks = content if isinstance(content, list) else []
    return next(
        (one["cache_control"] for one in reversed(blocks) if isinstance(one, dict) and "cache_control" in one), None
    )


def _with_mark(message: dict[str, Any], mark: Any) -> dict[str, Any] | None:
    """Return a user's *message* with *mark* at its end; None for another's, or one that ends with what takes none."""
    content = message.get("content")
    if message.get("role") != "user" or not content:
        return None
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    if blocks[-1].get("type") not in ("text", "image", "document", "tool_result"):
        return None
    return {**message, "content": [*blocks[:-1], {**blocks[-1], "cache_control": mark}]}
