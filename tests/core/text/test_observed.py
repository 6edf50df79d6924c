"""Observations: how programs write what an agent without tool calls gets back, and how it writes its calls."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.observed import SHELL, is_observation, without_frame, written_call

PROMPT = "(Open file: n/a)\n(Current directory: /srv/shop)\nbash-$"


@pytest.mark.parametrize(
    "text",
    [
        "OBSERVATION:\nok",
        "Observation: 12 rows",
        "Observation 3: 12 rows",
        "EXECUTION RESULT of [execute_bash]:\nok",
        "[read_file for 'src/a.ts'] Result:\n\nconst a = 1",
        "[list_files] Result:\nNo files found.",
        "[tool result for call_1]\nok",
        "<returncode>1</returncode>\n<output>\nno such file\n</output>",
        '<tool_response>\n{"name": "f"}\n</tool_response>',
        "<function_results>\nok\n</function_results>",
        "Command read_file returned: ok",
        "exitcode: 0 (execution succeeded)\nCode output: 3",
        f"stock.py  shop.py\n{PROMPT}",
        f"\n{PROMPT} ",
        "bash-5.1$",
    ],
)
def test_the_frame_of_a_program_is_known(text: str) -> None:
    assert is_observation(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "My observation: it is slow.",
        "I ran it: Observation: nothing. Why?",
        "Result: 3",
        "Here is what I got:\nbash-$ ls\nstock.py\nWhat now?",
        "[read_file for 'a'] Result:\nThe user says:\n<feedback>\nUse tabs.\n</feedback>",
        "<task>\nFix it\n</task>\n<environment_details>\n…\n</environment_details>",
        "<output>What is this?</output>",
        f"{PROMPT}\nPlease look at the prompt above.",
    ],
)
def test_what_a_person_says_is_none(text: str) -> None:
    assert not is_observation(text)


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("OBSERVATION:\nok", "ok"),
        ("EXECUTION RESULT of [execute_bash]:\nok", "ok"),
        ("<returncode>0</returncode>\n<output>\nyes\n</output>", "yes"),
        ("<returncode>1</returncode>\n<output>\nno\n</output>", "exit code: 1\nno"),
        ("exitcode: 1 (execution failed)\nno", "exit code: 1\nno"),
        ("<tool_response>\nok\n</tool_response>\n", "ok"),
        (f"ok\n{PROMPT}", f"ok\n{PROMPT}"),
    ],
)
def test_a_frame_is_left_out_but_for_how_it_ended(text: str, bare: str) -> None:
    assert without_frame(text) == bare


@pytest.mark.parametrize(
    ("text", "said", "tool", "arguments"),
    [
        ("DISCUSSION\nLet us look.\n```\nls -a\n```", "Let us look.", SHELL, {"command": "ls -a"}),
        ("THOUGHT: I look.\n\n```bash\ncat a\ncat b\n```", "I look.", SHELL, {"command": "cat a\ncat b"}),
        ("Thought: sum\nCode:\n```py\nprint(1)\n```", "sum", "py", {"command": "print(1)"}),
        ("One: ```\nx\n``` Two:\n```sh\ny\n```", "One: ```\nx\n``` Two:", SHELL, {"command": "y"}),
        ("It stops at the fence:\n```bash\nls", "It stops at the fence:", SHELL, {"command": "ls"}),
        (
            "I read it.\n<read_file>\n<path>a.ts</path>\n</read_file>",
            "I read it.",
            "read_file",
            {"path": "a.ts"},
        ),
        (
            "<write_to_file><path>a</path><content>\n<b>x</b>\n</content></write_to_file>\n",
            "",
            "write_to_file",
            {"path": "a", "content": "<b>x</b>"},
        ),
        ("DISCUSSION\nI open it.\n<command>\nopen a.py\n</command>", "I open it.", SHELL, {"command": "open a.py"}),
        (
            "Look.\n<function=execute_bash>\n<parameter=command>\nls\n</parameter>\n</function>",
            "Look.",
            "execute_bash",
            {"command": "ls"},
        ),
        ('Thought: find it\nAction: search\nAction Input: {"q": "x"}', "find it", "search", {"q": "x"}),
        ("Thought: find it\nAction: search\nAction Input: x y\nObservation:", "find it", "search", {"input": "x y"}),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', "", "f", {"a": 1}),
    ],
)
def test_a_written_call_is_parted_from_what_was_said(
    text: str, said: str, tool: str, arguments: dict[str, object]
) -> None:
    call = written_call(text)
    assert call is not None
    assert (call.said, call.tool, json.loads(call.arguments)) == (said, tool, arguments)


@pytest.mark.parametrize(
    "text",
    ["", "Shall I read it?", "<b>bold</b>", "``` ```", "<tool_call>no JSON</tool_call>", "Action: none", "<function=>"],
)
def test_a_text_without_a_call_has_none(text: str) -> None:
    assert written_call(text) is None


@given(st.text(alphabet="<>=/`ab \n:{}[]\"'", max_size=400))
def test_no_text_breaks_it(text: str) -> None:
    is_observation(text)
    without_frame(text)
    written_call(text)
