"""LangChain's messages, all kinds of them, through the log and back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, ChatMessage, FunctionMessage, HumanMessage, SystemMessage, ToolMessage

from protocol.langchain import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
COUNT = st.integers(0, 9)


def keys(**values: Any) -> Any:
    """Return a dict of these keys; what is no strategy is itself."""
    drawn = {key: st.just(one) if isinstance(one, str) else one for key, one in values.items()}
    return st.fixed_dictionaries(drawn)


BLOCK = st.one_of(
    TEXT,
    keys(type="text", text=TEXT),
    keys(type="text", text=TEXT, cache_control=OBJECT, index=JSON),
    keys(type="image_url", image_url=keys(url=TEXT, detail=NAME)),
    keys(type="image_url", image_url=TEXT),
    keys(type="image", base64=NAME, mime_type="image/png"),
    keys(type="image", url=TEXT),
    keys(type="file", base64=NAME, mime_type="application/pdf"),
    keys(type="audio", base64=NAME, mime_type="audio/wav"),
    keys(type="thinking", thinking=TEXT, signature=NAME),
    keys(type="reasoning", reasoning=TEXT),
    keys(type="server_tool_use", id=NAME, name=NAME, input=OBJECT),
    keys(type=NAME, anything=JSON),
)
COMMON = {
    "content": TEXT | st.lists(BLOCK, max_size=4),
    "additional_kwargs": OBJECT,
    "response_metadata": OBJECT,
    "id": st.none() | NAME,
    "name": st.none() | NAME,
}
USAGE = keys(input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT)
CALL = keys(id=NAME, name=NAME, args=OBJECT, type="tool_call")
BROKEN = keys(id=NAME, name=NAME, args=TEXT, error=TEXT, type="invalid_tool_call")


@st.composite
def answers(draw: Any) -> AIMessage:
    """Draw an answer, whose calls stand in providers' own forms too."""
    calls = draw(st.lists(CALL, max_size=3, unique_by=lambda one: one["id"]))
    fields = draw(st.fixed_dictionaries(COMMON))
    if calls and draw(st.booleans()) and isinstance(fields["content"], list):
        own = [{"type": "tool_use", "id": one["id"], "name": one["name"], "input": one["args"]} for one in calls]
        fields["content"] = [*fields["content"], *own]
    usage = draw(st.none() | USAGE)
    return AIMessage(
        **fields, tool_calls=calls, invalid_tool_calls=draw(st.lists(BROKEN, max_size=1)), usage_metadata=usage
    )


MESSAGE = st.one_of(
    st.builds(HumanMessage, **COMMON),
    st.builds(SystemMessage, **COMMON),
    answers(),
    st.builds(ToolMessage, **COMMON, tool_call_id=NAME, artifact=JSON, status=st.sampled_from(("success", "error"))),
    st.builds(ChatMessage, **COMMON, role=NAME),
    st.builds(FunctionMessage, **{**COMMON, "name": NAME}),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
