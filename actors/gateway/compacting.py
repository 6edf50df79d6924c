"""Compacting: a caller of Responses asks for its history to be made shorter, and gets one item that stands for it.

The history is compacted in the log at once. What the caller gets says, encrypted, where it stands there.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from starlette.types import Send

from protocol.ids import fresh_id
from protocol.jsonbytes import decode, encode

from .answers import TRIGGER
from .bodies import Body
from .headers import Header
from .relay import answered, said, started

PATH = "/v1/responses/compact"

Json = dict[str, Any]


def is_asked(path: str, body: Body) -> bool:
    """Tell whether a compaction is what a request asks for: by its route, or by its last item."""
    return path == PATH or (body.api.name == "responses" and any(TRIGGER in raw for raw in body.messages[-1:]))


def without_trigger(body: Body) -> tuple[bytes, ...]:
    """Return the messages of a request that asks for a compaction."""
    return body.messages[:-1] if any(TRIGGER in raw for raw in body.messages[-1:]) else body.messages


async def told(
    send: Send, path: str, body: Body, item: Json, *, tokens: tuple[int, int], headers: list[Header]
) -> None:
    """Answer with *item*, in the form that was asked for; *tokens* of the history and of what it is now."""
    usage: Json = {
        "input_tokens": tokens[0],
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens[1],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(tokens),
    }
    head: Json = {"id": f"resp_{fresh_id()}", "created_at": int(time.time())}
    if path == PATH:
        users = [message for message in map(decode, body.messages) if message.get("role") == "user"]
        whole = {**head, "object": "response.compaction", "output": [*users, item], "usage": usage}
        await answered(send, 200, encode(whole), headers)
        return
    whole = {
        **{**head, "object": "response", "model": body.field("model"), "status": "completed", "output": [item]},
        **{"usage": usage, "error": None, "incomplete_details": None, "instructions": None, "metadata": {}},
        **{"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": None, "top_p": None},
    }
    if not body.field("stream"):
        await answered(send, 200, encode(whole), headers)
        return
    await started(send, 200, [(b"content-type", b"text/event-stream"), *headers])
    await said(send, _events(whole, item), more=False)


def _events(whole: Mapping[str, Any], item: Json) -> bytes:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
    return b"".join(b"event: %s\ndata: %s\n\n" % (event["type"].encode(), encode(event)) for event in numbered)
