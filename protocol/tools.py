"""Tools: what an agent offers its model, so that pointers in a view can be followed.

    reply = await openai.chat.completions.create(..., tools=[*my_tools, READ_ARTIFACT])
    ...
    if call.function.name == READ_TOOL:
        text = await talk.answer_read(call.function.arguments)

Under this name the results are known: they are never spilled again, so reading back cannot go round in circles.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .errors import UNREADABLE, Rejected
from .service_messages import ReadAsked

READ_TOOL = "read_artifact"

READ_ARTIFACT: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": READ_TOOL,
        "description": (
            "Read a part of something that was left out of this conversation. The pointer in its place names the "
            "key. Answers are limited and say what is left: ask for the lines, the pattern or the path that you need. "
            "Many messages at once come as an outline of one line each: read on with the numbers and keys in it, or "
            "give a pattern to find the messages that match."
        ),
        "parameters": {
            "type": "object",
            "properties": {
                "key": {
                    "type": "string",
                    "description": 'As the pointer says: "9f86d081884c7d65", or "messages:4-9"; #4 is "messages:4".',
                },
                "lines": {"type": "string", "description": 'First and last line, from 1: "20-80"; "80-" to the end.'},
                "bytes": {"type": "string", "description": 'First and last byte, from 1: "1-4000"; for long lines.'},
                "pattern": {"type": "string", "description": "RE2 regular expression: only lines that match."},
                "context": {"type": "integer", "description": "Lines around each match; 2 if not given."},
                "json_path": {
                    "type": "string",
                    "description": "JSONPath (RFC 9535): \"$.items[?@.state=='failed'].id\". One line each.",
                },
            },
            "required": ["key"],
            "additionalProperties": False,
        },
    },
}
"""The definition in OpenAI's form. Give it to the model as it is."""


class _Call(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments as a model writes them."""

    key: str
    lines: str | int = ""
    bytes: str | int = ""
    pattern: str = ""
    context: int = 2
    json_path: str = ""


def read_asked(arguments: str) -> ReadAsked:
    """Return the request in a model's *arguments*. Raises `Rejected`, in words that the model can act upon."""
    try:
        call = msgspec.json.decode(arguments.encode("utf-8", "replace"), type=_Call, strict=False)
    except UNREADABLE as error:
        raise Rejected(f"the arguments of {READ_TOOL} cannot be used: {error}"[:200]) from None
    return ReadAsked(
        key=call.key,
        lines=str(call.lines),
        bytes=str(call.bytes),
        pattern=call.pattern,
        context=call.context,
        json_path=call.json_path,
    )
