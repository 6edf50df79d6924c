"""Messages: read through their parts, kept verbatim, refused by name."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.errors import BadMessage
from protocol.formats import messages
from protocol.formats.messages import CHAT, Call, Message, Part, Result
from protocol.limits import MESSAGE_BYTES_MAX, MESSAGE_DEPTH_MAX
from tests.builders import assistant, result, user
from tests.laws import LAWS

CONTENT = [
    {"type": "text", "text": "a"},
    {"type": "refusal", "refusal": "no"},
    {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
    {"type": "input_audio", "input_audio": {"data": "UklG", "format": "wav"}},
    {"type": "file", "file": {"file_data": "JVBE", "filename": "a.pdf"}},
    {"type": "file", "file": {"file_id": "file-1"}},
]


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
def test_a_text_is_one_part(role: Any) -> None:
    parsed = messages.parse({"role": role, "content": "hello", "name": "Zoë", "unknown": [1]})
    part = Part(pointer="/content", kind="text", text="hello")
    assert parsed == Message(role=role, format=CHAT, parts=(part,), name="Zoë", native=(CHAT,))


def test_every_type_of_content_part_is_read() -> None:
    assert messages.parse(user(CONTENT)).parts == (
        Part(pointer="/content/0/text", kind="text", text="a"),
        Part(pointer="/content/1/refusal", kind="text", text="no"),
        Part(pointer="/content/2/image_url/url", kind="image", text="https://x/y.png"),
        Part(pointer="/content/3/input_audio/data", kind="audio", text="UklG"),
        Part(pointer="/content/4/file/file_data", kind="file", text="JVBE"),
    )


def test_calls_and_their_arguments_are_read() -> None:
    assert messages.parse(assistant(None, "c1", "c2", arguments='{"a":1}')) == Message(
        role="assistant",
        parts=(
            Part(pointer="/tool_calls/0/function/arguments", kind="arguments", text='{"a":1}'),
            Part(pointer="/tool_calls/1/function/arguments", kind="arguments", text='{"a":1}'),
        ),
        calls=(Call(id="c1", name="look", at="/tool_calls/0/id"), Call(id="c2", name="look", at="/tool_calls/1/id")),
        format=CHAT,
        native=(CHAT,),
    )


@pytest.mark.parametrize("content", ["done", None, []])
def test_a_result_names_its_call(content: Any) -> None:
    parsed = messages.parse(result("c1", content))
    assert (parsed.role, parsed.results) == ("tool", (Result(id="c1", at="/tool_call_id"),))
    assert (len(parsed.parts), parsed.native) == ((1, (CHAT,)) if content else (0, ()))


def call(**changed: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}} | changed]}


@pytest.mark.parametrize(
    ("message", "at"),
    [
        ({}, "/role"),
        ({"role": None}, "/role"),
        ({"role": []}, "/role"),
        ({"role": {}}, "/role"),
        ({"role": "function"}, "/role"),
        ({"role": "\ud800"}, "/role"),
        ({"role": "tool", "content": "x"}, "/tool_call_id"),
        ({"role": "tool", "tool_call_id": ""}, "/tool_call_id"),
        ({"role": "tool", "tool_call_id": 7}, "/tool_call_id"),
        (user(7), "/content"),
        (user({"text": "x"}), "/content"),
        (user(["x"]), "/content/0"),
        (user([{"text": "x"}]), "/content/0"),
        (user([{"type": []}]), "/content/0"),
        (user([{"type": "text", "text": "x"}, {"type": "video"}]), "/content/1/type"),
        (user([{"type": "text"}]), "/content/0"),
        (user([{"type": "text", "text": 7}]), "/content/0"),
        (user([{"type": "image_url", "image_url": "x"}]), "/content/0"),
        (user([{"type": "input_audio", "input_audio": {}}]), "/content/0"),
        ({"role": "assistant", "tool_calls": {}}, "/tool_calls"),
        ({"role": "user", "tool_calls": [{}]}, "/tool_calls"),
        ({"role": "assistant", "tool_calls": ["x"]}, "/tool_calls/0/id"),
        (call(id=""), "/tool_calls/0/id"),
        (call(id=None), "/tool_calls/0/id"),
        (call(function=None), "/tool_calls/0/function/name"),
        (call(function={"arguments": "{}"}), "/tool_calls/0/function/name"),
        (call(function={"name": "f"}), "/tool_calls/0/function/arguments"),
        (call(function={"name": "f", "arguments": {}}), "/tool_calls/0/function/arguments"),
    ],
)
def test_what_is_wrong_is_pointed_at(message: dict[str, Any], at: str) -> None:
    def read() -> None:
        messages.check_known(message)
        messages.parse(message)

    with pytest.raises(BadMessage) as refused:
        read()
    assert refused.value.fields["at"] == at


def refusal(read: Callable[[], object]) -> dict[str, object]:
    """Return the fields of the refusal that *read* ends with; none where it does not."""
    try:
        read()
    except BadMessage as refused:
        return refused.fields
    return {}


def deep(levels: int) -> bytes:
    """Return a message that is nested *levels* deep."""
    inner = levels - 1
    return b'{"role":"user","content":"x","more":' + b"[" * inner + b"]" * inner + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'"text"',
        b"null",
        b"\xff\xfe",
        b'{"a":"\xff"}',
        b'\xef\xbb\xbf{"a":1}',
        '{"a":1}'.encode("utf-16"),
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":"\\ud800","b":NaN}',
        b'{"a":1' + b"0" * 5000 + b"}",
        deep(MESSAGE_DEPTH_MAX + 1),
        deep(100_000),
        b'{"a":"\\ud800"' + deep(100_000)[1:],
    ],
)
def test_bytes_that_are_no_message_are_refused(raw: bytes) -> None:
    with pytest.raises(BadMessage):
        messages.decode(raw)


def test_a_message_may_be_as_deep_as_the_limit() -> None:
    message = messages.decode(deep(MESSAGE_DEPTH_MAX))
    assert messages.replaced(message, {"/content": "y"}) == message | {"content": "y"}


def test_braces_inside_a_text_are_not_depth() -> None:
    assert messages.decode(messages.encode(user("[{" * 1000))) == user("[{" * 1000)


def test_keys_stay_in_the_callers_order() -> None:
    assert messages.encode({"zeta": 1, "role": "user", "alpha": {"b": 1, "a": 2}}) == (
        b'{"zeta":1,"role":"user","alpha":{"b":1,"a":2}}'
    )


def test_lone_surrogates_are_escaped_and_come_back() -> None:
    message = user("half \ud83d of it") | {"k\udc00": ["\udfff"]}
    raw = messages.encode(message)
    assert raw.isascii()
    assert messages.decode(raw) == message


def test_only_bytes_that_every_reader_takes_are_plain() -> None:
    assert [
        messages.is_plain(raw)
        for raw in (
            b'{"a":1}',
            '{"a":"日本"}'.encode(),
            b'{"a":"\\ud83d\\ude00"}',
            b'{"a":"\\uD800"}',
            b'{"a":"\xed\xa0\x80"}',
        )
    ] == [True, True, True, False, False]


def test_surrogates_are_joined_or_replaced() -> None:
    assert messages.without_surrogates("a\ud83d\ude00b\ud800c") == "a😀b\ufffdc"


@pytest.mark.parametrize("value", [math.nan, -math.inf, b"bytes", {1, 2}])
def test_nothing_is_silently_changed_into_json(value: object) -> None:
    with pytest.raises(BadMessage, match="JSON values"):
        messages.encode({"a": value})


def test_what_json_cannot_hold_is_refused() -> None:
    knot: list[Any] = []
    knot.append(knot)
    for value in (object(), knot, 1j):
        with pytest.raises(BadMessage) as refused:
            messages.encode({"a": value})
        assert refused.value.fields["at"] == ""


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters()),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(st.text(st.characters()), json_values, max_size=4))
@LAWS
def test_a_message_comes_back_as_it_was_encoded(message: dict[str, Any]) -> None:
    raw = messages.encode(message)
    assert messages.decode(raw) == message
    assert list(messages.decode(raw)) == list(message)
    assert messages.encode(messages.decode(raw)) == raw


@given(st.binary(max_size=80))
@LAWS
def test_any_bytes_are_a_message_or_refused(raw: bytes) -> None:
    assert set(refusal(lambda: messages.parse(messages.decode(raw)))) <= {"at", "reason"}


@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(sorted(messages.ROLES)), "content": json_values},
        optional={"tool_calls": json_values, "tool_call_id": json_values},
    )
)
@LAWS
def test_any_fields_are_a_message_or_refused(message: dict[str, Any]) -> None:
    refused = refusal(lambda: messages.parse(message))
    if refused:
        assert str(refused["at"]).startswith("/")
    else:
        parts = messages.parse(message).parts
        assert [messages.leaf(message, part.pointer) for part in parts] == [part.text for part in parts]


def test_a_text_part_is_replaced_in_a_copy() -> None:
    message = assistant("old", "c1")
    before = json.dumps(message)
    new = messages.replaced(message, {"/content": "new", "/tool_calls/0/function/arguments": "{}"})
    assert new == assistant("new", "c1")
    assert json.dumps(message) == before


def test_an_image_an_audio_and_a_file_become_text() -> None:
    pointers = [part.pointer for part in messages.parse(user(CONTENT)).parts]
    texts = {pointer: f"text {index}" for index, pointer in enumerate(pointers)}
    assert messages.replaced(user(CONTENT), texts) == user(
        [
            {"type": "text", "text": "text 0"},
            {"type": "refusal", "refusal": "text 1"},
            {"type": "text", "text": "text 2"},
            {"type": "text", "text": "text 3"},
            {"type": "text", "text": "text 4"},
            CONTENT[5],
        ]
    )


def test_a_message_over_the_limit_is_refused_by_size() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return MESSAGE_BYTES_MAX + 1

    messages.check_size(b"x")
    with pytest.raises(BadMessage) as refused:
        messages.check_size(Huge())
    assert refused.value.fields == {"at": "", "bytes": MESSAGE_BYTES_MAX + 1}
