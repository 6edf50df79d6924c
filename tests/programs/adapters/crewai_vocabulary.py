"""CrewAI's messages, all kinds of them, through the log and back."""

from __future__ import annotations

from hypothesis import strategies as st

from protocol.crewai import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
PNG = st.just("data:image/png;base64,iVBORw0KGgo=")
WORDS = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT})
IMAGE = st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": PNG})})
FILE = st.fixed_dictionaries(
    {"type": st.just("file"), "file": st.fixed_dictionaries({"filename": NAME, "file_data": PNG})}
)
OTHER = st.fixed_dictionaries({"type": st.just("document"), "source": st.fixed_dictionaries({"data": TEXT})})
FUNCTION = st.fixed_dictionaries({"name": NAME, "arguments": st.sampled_from(("{}", '{"a": 1}', "no JSON"))})
CALL = st.fixed_dictionaries({"id": NAME, "type": st.just("function"), "function": FUNCTION})
MORE = {"cache_breakpoint": st.just(True), "name": NAME}
MESSAGE = st.one_of(
    st.fixed_dictionaries(
        {"role": st.just("user"), "content": TEXT | st.lists(WORDS | IMAGE | FILE | OTHER, max_size=3)}, optional=MORE
    ),
    st.fixed_dictionaries({"role": st.just("system"), "content": TEXT}, optional=MORE),
    st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT}),
    st.fixed_dictionaries(
        {
            "role": st.just("assistant"),
            "content": st.none() | TEXT,
            "tool_calls": st.lists(CALL, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"role": st.just("tool"), "content": TEXT, "tool_call_id": NAME, "name": NAME}),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
