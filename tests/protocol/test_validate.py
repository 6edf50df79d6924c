"""Legal: each thing that a provider would refuse is found, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from protocol.formats.messages import ANTHROPIC, RESPONSES
from protocol.formats.validate import problems
from tests.builders import assistant, result, sample, system, user

ABSENT = "message 3: a call before it has no result"


@pytest.mark.parametrize(
    "view",
    [
        [],
        [system("s"), user("u"), assistant("a")],
        [assistant(None, "a", "b"), result("b"), result("a"), assistant(None, "c"), result("c")],
        [user("u"), assistant(None, "still-open")],
        sample(),
    ],
)
def test_what_a_provider_takes_has_no_problems(view: list[dict[str, Any]]) -> None:
    assert problems(view) == []


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([result("a")], ["message 1: a result without its call"]),
        ([assistant(None, "a"), result("b")], ["message 2: a result without its call"]),
        ([assistant(None, "a"), result("a"), result("a")], ["message 3: a result without its call"]),
        ([user("u"), assistant(None, "a", "b"), user("v")], [ABSENT, ABSENT]),
        ([assistant(None, "a"), user("v"), result("a")][1:], ["message 2: a result without its call"]),
        ([assistant(None, "a", "a"), result("a")], ["message 1: a call id stands twice"]),
        (
            [assistant(None, "a"), result("a"), assistant(None, "a"), result("a")],
            ["message 3: a call id stands twice"],
        ),
        ([user(7)], ["message 1: content must be text or a list of parts, not int"]),
    ],
)
def test_what_a_provider_refuses_is_named(view: list[dict[str, Any]], found: list[str]) -> None:
    assert problems(view) == found


TOLD = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
USED: dict[str, Any] = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
CALL = {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "t", "output": "x"}
REASONING = {"type": "reasoning", "id": "rs", "summary": []}
MARKED = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}


def blocks(role: str, *found: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(found)}


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([system("s"), user("u"), USED, user([TOLD])], []),
        ([user("u"), USED], []),
        ([user("u"), blocks("assistant", SIGNED, USED["content"][0]), user([TOLD, MARKED])], []),
        ([assistant("a")], ["the user must begin"]),
        ([system("s")], ["no message but the instructions"]),
        ([user("u"), user("v")], ["message 2: two messages of the user in a row"]),
        ([user("u"), system("s"), user("v")], []),
        ([user("u"), system(" ")], ["message 2: not a message of Anthropic's"]),
        ([user("")], ["message 1: a blank text"]),
        ([user([])], ["message 1: no content"]),
        ([user("u"), USED, user("v")], ["message 3: a call before it has no result"]),
        ([user([TOLD])], ["message 1: a result without its call"]),
        ([user("u"), USED, user([MARKED, TOLD])], ["message 3: results must stand before anything else"]),
        ([user("u"), USED, user([TOLD, TOLD])], ["message 3: two results of one call"]),
        ([user("u"), blocks("assistant", SIGNED)], ["message 2: reasoning at the end"]),
        ([user("u"), assistant("a ")], ["message 2: white space at the end"]),
        ([user("u"), blocks("assistant", {"type": "text", "text": "a "})], ["message 2: white space at the end"]),
        ([user([MARKED] * 5)], ["more than 4 cache marks"]),
        ([user([{"type": "image_url", "image_url": {"url": "x"}}])], ["message 1: a block of another provider's"]),
    ],
)
def test_what_anthropic_refuses_is_named(view: list[dict[str, Any]], found: list[str]) -> None:
    assert problems(view, ANTHROPIC) == found


@pytest.mark.parametrize(
    ("view", "found"),
    [
        ([system("s"), user("u"), REASONING, CALL, OUTPUT, assistant("a")], []),
        ([user("u"), REASONING, CALL], []),
        ([OUTPUT], ["message 1: a result without its call"]),
        ([CALL, user("u")], ["message 2: a call before it has no result"]),
        ([CALL, OUTPUT | {"type": "custom_tool_call_output"}], ["message 2: a result of another type than its call's"]),
        ([REASONING, user("u")], ["message 1: reasoning without what it led to"]),
        ([user("u"), REASONING], ["message 2: reasoning without what it led to"]),
        ([user([{"type": "text", "text": "x"}])], ["message 1: not an item of OpenAI Responses"]),
    ],
)
def test_what_openai_responses_refuses_is_named(view: list[dict[str, Any]], found: list[str]) -> None:
    assert problems(view, RESPONSES) == found


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (assistant("a") | {"tool_calls": []}, ["message 1: no content, or an empty list of calls"]),
        (user(None), ["message 1: no content, or an empty list of calls"]),
        (CALL, ["message 1: not in the format of OpenAI chat", "message 1: no content, or an empty list of calls"]),
    ],
)
def test_what_openai_chat_refuses_is_named(message: dict[str, Any], found: list[str]) -> None:
    assert problems([message]) == found
