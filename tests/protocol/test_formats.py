"""Formats: each is read alike, written from the others, and what is legal stays byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protocol.errors import BadMessage
from protocol.formats import messages
from protocol.formats.alternate import FILLER_MESSAGE
from protocol.formats.anthropic import EMPTY
from protocol.formats.cache_marks import MARKS_MAX
from protocol.formats.messages import ANTHROPIC, CHAT, PROFILES, RESPONSES, Call, Part, Profile, Result
from protocol.formats.render import piece, render
from protocol.formats.uploads import filled
from tests.builders import assistant, result, system, user

PNG = "iVBORw0KGgo="
SHOT = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"path": "/a"}}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "b3Bh"}
CALLED = {"type": "function_call", "call_id": "t1", "name": "look", "arguments": '{"path":"/a"}'}
OUTPUT = {"type": "function_call_output", "call_id": "t1", "output": "found"}
ASKED = assistant(None, "t1", arguments='{"path":"/a"}')


def told(content: Any = "found", ident: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": content} | more


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words} | more


def rendered(said: list[dict[str, Any]], profile: Profile) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in render([piece(messages.encode(one)) for one in said], profile)]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (user("x"), CHAT),
        (user([text("x")]), CHAT),
        (ASKED, CHAT),
        (user([text("x"), SHOT]), ANTHROPIC),
        (assistant() | {"content": [USE]}, ANTHROPIC),
        ({"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn"}, ANTHROPIC),
        ({"type": "message", "role": "assistant", "content": [text("x")]}, ANTHROPIC),
        ({"type": "message", "role": "user", "content": "x"}, RESPONSES),
        (user([{"type": "input_text", "text": "x"}]), RESPONSES),
        (CALLED, RESPONSES),
        (REASONING, RESPONSES),
        ({"type": "a_type_of_tomorrow", "id": "x"}, RESPONSES),
    ],
)
def test_a_format_is_told_by_its_shape(message: dict[str, Any], found: Profile) -> None:
    assert messages.format_of(message) == found
    assert messages.parse(message).format == found


@pytest.mark.parametrize(
    ("message", "at"),
    [
        ({"type": "human", "content": "hi"}, "/role"),
        (user([USE]), "/content/0/type"),
        (assistant() | {"content": [told()]}, "/content/0/type"),
        ({"role": "tool", "content": [told()]}, "/role"),
        (user([told(ident="")]), "/content/0/tool_use_id"),
        (user([told([text("x"), {"text": "y"}])]), "/content/0/content/1"),
        (user([{"type": "image", "source": "x"}]), "/content/0/source"),
        (CALLED | {"call_id": None}, "/call_id"),
        (CALLED | {"arguments": {}}, "/arguments"),
        ({"type": "message", "role": "tool", "content": "x"}, "/role"),
    ],
)
def test_what_no_provider_could_mean_is_refused_by_its_place(message: dict[str, Any], at: str) -> None:
    with pytest.raises(BadMessage) as refused:
        messages.parse(message)
    assert refused.value.fields["at"] == at


def test_every_kind_of_anthropic_block_is_read() -> None:
    parsed = messages.parse(user([told([text("a"), SHOT]), told("b", "t2"), text("c")]))
    assert (parsed.role, parsed.results) == (
        "user",
        (Result(id="t1", at="/content/0/tool_use_id"), Result(id="t2", at="/content/1/tool_use_id")),
    )
    assert parsed.parts == (
        Part(pointer="/content/0/content/0/text", kind="text", text="a"),
        Part(pointer="/content/0/content/1/source/data", kind="image", text=PNG),
        Part(pointer="/content/1/content", kind="text", text="b"),
        Part(pointer="/content/2/text", kind="text", text="c"),
    )
    assert messages.parse(user([told()])).role == "tool"
    thinking = messages.parse({"role": "assistant", "content": [THOUGHT, USE]})
    assert thinking.fixed == ("hm\nc2ln",)
    assert thinking.calls == (Call(id="t1", name="look", at="/content/1/id"),)
    assert thinking.parts == (Part(pointer="/content/1/input", kind="arguments", text='{"path":"/a"}'),)


def test_arguments_that_are_an_object_are_replaced_as_an_object() -> None:
    message = {"role": "assistant", "content": [USE]}
    assert messages.leaf(message, "/content/0/input") == '{"path":"/a"}'
    assert messages.replaced(message, {"/content/0/input": '{"shortened":"x"}'})["content"] == [
        USE | {"input": {"shortened": "x"}}
    ]
    assert messages.with_leaves(message, {"/content/0/input": "not JSON"})["content"][0]["input"] == {
        "arguments": "not JSON"
    }


def test_an_image_inside_a_result_becomes_text_of_its_own_format() -> None:
    pointer = "/content/0/content/0/source/data"
    assert messages.replaced(user([told([SHOT])]), {pointer: "p"}) == user([told([text("p")])])
    output = OUTPUT | {"output": [{"type": "input_image", "image_url": "https://x"}]}
    assert messages.replaced(output, {"/output/0/image_url": "p"})["output"] == [{"type": "input_text", "text": "p"}]


CONVERSATION: dict[Profile, list[dict[str, Any]]] = {
    CHAT: [system("s"), user("u"), ASKED, result("t1", "found"), assistant("done")],
    RESPONSES: [system("s"), user("u"), CALLED, OUTPUT, assistant("done")],
    ANTHROPIC: [
        system("s"),
        user("u"),
        {"role": "assistant", "content": [USE]},
        user([told()]),
        assistant("done"),
    ],
}


@pytest.mark.parametrize("source", PROFILES)
@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_conversation_is_written_in_every_format(source: Profile, profile: Profile) -> None:
    assert rendered(CONVERSATION[source], profile) == CONVERSATION[profile]


@pytest.mark.parametrize(
    ("profile", "raws"),
    [
        (
            ANTHROPIC,
            (
                b'{ "role":"system", "content":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}] }',
                b'{"content": [ {"type":"text","text":"caf\\u00e9","citations":null} ], "role":"user"}',
                b'{"role":"assistant","content":[{"signature":"c2ln","thinking":"","type":"thinking"} ,'
                b'{"type":"tool_use","id":"t","name":"f","input":{ "a":1.50 }}]}',
                b'{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true}, '
                b'{"type":"text","text":"go on"}]}',
            ),
        ),
        (
            RESPONSES,
            (
                b'{"role":"user","content":"u" }',
                b'{"type":"reasoning" ,"id":"rs","summary":[],"encrypted_content":"x"}',
                b'{"type":"function_call","call_id":"t","name":"f","arguments":"{ }","status":null}',
                b'{"type":"function_call_output","call_id":"t","output":[{"text":"o","type":"input_text"}]}',
            ),
        ),
    ],
)
def test_what_is_legal_stays_byte_for_byte(profile: Profile, raws: tuple[bytes, ...]) -> None:
    assert render([piece(raw) for raw in raws], profile) == raws


def test_items_of_one_answer_become_one_chat_message() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so"}]}
    second = CALLED | {"call_id": "t2"}
    items: list[dict[str, Any]] = [REASONING, said, CALLED, second, OUTPUT, OUTPUT | {"call_id": "t2"}, REASONING]
    both = assistant("so", "t1", "t2", arguments='{"path":"/a"}')
    assert rendered(items, CHAT) == [both, result("t1", "found"), result("t2", "found")]


def test_a_role_that_speaks_twice_to_anthropic_speaks_once_and_results_come_first() -> None:
    said = [user([text("a", cache_control={"type": "ephemeral"})]), user("b"), ASKED, result("t1"), user("c")]
    assert rendered(said, ANTHROPIC) == [
        user([text("a", cache_control={"type": "ephemeral"}), text("b")]),
        {"role": "assistant", "content": [USE]},
        user([told("done"), text("c")]),
    ]
    mixed = [{"role": "assistant", "content": [USE]}, user([text("c"), told()])]
    assert rendered([user("u"), *mixed], ANTHROPIC)[2] == user([told(), text("c")])


def test_instructions_later_on_are_said_by_the_user() -> None:
    said = [system("a"), {"role": "developer", "content": "b"}, user("u"), assistant("x"), system("c")]
    assert rendered(said, ANTHROPIC) == [
        system("") | {"content": [text("a"), text("b")]},
        user("u"),
        assistant("x"),
        user([text("c")]),
    ]


def test_anthropic_begins_with_the_user_and_has_no_blank_text() -> None:
    said = [system(" "), assistant("a"), user(""), {"role": "assistant", "content": [text(""), USE]}]
    assert rendered(said, ANTHROPIC) == [
        json.loads(FILLER_MESSAGE),
        assistant("a"),
        user([text(EMPTY)]),
        {"role": "assistant", "content": [USE]},
    ]


def test_the_last_words_of_the_assistant_have_no_white_space_at_the_end() -> None:
    assert rendered([user("u"), assistant("a \n")], ANTHROPIC) == [
        user("u"),
        {"role": "assistant", "content": [text("a")]},
    ]
    assert rendered([user("u"), assistant("a \n"), user("v")], ANTHROPIC)[1] == assistant("a \n")


def test_reasoning_that_led_to_nothing_or_is_not_signed_goes_as_a_whole() -> None:
    said = [user("u"), {"role": "assistant", "content": [THOUGHT | {"signature": ""}, text("a"), THOUGHT]}, user("v")]
    assert rendered(said, ANTHROPIC)[1] == {"role": "assistant", "content": [text("a")]}
    items = [user("u"), REASONING, CALLED, OUTPUT, REASONING, user("v"), REASONING]
    assert rendered(items, RESPONSES) == [user("u"), REASONING, CALLED, OUTPUT, user("v")]


def test_too_many_cache_marks_are_taken_away_from_the_oldest() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    said: list[dict[str, Any]] = [{"role": "system", "content": [text("s", **mark)]}]
    for number in range(5):
        said += [user([text(str(number), **mark)]), assistant("x")]
    shown = rendered(said, ANTHROPIC)
    assert ["cache_control" in json.dumps(message) for message in shown if message["role"] != "assistant"] == [
        True,
        *[False] * 3,
        *[True] * 2,
    ]
    assert rendered(said[: 2 * MARKS_MAX - 1], ANTHROPIC) == said[: 2 * MARKS_MAX - 1]


def test_images_and_files_are_written_for_each_provider() -> None:
    url = f"data:image/png;base64,{PNG}"
    pdf = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBE"}}
    said = [user([{"type": "image_url", "image_url": {"url": url}}, pdf])]
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}}
    assert rendered(said, ANTHROPIC) == [user([SHOT, document])]
    items = [
        {"type": "input_image", "image_url": url, "detail": "auto"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,JVBE", "filename": "a.pdf"},
    ]
    assert rendered(said, RESPONSES) == [user(items)]
    assert rendered([user(items)], CHAT) == said
    assert rendered([user([SHOT])], CHAT) == [user([{"type": "image_url", "image_url": {"url": url}}])]


def test_an_uploaded_image_is_put_in_wherever_its_name_stands() -> None:
    url, name = f"data:image/png;base64,{PNG}", "artifact:12"
    named = [user([{"type": "image_url", "image_url": {"url": name}}])]
    whole = [user([{"type": "image_url", "image_url": {"url": url}}])]
    for profile in PROFILES:
        body = messages.encode(rendered(named, profile)[0])
        assert json.loads(filled(body, name, url)) == rendered(whole, profile)[0]
    inline = user([SHOT | {"source": SHOT["source"] | {"data": name}}])  # type: ignore[operator]
    for profile in PROFILES:
        body = messages.encode(rendered([inline], profile)[0])
        assert json.loads(filled(body, name, PNG)) == rendered([user([SHOT])], profile)[0]


def test_an_aborted_call_is_answered_in_its_own_kind() -> None:
    calls: list[dict[str, Any]] = [
        {"type": "custom_tool_call", "call_id": "a", "name": "p", "input": "x"},
        {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}},
        {"type": "mcp_approval_request", "id": "c", "name": "n", "server_label": "s", "arguments": "{}"},
    ]
    answers = [result(ident, "aborted") for ident in ("a", "b", "c")]
    assert rendered([*calls, *answers], RESPONSES)[3:] == [
        {"type": "custom_tool_call_output", "output": "aborted", "call_id": "a"},
        {"type": "shell_call_output", "output": [], "call_id": "b"},
        {"type": "mcp_approval_response", "approve": False, "approval_request_id": "c"},
    ]


def test_ids_and_arguments_that_anthropic_refuses_are_changed_on_both_sides() -> None:
    said = [user("u"), assistant(None, "functions.look:0", arguments="not JSON"), result("functions.look:0")]
    _, asked, answered = rendered(said, ANTHROPIC)
    (use,), (back,) = asked["content"], answered["content"]
    assert (use["input"], use["id"]) == ({"arguments": "not JSON"}, back["tool_use_id"])
    assert use["id"].replace("_", "").isalnum()
