"""Pydantic AI's messages, all kinds of their parts, through the log and back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic_ai import messages as ai

from protocol.pydantic_ai import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
URL = st.just("https://example.org/a.png")
MEDIA = st.one_of(
    st.builds(ai.ImageUrl, url=URL),
    st.builds(ai.DocumentUrl, url=st.just("https://example.org/a.pdf")),
    st.builds(ai.BinaryContent, data=st.binary(max_size=9), media_type=st.just("application/pdf")),
)
ASKED = st.one_of(
    st.builds(ai.SystemPromptPart, content=TEXT),
    st.builds(ai.UserPromptPart, content=TEXT | st.lists(TEXT | MEDIA, max_size=3)),
    st.builds(
        ai.ToolReturnPart,
        tool_name=NAME,
        content=TEXT | OBJECT | st.lists(JSON, max_size=2),
        tool_call_id=NAME,
        metadata=OBJECT,
    ),
)
ANSWERED = st.one_of(
    st.builds(ai.TextPart, content=TEXT),
    st.builds(ai.ThinkingPart, content=TEXT, signature=st.none() | NAME, id=st.none() | NAME),
    st.builds(ai.ToolCallPart, tool_name=NAME, args=st.none() | OBJECT | st.just('{"a": 1}'), tool_call_id=NAME),
    st.builds(ai.NativeToolCallPart, tool_name=NAME, args=OBJECT, tool_call_id=NAME, provider_name=NAME),
    st.builds(ai.NativeToolReturnPart, tool_name=NAME, content=OBJECT, tool_call_id=NAME, provider_name=NAME),
)
MESSAGE = st.one_of(
    st.builds(ai.ModelRequest, parts=st.lists(ASKED, min_size=1, max_size=4), instructions=st.none() | TEXT),
    st.builds(ai.ModelResponse, parts=st.lists(ANSWERED, max_size=4), model_name=st.none() | NAME),
)


def as_read(given: list[Any]) -> list[Any]:
    """Return the messages as they are after Pydantic AI's own JSON."""
    adapter = ai.ModelMessagesTypeAdapter
    read: list[Any] = adapter.validate_python(adapter.dump_python(given, mode="json"))
    return read


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view, as_read)
