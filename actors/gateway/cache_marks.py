"""Cache marks: what an agent of Anthropic's marks for its provider's cache, taken off what is kept and put on a view.

They move with every request, so they are nobody's words; a request may have four of them, those of its instructions and
tools too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from protocol.errors import BadMessage
from protocol.formats.cache_marks import MARK_AS_SENT, MARKS_KEPT, MARKS_MAX, marks_of, with_mark, without_marks
from protocol.jsonbytes import decode, encode

from .bodies import Body


def marks_beside(body: Body) -> int:
    """Return how many marks a request has outside its messages, or a few more where a text has the word.

    One beside all its fields marks the last block that can have one.
    """
    fields = (field for name, field in body.fields.items() if name != body.api.field)
    written = sum(raw.count(MARK_AS_SENT) for raw in (*fields, *body.head, *body.tail))
    return written + (body.field("cache_control") is not None)


def marked(messages: Sequence[bytes], *, like: Sequence[bytes], elsewhere: int) -> list[bytes]:
    """Return a view's *messages* with a mark as those in *like* have; *elsewhere* are so many already.

    Nothing is marked where the agent marked nothing.
    """
    mark = next((found for raw in reversed(like) if MARK_AS_SENT in raw and (found := _last_mark(raw))), None)
    out = [encode(without_marks(decode(raw))) if MARK_AS_SENT in raw else raw for raw in messages]
    left = min(MARKS_KEPT, MARKS_MAX - elsewhere)
    for at in range(len(out) - 1, -1, -1):
        if mark is None or left <= 0:
            break
        message = decode(out[at])
        content = message.get("content")
        if message.get("role") == "user" and content and (other := with_mark(content, mark)) is not content:
            out[at] = encode({**message, "content": other})
            left -= 1
    return out


def _last_mark(raw: bytes) -> Mapping[str, Any] | None:
    """Return the last mark in a message, None for what is no message."""
    try:
        found = list(marks_of(decode(raw)))
    except (BadMessage, AttributeError):
        return None
    return found[-1] if found else None
