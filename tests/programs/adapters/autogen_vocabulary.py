"""AutoGen's messages, all kinds of them, through the log and back."""

from __future__ import annotations

import base64

from autogen_core import FunctionCall, Image
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from hypothesis import strategies as st

from protocol.autogen import from_view, to_atoms
from tests.programs.adapters.round_trip import main

TEXT = st.text(max_size=20)
NAME = st.text("abcdef", min_size=1, max_size=8)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


class Compared(Image):
    """An image that is equal to another of the same bytes: the framework's own are equal to themselves alone."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self.to_base64() == other.to_base64()

    __hash__ = None  # type: ignore[assignment]


PICTURE = st.just(Compared.from_base64(base64.b64encode(PNG).decode()))
CALL = st.builds(FunctionCall, id=NAME, name=NAME, arguments=st.sampled_from(("{}", '{"a": 1}', "no JSON")))
RESULT = st.builds(FunctionExecutionResult, content=TEXT, name=NAME, call_id=NAME, is_error=st.none() | st.booleans())
MESSAGE = st.one_of(
    st.builds(SystemMessage, content=TEXT),
    st.builds(UserMessage, content=TEXT | st.lists(TEXT | PICTURE, max_size=3), source=NAME),
    st.builds(AssistantMessage, content=TEXT | st.lists(CALL, max_size=3), thought=st.none() | TEXT, source=NAME),
    st.builds(FunctionExecutionResultMessage, content=st.lists(RESULT, max_size=3)),
)


if __name__ == "__main__":
    main(MESSAGE, to_atoms, from_view)
