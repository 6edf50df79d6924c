"""Google ADK's contents, all kinds of their parts, through the log and back."""

from __future__ import annotations

from typing import Any

from google.genai import types
from hypothesis import strategies as st

from protocol.google_adk import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
RESULT = st.fixed_dictionaries({"result": TEXT}) | OBJECT
IDENT = st.none() | NAME
MIME = st.sampled_from(("image/png", "audio/wav"))
PART = st.one_of(
    st.builds(types.Part, text=TEXT),
    st.builds(types.Part, text=TEXT, thought=st.just(True), thought_signature=st.binary(max_size=9)),
    st.builds(
        types.Part, inline_data=st.builds(types.Blob, data=st.binary(max_size=9), mime_type=st.just("image/png"))
    ),
    st.builds(
        types.Part, inline_data=st.builds(types.Blob, data=st.binary(max_size=9), mime_type=st.just("audio/wav"))
    ),
    st.builds(types.Part, file_data=st.builds(types.FileData, file_uri=NAME, mime_type=st.just("image/png"))),
    st.builds(types.Part, executable_code=st.builds(types.ExecutableCode, code=TEXT, language=st.just("PYTHON"))),
)
CALL = st.builds(types.Part, function_call=st.builds(types.FunctionCall, id=IDENT, name=NAME, args=OBJECT))
ANSWER = st.builds(
    types.Part, function_response=st.builds(types.FunctionResponse, id=IDENT, name=NAME, response=RESULT)
)
CONTENT = st.one_of(
    st.builds(types.Content, role=st.just("user"), parts=st.lists(PART | ANSWER, min_size=1, max_size=4)),
    st.builds(types.Content, role=st.just("model"), parts=st.lists(PART | CALL, min_size=1, max_size=4)),
)


def read(given: list[Any]) -> list[Any]:
    """Return the contents as they are after their own JSON."""
    return [types.Content.model_validate_json(one.model_dump_json(exclude_none=True)) for one in given]


if __name__ == "__main__":
    main(CONTENT, to_atoms, from_view, read)
