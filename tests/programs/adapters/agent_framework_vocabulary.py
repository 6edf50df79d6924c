"""Microsoft Agent Framework's messages, all kinds of their contents, through the log and back."""

from __future__ import annotations

from typing import Any

from agent_framework import Content, Message
from hypothesis import strategies as st

from protocol.agent_framework import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
JSON = st.recursive(st.none() | st.booleans() | st.integers(-1000, 1000) | TEXT, lambda one: st.lists(one, max_size=2))
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
PNG = st.just("image/png")
PICTURE = st.builds(Content.from_data, data=st.binary(max_size=9), media_type=PNG)
RESULT = st.builds(
    Content.from_function_result,
    call_id=NAME,
    result=TEXT | st.lists(st.builds(Content.from_text, text=TEXT) | PICTURE, min_size=1, max_size=3),
    additional_properties=OBJECT,
)
SAID = st.one_of(
    st.builds(Content.from_text, text=TEXT, additional_properties=OBJECT),
    PICTURE,
    st.builds(Content.from_uri, uri=st.just("https://example.org/a.png"), media_type=PNG),
    st.builds(Content.from_data, data=st.binary(max_size=9), media_type=st.just("application/pdf")),
    st.builds(Content.from_hosted_file, file_id=NAME),
    st.builds(Content.from_error, message=TEXT, error_code=NAME),
)
ANSWERED = st.one_of(
    st.builds(Content.from_text, text=TEXT),
    st.builds(Content.from_text_reasoning, text=TEXT, protected_data=st.none() | NAME),
    st.builds(Content.from_function_call, call_id=NAME, name=NAME, arguments=OBJECT | st.just('{"a": 1}')),
)
COMMON = {"author_name": st.none() | NAME, "message_id": st.none() | NAME, "additional_properties": OBJECT}
MESSAGE = st.one_of(
    st.builds(Message, role=st.sampled_from(("user", "system")), contents=st.lists(SAID, max_size=3), **COMMON),
    st.builds(Message, role=st.just("assistant"), contents=st.lists(ANSWERED, max_size=4), **COMMON),
    st.builds(Message, role=st.just("tool"), contents=st.lists(RESULT, min_size=1, max_size=3), **COMMON),
)


class Compared(Message):
    """A message that is equal to another of the same fields: the framework's own are equal to themselves alone."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.to_dict() == other.to_dict()

    @classmethod
    def _get_type_identifier(cls, value: Any = None) -> str:
        return "message"

    __hash__ = None  # type: ignore[assignment]


def read(given: list[Any]) -> list[Any]:
    """Return the messages as they are after the framework's own JSON."""
    return [Compared.from_dict(one.to_dict()) for one in given]


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view, read)
