"""LlamaIndex's messages, all kinds of their blocks, through the log and back."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st
from llama_index.core.base.llms import types

from protocol.llama_index import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
BASE64 = st.binary(min_size=9, max_size=9).map(base64.b64encode)
URL = st.just("https://example.org/a.png")
WORDS = st.builds(types.TextBlock, text=TEXT)
DOCUMENT = st.builds(types.DocumentBlock, data=BASE64, title=NAME, document_mimetype=st.just("application/pdf"))
SHOWN = st.one_of(
    st.builds(types.ImageBlock, image=BASE64, image_mimetype=st.just("image/png")),
    st.builds(types.ImageBlock, url=URL, detail=st.just("low")),
    st.builds(types.AudioBlock, audio=BASE64, format=st.just("mp3")),
    st.builds(types.VideoBlock, video=BASE64, video_mimetype=st.just("video/mp4")),
    DOCUMENT,
    st.builds(types.CachePoint, cache_control=st.builds(types.CacheControl, type=st.just("ephemeral"))),
    st.builds(types.CitableBlock, title=NAME, source=NAME, content=st.lists(WORDS | DOCUMENT, max_size=2)),
)
CALL = st.builds(types.ToolCallBlock, tool_call_id=st.none() | NAME, tool_name=NAME, tool_kwargs=OBJECT | st.just("{}"))
SAID = st.one_of(
    WORDS,
    st.builds(types.ThinkingBlock, content=st.none() | TEXT, additional_information=OBJECT),
    CALL,
    st.builds(
        types.CitationBlock, cited_content=WORDS, source=NAME, title=NAME, additional_location_info=st.just({"page": 1})
    ),
)
CHAT_CALL = st.fixed_dictionaries(
    {
        "id": NAME,
        "type": st.just("function"),
        "function": st.fixed_dictionaries({"name": NAME, "arguments": st.just("{}")}),
    }
)
OLDER = st.fixed_dictionaries({"tool_calls": st.lists(CHAT_CALL, max_size=2)})
RESULT = st.fixed_dictionaries({}, optional={"tool_call_id": NAME, "name": NAME})


def of(roles: tuple[str, ...], block: Any, more: Any = OBJECT) -> Any:
    """Return messages of *roles*."""
    blocks = st.lists(block, max_size=3)
    return st.builds(types.ChatMessage, role=st.sampled_from(roles), blocks=blocks, additional_kwargs=more)


MESSAGE = st.one_of(
    of(("user",), WORDS | SHOWN),
    of(("system", "developer"), WORDS),
    of(("assistant", "chatbot", "model"), SAID),
    of(("assistant",), WORDS, OLDER),
    of(("tool", "function"), WORDS | SHOWN, RESULT),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
