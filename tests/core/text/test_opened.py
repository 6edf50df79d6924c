"""Results in the envelopes of protocols are read as what they say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.excerpt import readable_lines
from actors.core.text.opened import KNOWN, opened
from actors.core.text.slices import found_in
from actors.digest.habits import without_given

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def result(*blocks: dict[str, Any], **more: Any) -> str:
    return json.dumps({"content": list(blocks), **more})


@pytest.mark.parametrize(
    ("wrapped", "said"),
    [
        (json.dumps(block("two\nlines", annotations=None, meta=None)), "two\nlines"),
        (json.dumps([block("one"), block("two")]), "one\ntwo"),
        (result(block('{"id": 7}'), isError=False, structuredContent=None), '{"id": 7}'),
        (json.dumps(block(result(block('{"id": 7}')))), '{"id": 7}'),
        (result(block("no such page"), isError=True), '{"error": "no such page"}'),
        (json.dumps([block('{"id": 7}'), block("two")]), '[{"id": 7}, "two"]'),
        (result(block("a"), {"type": "image", "data": "b"}), '{"content": ["a", {"type": "image", "data": "b"}]}'),
    ],
)
def test_what_stands_in_an_envelope_is_read(wrapped: str, said: str) -> None:
    assert opened(wrapped) == said


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        '{"type": "text"',
        '{"id": 7, "type": "text"}',
        json.dumps({"type": "text", "text": "kept", "name": "a field of its own"}),
        json.dumps({"file": '{"name": "jettison"}'}),
        "[" * 5_000,
    ],
)
def test_anything_else_stays_as_it_is(text: str) -> None:
    assert opened(text) == text


@given(JSON)
def test_any_json_in_an_envelope_comes_out_the_same(value: Any) -> None:
    text = json.dumps(value)
    out = opened(json.dumps(block(text)))
    assert opened(out) == out
    if isinstance(value, dict | list) and value and "text" not in text and "content" not in text:
        assert json.loads(out) == value


def test_deeper_json_in_strings_and_links_for_programs_are_opened_to_be_told() -> None:
    user = {"login": "ada", "url": "https://api.example/u/1", "events_url": "https://api.example/u/1/e"}
    told = json.loads(
        opened(json.dumps({"body": '{"id": 7}', "user": {**user, "html_url": "https://example/ada"}}), deep=True)
    )
    assert told == {"body": {"id": 7}, "user": {"login": "ada", "html_url": "https://example/ada"}}
    assert json.loads(opened(json.dumps({"user": user}), deep=True)) == {"user": user}


def test_a_lone_surrogate_and_a_depth_without_end_are_survived() -> None:
    assert opened(json.dumps(block("\ud800x"))) == "\ufffdx"
    text = "deep"
    for _ in range(12):
        text = json.dumps(block(text))
    assert "deep" in opened(text)


def test_a_path_finds_what_stands_in_an_envelope() -> None:
    wrapped = result(block(json.dumps({"pages": [{"id": "p7"}]})))
    assert list(found_in(wrapped, "$.pages[0].id")) == ['"p7"']
    assert list(found_in(wrapped, "$.content[0].type")) == ['"text"']
    assert list(found_in(wrapped, "$.books")) == ["[nothing is found at this path]"]


def test_what_all_objects_have_alike_is_told_once() -> None:
    blocks = [
        {"object": "block", "id": f"b{at}", "archived": False, "text": {"bold": False, "said": f"word {at}"}}
        for at in range(9)
    ]
    lines = readable_lines(json.dumps({"results": blocks}), indented=True)
    assert lines[:2] == ["(in each of results: object block, archived false)", "(in each of text: bold false)"]
    assert [line for line in lines if "b7" in line] == ["b7, (word 7)"]
    one_archived = [*blocks[:8], {**blocks[8], "archived": True}]
    told = readable_lines(json.dumps({"results": one_archived}), indented=True)
    assert "archived false" not in told[0]
    assert sum("true" in line for line in told) == 1


def test_an_object_that_only_some_have_is_seen_where_it_stands() -> None:
    failed = {"error": {"code": 500}}
    jobs = [{"id": at, "name": f"job{at}", **(failed if at in (1, 3, 5, 7) else {})} for at in range(10)]
    lines = readable_lines(json.dumps({"jobs": jobs, "note": "x" * 200}), indented=True)
    assert "(in each of error: code 500)" in lines
    assert [line for line in lines if "job3" in line] == ["jobs: id 3, name job3, error ()"]
    assert [line for line in lines if "job4" in line] == ["jobs: id 4, name job4"]


def test_two_places_of_one_name_are_told_apart() -> None:
    pulls = [
        {"id": at, "author": {"user": {"login": f"a{at}", "role": "admin"}}, "reviewer": {"user": {"login": f"b{at}"}}}
        for at in range(5)
    ]
    lines = readable_lines(json.dumps(pulls), indented=True)
    assert lines[0] == "(in each of author.user: role admin)"
    rows = {name: [{"sku": f"{name}{at}", "price": at, "note": "y" * 40 + str(at)} for at in range(6)] for name in "AB"}
    told = readable_lines(json.dumps({name: {"rows": some} for name, some in rows.items()}), indented=True)
    assert "A.rows: (sku, price, note):" in told
    assert "B.rows: (sku, price, note):" in told


def test_lines_of_a_file_in_json_stay_as_they_are() -> None:
    methods = "".join(f"class {name}:\n    def run(self):\n        return 1\n" for name in "AB")
    told = readable_lines(json.dumps({"content": methods + "# pad\n" * 40}), indented=True)
    assert told.count("    def run(self):") == 2


@pytest.mark.parametrize("depth", [90, 101, 240, 600, 950])
def test_deep_json_is_read_as_text(depth: int) -> None:
    text = '{"a": ' * depth + json.dumps(block('{"id": 7}')) + "}" * depth
    for deep in (False, True):
        assert "7" in opened(text, deep=deep)
    assert any("7" in line for line in readable_lines(text, indented=True))
    assert "7" in without_given(text, {"x" * 80: 3}, own=2)


def test_what_is_kept_is_bounded_by_what_was_read() -> None:
    for at in range(60):
        wrapped = json.dumps({"content": [block(f"ok {at}")], "structuredContent": {"at": at, "x": "y" * 50_000}})
        assert opened(wrapped) == f"ok {at}"
    assert len(KNOWN) <= 2 * 800_000 // 50_000


SHELL_END = "Error: (none)\nExit Code: 0\nSignal: 0\nBackground PIDs: (none)\nProcess Group PGID: 135"
EMPTY_LIST: list[str] = []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"Command: mkdir x\nDirectory: (root)\nOutput: (empty)\n{SHELL_END}", ""),
        (f"Command: cat <<E\na\nE\nDirectory: /a\nOutput: x\nError: y\n{SHELL_END}", "x\nError: y"),
        (
            f"Command: ls\nDirectory: /a\nStdout: x\ny\nStderr: (empty)\n{SHELL_END.replace(' 0', ' (none)', 2)}",
            "x\ny",
        ),
        (
            "Command: npm test\nDirectory: (root)\nOutput: > tsc\nerror TS1: x\nError: Command failed\nExit Code: 2\n"
            "Signal: 0\nBackground PIDs: 77",
            "> tsc\nerror TS1: x\nError: Command failed\nExit Code: 2\nBackground PIDs: 77",
        ),
        ("Command: ls\nDirectory: /a\nStdout: x", "Command: ls\nDirectory: /a\nStdout: x"),
        (
            f"Command: npm audit\nDirectory: /a\nOutput: Critical: (none)\nHigh: (none)\n{SHELL_END}",
            "Critical: (none)\nHigh: (none)",
        ),
        ("Command: go on\nError: 7\nExit Code: 2", "Command: go on\nError: 7\nExit Code: 2"),
    ],
)
def test_what_a_shell_printed_is_told_without_its_frame(text: str, told: str) -> None:
    assert opened(text, deep=True) == told
    assert opened(text) == text


@pytest.mark.parametrize(
    ("answered", "told"),
    [
        (
            [
                {
                    "functionResponse": {
                        "name": "push",
                        "response": {**json.loads(result(block("409 empty"))), "isError": True},
                    }
                }
            ],
            "409 empty",
        ),
        ([{"functionResponse": {"name": "push", "response": {"code": 7}}}], '{"code": 7}'),
        (EMPTY_LIST, "[]"),
    ],
)
def test_the_error_that_a_tool_answered_is_told_without_the_call_before_it(answered: object, told: str) -> None:
    call = json.dumps({"name": "push", "args": {"text": "a with response: b"}})
    text = f"MCP tool 'push' reported tool error for function call: {call} with response: {json.dumps(answered)}"
    assert opened(text, deep=True) == f"Error: {told}"
    assert opened(f"{text} and more", deep=True) == f"{text} and more"


def test_the_end_of_a_frame_is_looked_for_in_time() -> None:
    text = "Command: make\n" + "Error: no rule\n" * 14_000 + "done"
    assert opened(text, deep=True) == text


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"exit_status": "exit status: 0", "stdout": "a\nb\n", "stderr": ""}, "a\nb"),
        ({"exit_code": 1, "stdout": "", "stderr": "no such file"}, "exit code: 1\nno such file"),
        ({"stdout": "a", "stderr": "warning", "interrupted": False, "isImage": False}, "a\nwarning"),
        ({"output": "a\nb\n", "metadata": {"exit_code": 0, "duration_seconds": 0.1}}, "a\nb"),
        ({"output": "a", "metadata": {"exit_code": 2}}, "exit code: 2\na"),
        ({"success": False, "stdout": "a"}, "error: the call failed\na"),
        ({"stdout": "a", "exit_code": None, "timed_out": True}, "error: timed out\na"),
        ({"stdout": "a", "exit_code": None, "signal": "SIGKILL"}, "error: ended by signal SIGKILL\na"),
        ({"stdout": None, "stderr": None, "exit_code": 0}, ""),
    ],
)
def test_what_a_command_printed_is_told_as_it_was_printed(value: dict[str, Any], told: str) -> None:
    assert opened(json.dumps(value), deep=True) == told
    assert opened(json.dumps(value)) == json.dumps(value)


@pytest.mark.parametrize(
    "value",
    [
        {"output": "a", "rows": 3, "exit_code": 0},
        {"output": "a"},
        {"output": "a", "metadata": {"exit_code": 0, "rows": 3}},
        {"stdout": 3},
        {"stdout": "a", "exit_code": "x"},
        {"output": {"a": 1}, "exit_code": 0},
        {"exit_code": 0},
    ],
)
def test_another_record_is_no_commands_output(value: dict[str, Any]) -> None:
    assert opened(json.dumps(value), deep=True) == json.dumps(value)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n{}", "{}"),
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\n{}", "exit code: 2\n{}"),
        (
            "Chunk ID: 82a1aa\nWall time: 0.2785 seconds\nProcess exited with code 0\n"
            "Original token count: 2843\nOutput:\n{}",
            "{}",
        ),
        ("Chunk ID: 82a1aa\nWall time: 1.0 seconds\nProcess exited with code 7\nOutput:\n{}", "exit code: 7\n{}"),
        (
            "Chunk ID: 1\nWall time: 1.0 seconds\nProcess running with session ID 41\nOriginal token count: 1\n"
            "Output:\n{}",
            "still running, session 41\n{}",
        ),
        ("Wall time: half a minute\nOutput:\n{}", "Wall time: half a minute\nOutput:\n{}"),
    ],
)
def test_what_codex_puts_above_what_a_command_printed_is_no_part_of_it(frame: str, told: str) -> None:
    printed = "a pump\nWall time: 3 seconds\nOutput:\nof a test"
    assert opened(frame.format(printed), deep=True) == told.format(printed)
