"""Haystack's messages, all kinds of their parts, through the log and back."""

from __future__ import annotations

import base64
from typing import Any

from haystack.dataclasses import (
    ChatMessage,
    ChatRole,
    FileContent,
    ImageContent,
    ReasoningContent,
    TextContent,
    ToolCall,
    ToolCallResult,
)
from hypothesis import strategies as st

from protocol.haystack import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
BASE64 = st.binary(max_size=9).map(lambda raw: base64.b64encode(raw).decode())
SILENT = st.just(False)
WORDS = st.builds(TextContent, text=TEXT)
IMAGE = st.builds(
    ImageContent, base64_image=BASE64, mime_type=st.just("image/png"), detail=st.none() | st.just("low"), meta=OBJECT,
    validation=SILENT,
)  # fmt: skip
FILE = st.builds(
    FileContent, base64_data=BASE64, mime_type=st.just("application/pdf"), filename=st.none() | NAME, extra=OBJECT,
    validation=SILENT,
)  # fmt: skip
CALL = st.builds(ToolCall, tool_name=NAME, arguments=OBJECT, id=st.none() | NAME, extra=st.none() | OBJECT)
THOUGHT = st.builds(ReasoningContent, reasoning_text=TEXT, extra=OBJECT)
RESULT = st.builds(
    ToolCallResult,
    result=TEXT | st.lists(WORDS | IMAGE | FILE, min_size=1, max_size=3),
    origin=CALL,
    error=st.booleans(),
)


def of(role: ChatRole, part: Any, *, least: int = 0) -> Any:
    """Return messages of *role*."""
    parts = st.lists(part, min_size=least, max_size=3)
    return st.builds(ChatMessage, _role=st.just(role), _content=parts, _name=st.none() | NAME, _meta=OBJECT)


MESSAGE = st.one_of(
    of(ChatRole.USER, WORDS | IMAGE | FILE),
    of(ChatRole.SYSTEM, WORDS),
    of(ChatRole.ASSISTANT, WORDS | THOUGHT | CALL),
    of(ChatRole.TOOL, RESULT, least=1),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
