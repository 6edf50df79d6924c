"""Chat logs: each format is found out, read whole, and says what it left out. Samples are made after their programs."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from actors.cli.chat_logs import READERS
from actors.cli.compact import check_all, layer_of
from actors.cli.transcripts import STDIN, read_transcripts, transcripts
from protocol.errors import BadMessage
from protocol.formats.messages import ANTHROPIC, CHAT, RESPONSES
from tests.builders import assistant, result, system, user

Json = dict[str, Any]
TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "t1", "name": "look", "input": {"path": "/a"}}
TOLD = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
CALLED = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
ITEMS: list[Json] = [user("q"), CALLED, {"type": "function_call_output", "call_id": "c1", "output": "found"}]


def call(ident: str, name: str, arguments: str) -> Json:
    made = [{"id": ident, "type": "function", "function": {"name": name, "arguments": arguments}}]
    return {"role": "assistant", "content": None, "tool_calls": made}


def row(uuid: str, parent: str | None, kind: str, content: Any, **more: Any) -> Json:
    message = {"role": kind, "content": content} | more.pop("message", {})
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s-1", "message": message} | more


CLAUDE = [
    {"type": "summary", "summary": "Payouts", "leafUuid": "u9"},
    row("u1", None, "user", "Why?"),
    row("u2", "u1", "assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}], message={"id": "m1"}),
    row("u3", "u2", "assistant", [USE], message={"id": "m1", "usage": {"input_tokens": 1}}),
    row("x1", "u3", "user", "sub-agent", isSidechain=True),
    row("u4", "u3", "user", [TOLD]),
    row("o1", "u4", "assistant", [{"type": "text", "text": "another branch"}]),
    {"type": "system", "subtype": "compact_boundary", "uuid": "b1", "parentUuid": None, "logicalParentUuid": "u4"},
    row("u5", "b1", "assistant", [{"type": "text", "text": "The key is old."}], message={"id": "m2"}),
]
CODEX = [
    {"type": "session_meta", "payload": {"id": "r-1", "base_instructions": {"text": "You are an agent."}}},
    {"type": "event_msg", "payload": {"type": "user_message", "message": "q"}},
    *({"timestamp": "t", "type": "response_item", "payload": item} for item in ITEMS),
    {"type": "response_item", "payload": {"type": "ghost_snapshot", "ghost_commit": {}}},
    {"type": "compacted", "payload": {"message": "what was"}},
]


def node(ident: str, parent: str | None, role: str, content: Json, **more: Any) -> Json:
    message = {"id": ident, "author": {"role": role}, "content": content, "recipient": "all"} | more
    return {"id": ident, "parent": parent, "message": message}


def parts(*said: Any) -> Json:
    return {"content_type": "text", "parts": list(said)}


CHATGPT = {
    "title": "Payouts",
    "current_node": "e",
    "mapping": {
        "root": {"id": "root", "parent": None, "message": None},
        "a": node("a", "root", "user", parts("Why?", {"content_type": "image_asset_pointer"})),
        "b": node("b", "a", "assistant", {"content_type": "code", "text": "1+1"}, recipient="python"),
        "c": node("c", "b", "tool", {"content_type": "execution_output", "text": "2"}, author={"role": "tool"}),
        "d": node("d", "c", "assistant", {"content_type": "thoughts", "thoughts": []}),
        "e": node("e", "d", "assistant", parts("Two.")),
        "f": node("f", "c", "assistant", parts("Three.")),
    },
}
LANGCHAIN = [
    {"type": "system", "data": {"content": "s"}},
    {"type": "human", "data": {"content": "q"}},
    {"type": "ai", "data": {"content": [USE], "tool_calls": [{"name": "look", "args": {"path": "/a"}, "id": "t1"}]}},
    {"type": "tool", "data": {"content": "found", "tool_call_id": "t1"}},
    {"type": "remove", "data": {"content": "", "id": "x"}},
]
DUMPED = [
    {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": data}
    for name, data in (
        ("HumanMessage", {"content": "q"}),
        ("AIMessageChunk", {"content": "a", "tool_calls": []}),
    )
]
GEMINI = {
    "systemInstruction": {"parts": [{"text": "s"}]},
    "tools": [{"functionDeclarations": []}],
    "contents": [
        {"role": "user", "parts": [{"text": "q"}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]},
        {"role": "model", "parts": [{"text": "hm", "thought": True}, {"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"out": 1}}}]},
        {"role": "model", "parts": [{"text": "done"}]},
    ],
}
CLI = [
    {"id": "1", "timestamp": "2026-01-02T03:04:05.000Z", "type": "user", "content": [{"text": "q"}]},
    {"id": "2", "timestamp": "2026-01-02T03:04:06Z", "type": "info", "content": "Update available."},
    {
        "id": "3", "timestamp": "2026-01-02T03:05:05Z", "type": "gemini", "content": "I look.", "thoughts": [{}],
        "toolCalls": [
            {"id": "t1", "name": "look", "args": {"path": "/a"}, "status": "success", "result": [
                {"functionResponse": {"id": "t1", "name": "look", "response": {"output": "found"}}}]},
            {"id": "t2", "name": "look", "args": {}, "status": "cancelled", "result": None},
        ],
    },
    {"id": "4", "timestamp": "2026-01-02T03:06:05Z", "type": "gemini", "content": "done", "model": "m"},
]  # fmt: skip
CLI_HEAD = {"sessionId": "s-9", "projectHash": "p", "startTime": "t", "lastUpdated": "t"}
CLI_SAID: list[Json] = [
    user("q"),
    {"role": "assistant", "content": "I look.", "tool_calls": [
        {"id": "t1", "type": "function", "function": {"name": "look", "arguments": '{"path": "/a"}'}},
        {"id": "t2", "type": "function", "function": {"name": "look", "arguments": "{}"}},
    ]},
    result("t1", "found"),
    result("t2", "[cancelled]"),
    assistant("done"),
]  # fmt: skip
SHAREGPT = {
    "id": "g-1",
    "system": "s",
    "tools": json.dumps([TOOL]),
    "conversations": [
        {"from": "human", "value": "q"},
        {"from": "function_call", "value": '{"name": "look", "arguments": {"path": "/a"}}'},
        {"from": "observation", "value": "found"},
        {"from": "gpt", "value": "done"},
        {"from": "narrator", "value": "meanwhile"},
    ],
}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
CASES: dict[str, tuple[str, Any, list[Json], str, int, dict[str, int]]] = {
    "a list of chat messages": ("openai", [user("q"), assistant("a")], [user("q"), assistant("a")], CHAT, 0, {}),
    "a chat request": ("openai", {"model": "m", "messages": [user("q")], "tools": [TOOL]}, [user("q")], CHAT, 1, {}),
    "an Anthropic request": (
        "anthropic",
        {"system": [{"type": "text", "text": "s"}], "messages": [user("q")], "tools": [TOOL, TOOL]},
        [{"role": "system", "content": [{"type": "text", "text": "s"}]}, user("q")],
        ANTHROPIC,
        2,
        {},
    ),
    "Anthropic's messages": (
        "anthropic", [user("q"), {"role": "assistant", "content": [USE]}, user([TOLD])],
        [user("q"), {"role": "assistant", "content": [USE]}, user([TOLD])], CHAT, 0, {},
    ),
    "a Responses request": (
        "responses", {"instructions": "s", "input": ITEMS, "tools": [TOOL]},
        [{"role": "developer", "content": "s"}, *ITEMS], RESPONSES, 1, {},
    ),
    "a Responses request of one text": ("responses", {"input": "q"}, [user("q")], RESPONSES, 0, {}),
    "Responses items": ("responses", ITEMS, ITEMS, RESPONSES, 0, {}),
    "a batch line": ("openai", {"custom_id": "1", "body": {"messages": [user("q")]}}, [user("q")], CHAT, 0, {}),
    "a session of Claude Code": (
        "claude-code",
        CLAUDE,
        [
            user("Why?"),
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, USE]},
            user([TOLD]),
            {"role": "assistant", "content": [{"type": "text", "text": "The key is old."}]},
        ],
        ANTHROPIC,
        0,
        {
            "rows of type summary": 1, "messages of sub-agents": 1, "messages of other branches": 1,
            "rows of type system": 1,
        },
    ),
    "a session of Codex": (
        "codex", CODEX, [{"role": "developer", "content": "You are an agent."}, *ITEMS], RESPONSES, 0,
        {"rows of type event_msg": 1, "rows of type response_item": 1, "rows of type compacted": 1},
    ),
    "a ChatGPT conversation": (
        "chatgpt", CHATGPT,
        [user("Why?"), call("b", "python", "1+1"), result("b", "2"), assistant("Two.")], CHAT, 0,
        {"messages of other branches": 1, "images and other files": 1, "messages of type thoughts": 1},
    ),
    "LangChain's dicts": (
        "langchain", LANGCHAIN,
        [system("s"), user("q"), call("t1", "look", '{"path": "/a"}') | {"content": []}, result("t1", "found")],
        CHAT, 0, {"messages of type remove": 1},
    ),
    "LangChain's dumps": ("langchain", {"messages": DUMPED}, [user("q"), assistant("a")], CHAT, 0, {}),
    "Gemini's contents": (
        "gemini", GEMINI,
        [
            system("s"), user([{"type": "text", "text": "q"}, IMAGE]), call("call_2_1", "look", "{}"),
            result("call_2_1", '{"out": 1}'), assistant("done"),
        ], CHAT, 1, {"thoughts": 1},
    ),
    "a session of Gemini CLI": (
        "gemini-cli", CLI_HEAD | {"messages": CLI}, CLI_SAID, CHAT, 0, {"messages of type info": 1, "thoughts": 1},
    ),
    "a session of Gemini CLI in rows": (
        "gemini-cli",
        [CLI_HEAD, CLI[0], CLI[3], {"$rewindTo": "4"}, *CLI[1:], {"$set": {"lastUpdated": "t"}}],
        CLI_SAID, CHAT, 0, {"messages of type info": 1, "thoughts": 1, "messages that were rewound": 1},
    ),
    "ShareGPT's turns": (
        "sharegpt", SHAREGPT,
        [system("s"), user("q"), call("call_2", "look", '{"path": "/a"}'), result("call_2", "found"),
         assistant("done")], CHAT, 1, {"turns of narrator": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("lines", [False, True])
def test_a_log_is_found_out_and_read_whole(case: str, lines: bool, tmp_path: Path) -> None:
    name, document, wanted, profile, tools, left = CASES[case]
    file = tmp_path / "log.json"
    rows = document if lines and isinstance(document, list) else [document]
    file.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps(document))
    found = read_transcripts(file)
    assert found.formats == (name,)
    (talk,) = found.talks
    assert talk.messages == wanted
    assert (talk.profile, len(talk.tools), dict(talk.left_out)) == (profile, tools, left)
    assert [one.messages for one in read_transcripts(file, format=name).talks] == [wanted]
    check_all(talk, declared=talk.profile if talk.profile != CHAT else "")


def test_results_of_calls_at_once_are_all_of_the_branch(tmp_path: Path) -> None:
    """Each hangs on the row of its own call, and the last one alone leads on."""
    other, told = {**USE, "id": "t2"}, {**TOLD, "tool_use_id": "t2"}
    rows = [
        row("u1", None, "user", "Why?"),
        row("u2", "u1", "assistant", [USE], message={"id": "m1"}),
        row("u3", "u2", "assistant", [other], message={"id": "m1"}),
        row("u4", "u2", "user", [TOLD]),
        row("u5", "u3", "user", [told]),
        row("u6", "u5", "assistant", [{"type": "text", "text": "The key is old."}], message={"id": "m2"}),
    ]
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    (talk,) = transcripts(file)
    assert [message["content"] for message in talk.messages[1:4]] == [[USE, other], [TOLD], [told]]
    assert talk.left_out == {}


def test_an_export_with_an_empty_conversation_has_the_others(tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    empty: Json = {"title": "New chat", "mapping": {}, "current_node": None}
    file.write_text(json.dumps([CHATGPT, empty]))
    found = read_transcripts(file)
    assert [talk.name for talk in found.talks] == ["Payouts"]
    assert found.notes == ("the conversation 2 of chatgpt holds no messages, and is left out",)
    file.write_text(json.dumps([empty]))
    with pytest.raises(BadMessage, match="read as chatgpt, it holds no messages"):
        read_transcripts(file)


def test_a_session_of_an_older_codex_is_one_too(tmp_path: Path) -> None:
    file = tmp_path / "rollout.jsonl"
    head = [{"id": "r-0", "timestamp": "2026-01-02T03:04:05Z", "instructions": "Be brief."}, {"record_type": "state"}]
    file.write_text("\n".join(map(json.dumps, [*head, *({"type": "message", **one} for one in ITEMS[:1]), *ITEMS[1:]])))
    found = read_transcripts(file)
    (talk,) = found.talks
    assert (found.formats, talk.name) == (("codex",), "r-0")
    assert [one.get("content") for one in talk.messages[:2]] == ["Be brief.", "q"]
    assert (len(talk.messages), dict(talk.left_out)) == (4, {"rows of type None": 1})


def test_messages_have_the_times_of_their_file(tmp_path: Path) -> None:
    file = tmp_path / "session.json"
    file.write_text(json.dumps(CLI_HEAD | {"messages": CLI}))
    at = 1_767_323_045_000
    assert transcripts(file)[0].times == (at, at + 60_000, at + 60_000, at + 60_000, at + 120_000)
    told = ("", "x", "2026-01-02T03:04:05Z")
    rows = [CODEX[0], *(one | {"timestamp": at} for one, at in zip(CODEX[2:5], told, strict=True))]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert transcripts(file)[0].times == (at,) * 4
    file.write_text(json.dumps([user("q")]))
    assert transcripts(file)[0].times == ()


@pytest.mark.parametrize("document", [CHATGPT, SHAREGPT, GEMINI, {"messages": [user("q")]}])
def test_a_file_of_several_conversations_has_each(document: Json, tmp_path: Path) -> None:
    file = tmp_path / "all.json"
    file.write_text(json.dumps([document, document]))
    assert len(transcripts(file)) == 2
    file.write_text(json.dumps(document) + "\n" + json.dumps(document) + "\n")
    assert len(transcripts(file)) == 2


def test_tools_take_of_the_budget_and_a_request_gets_its_own_api_unless_a_policy_says_else(tmp_path: Path) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"system": "s", "messages": [user("q")], "tools": [TOOL]}))
    (talk,) = transcripts(file)
    layer = layer_of(talk, {"budget": {"window": 800}})
    assert layer["budget"]["tools"] > 10
    assert layer["shape"] == {"profile": ANTHROPIC}
    named = {"budget": {"window": 800, "tools": 7}, "shape": {"profile": CHAT}}
    assert layer_of(talk, named) == named


def test_latin_1_is_read_with_a_hint_and_a_byte_order_mark_without(tmp_path: Path) -> None:
    file = tmp_path / "old.json"
    file.write_bytes('[{"role": "user",\n "content": "Zoë"}]'.encode("latin-1"))
    found = read_transcripts(file)
    assert found.talks[0].messages == [user("Zoë")]
    (note,) = found.notes
    assert note.startswith("line 2 is not UTF-8: it was read as Latin-1; `iconv")
    for encoding in ("utf-8-sig", "utf-16"):
        file.write_bytes('[{"role": "user", "content": "Zoë"}]'.encode(encoding))
        assert (transcripts(file)[0].messages, read_transcripts(file).notes) == ([user("Zoë")], ())


def test_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    class Given:
        buffer = io.BytesIO(json.dumps([user("q")]).encode())

    monkeypatch.setattr("sys.stdin", Given())
    (talk,) = transcripts(STDIN)
    assert (talk.name, talk.messages) == ("stdin-0", [user("q")])


def test_a_session_that_is_still_written_is_read_to_its_last_whole_line(tmp_path: Path) -> None:
    file = tmp_path / "session.jsonl"
    file.write_text("\n".join(map(json.dumps, CODEX)) + '\n{"type": "respon')
    (note,) = read_transcripts(file).notes
    assert note == f"line {len(CODEX) + 1} is cut off and left out: the session was still being written"


@pytest.mark.parametrize("name", READERS)
def test_what_is_another_format_is_refused_by_name(name: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text('{"mapping": 7, "messages": 7, "contents": 7, "conversations": 7, "input": 7, "system": 1}')
    with pytest.raises(BadMessage, match=f"{name}"):
        transcripts_or_check(file, name)


def transcripts_or_check(file: Path, name: str) -> None:
    for talk in read_transcripts(file, format=name).talks:
        check_all(talk)


def test_an_unknown_format_is_refused_with_those_that_are_known(tmp_path: Path) -> None:
    with pytest.raises(BadMessage, match="format is one of openai, anthropic"):
        read_transcripts(tmp_path / "x", format="whatsapp")


def test_a_message_that_nobody_could_mean_is_named_before_anything_is_said(tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(json.dumps([user("q"), {"role": "robot", "content": "x"}]))
    (talk,) = transcripts(file)
    with pytest.raises(BadMessage, match=r"^message 2 of bad-0: role must be one of"):
        check_all(talk)
