"""Spill in special cases: failed calls, answers of the read tool, images, and a store that is down."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from actors.core.caps import CAP_TOKENS_MIN, cap_tokens
from actors.core.entry import IMAGE_TOKENS
from actors.core.flow import next_actor
from actors.core.text.error_text import ERROR_CHARS, error_text
from actors.spill.labels import KEY_CHARS
from actors.spill.without_store import degraded
from protocol.facts import CompactionDeclined, ToolOutputSpilled, ToolOutputTrimmed
from protocol.policy import Policy
from protocol.tools import READ_TOOL
from tests.builders import COUNT, Talk, assistant, policy, result, user, words

WANTED = policy(10_000, spill={"share": 0.03, "preview": 0.9})


def called(tool: str, text: Any, wanted: Policy = WANTED) -> Talk:
    """Return a conversation in which *tool* answered *text* and nobody has acted."""
    talk = Talk(wanted)
    call = {"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    talk.append({"role": "assistant", "content": None, "tool_calls": [call]}, result("c", text))
    return talk


def shown(talk: Talk) -> str:
    talk.settle()
    text = talk.shown()[-1]["content"]
    assert isinstance(text, str)
    return text


TRACE = "Traceback (most recent call last):\n" + '  File "/a.py", line 1, in f\n    f()\n' * 9 + "KeyError: 'ORD-7'\n"


@pytest.mark.parametrize(
    ("text", "words_of_it"),
    [
        ("Error: no such pod", "Error: no such pod"),
        ("fatal: not a git repository", "fatal: not a git repository"),
        ("[ERROR]: no disk", "[ERROR]: no disk"),
        ("botocore.exceptions.ClientError: denied", "botocore.exceptions.ClientError: denied"),
        ("Error executing tool look: 404", "Error executing tool look: 404"),
        ("bash: foo: command not found", "bash: foo: command not found"),
        (TRACE, "Traceback (most recent call last):\nKeyError: 'ORD-7'"),
        (
            'Exception in thread "main" a.B: x\n\tat a.b(C.java:1)\nCaused by: c.D: full\n\tat e.f(G.java:2)',
            'Exception in thread "main" a.B: x\nCaused by: c.D: full',
        ),
        ('{"error": "no disk", "data": []}', "error: no disk"),
        ('{"errors": [{"code": 7}]}', 'errors: [{"code": 7}]'),
        ('{"success": false, "message": "over quota"}', "message: over quota"),
        ('{"exit_code": 2, "stdout": "x", "stderr": "boom"}', "exit code 2\nstderr: boom"),
        ('{"status": "failed"}', "the call failed"),
        ("compiling\na.c:3: error: no x\nmore\nexit code: 2", "exit code: 2\na.c:3: error: no x"),
        ("Process exited with code 137", "Process exited with code 137"),
        ("", ""),
        ("fine", ""),
        ("Error handling in Python: a guide\nexit", ""),
        ("errors: 0", ""),
        ("A mere error: in a sentence", ""),
        ("2026-01-01 10:00:00 ERROR no disk", ""),
        ("done\nexit code: 0", ""),
        ("The process exited with code 3 because of a fault\n" + "text\n" * 9, ""),
        ('{"error": null, "errors": [], "data": [1]}', ""),
        ('{"stderr": "warning: old", "exit_code": 0}', ""),
        ('["error"]', ""),
        ("\ud800", ""),
    ],
)
def test_a_failed_call_is_told_by_its_form(text: str, words_of_it: str) -> None:
    assert error_text(text) == words_of_it


def test_the_words_of_an_error_are_bounded() -> None:
    assert len(error_text("Error: " + "x" * 9000)) == ERROR_CHARS


@pytest.mark.parametrize(
    ("text", "first"),
    [
        (json.dumps({"data": [words(9)] * 400, "error": "quota of ORD-7 is used up"}), "error: quota of ORD-7 is used"),
        (words(5) + "\n" + "step\n" * 900 + "link error: no x_y\nexit code: 1", "exit code: 1\nlink error: no x_y"),
        (TRACE.replace("f()\n", "f()\n" * 200), "Traceback (most recent call last):\nKeyError: 'ORD-7'"),
        ("Error: no such pod web-7\n" + words(3000), "Error: no such pod web-7"),
    ],
)
def test_of_a_failed_call_the_error_is_shown_first_and_the_rest_is_kept(text: str, first: str) -> None:
    talk = called("look", text)
    lead, _, below = shown(talk).partition("\n")
    assert "are kept as an artifact" in lead
    assert below.startswith(first)
    assert list(talk.bodies.values()) == [text.encode()]
    assert COUNT(shown(talk)) <= cap_tokens(WANTED, 10_000)


READ = "\n".join(f"row {number} of the artifact that is read" for number in range(400))


def test_an_answer_of_the_read_tool_is_trimmed_in_place_and_never_an_artifact_again() -> None:
    talk = called(READ_TOOL, READ)
    text = shown(talk)
    (fact,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputTrimmed)]
    assert (fact.number, fact.text, fact.owed, talk.bodies) == (2, text, False, {})
    assert fact.text_tokens == COUNT(text) <= cap_tokens(WANTED, 10_000)
    rows, _, said = text.partition("\n[… ")
    assert READ.startswith(rows + "\n")
    left = 400 - len(rows.split("\n"))
    assert said.startswith(f"{left:,} more lines (")
    assert said.endswith("one result may have 300 tokens. Ask for fewer lines or bytes, or give a pattern.]")
    assert "read_artifact" not in text


def test_an_answer_of_the_read_tool_within_the_cap_stays_as_it_is() -> None:
    text = words(cap_tokens(WANTED, 10_000))
    assert shown(called(READ_TOOL, text)) == text


@pytest.mark.parametrize("text", ["x" * 70_000, "日本" * 9000, "\ud800" * 9000, words(9000)])
@pytest.mark.parametrize("window", [300, 5000])
def test_a_trimmed_answer_is_within_its_cap(text: str, window: int) -> None:
    wanted = policy(window)
    talk = called(READ_TOOL, text, wanted)
    talk.settle()
    (fact,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputTrimmed)]
    assert fact.text_tokens == COUNT(fact.text) <= max(CAP_TOKENS_MIN, cap_tokens(wanted, window))


def test_reading_back_what_was_read_back_makes_no_second_artifact() -> None:
    talk = called("look", READ)
    talk.settle()
    kept = dict(talk.bodies)
    for number in range(5):
        call = {"id": f"r{number}", "type": "function", "function": {"name": READ_TOOL, "arguments": "{}"}}
        talk.play({"role": "assistant", "content": None, "tool_calls": [call]}, result(f"r{number}", READ))
    assert talk.bodies == kept
    assert sum(isinstance(fact, ToolOutputSpilled) for fact in talk.facts) == 1


def picture(size: int) -> str:
    return "data:image/png;base64," + base64.b64encode(bytes(index % 251 for index in range(size))).decode()


@pytest.mark.parametrize("role", ["user", "tool"])
def test_an_inline_image_over_the_bytes_cap_becomes_an_artifact_with_a_description(role: str) -> None:
    url = picture(40_000)  # larger ones are uploaded, and shown
    content = [{"type": "text", "text": "what is this?"}, {"type": "image_url", "image_url": {"url": url}}]
    talk = Talk(policy(spill={"bytes": 50_000}))
    talk.append(*([user(content)] if role == "user" else [assistant(None, "c"), result("c", content)]))
    talk.settle()
    (fact,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]
    sha256 = hashlib.sha256(url.encode()).hexdigest()
    assert talk.bodies == {sha256: url.encode()}
    assert (fact.kind, fact.tokens, fact.bytes) == ("image", IMAGE_TOKENS, len(url))
    text = (
        f"[image/png of {len(url):,} bytes as it was sent, kept as the artifact {sha256[:KEY_CHARS]}; "
        "it is not shown here. Do not guess what is in it.]"
    )
    assert talk.shown()[-1]["content"] == [content[0], {"type": "text", "text": text}]
    assert talk.state.live[-1].tokens < IMAGE_TOKENS


def test_a_smaller_inline_image_is_shown() -> None:
    message = user([{"type": "image_url", "image_url": {"url": picture(30_000)}}])
    talk = Talk(WANTED)
    talk.play(message)
    assert talk.shown() == [message]


BIG = "\n".join(f"line {number} of what the store did not take" for number in range(200))


def without_store(talk: Talk) -> tuple[ToolOutputTrimmed | CompactionDeclined, ...]:
    """Let spill act while the store is down, and return its facts."""
    found = degraded(talk.state, reason="S3 is down", count=COUNT)
    assert found is not None
    talk.land(talk.sealed(found.facts))
    return tuple(fact for fact in found.facts if isinstance(fact, ToolOutputTrimmed | CompactionDeclined))


def test_what_an_outage_left_unstored_is_stored_by_the_next_step_and_the_view_does_not_change() -> None:
    talk = called("look", BIG)
    (trimmed,) = without_store(talk)
    assert isinstance(trimmed, ToolOutputTrimmed)
    assert trimmed.owed
    before = talk.view().messages
    assert next_actor(talk.state) is None
    talk.append(user(words(400, "later")))
    talk.settle()
    sha256 = hashlib.sha256(BIG.encode()).hexdigest()
    assert talk.bodies[sha256] == BIG.encode()
    owed = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled) and fact.number == 2]
    assert owed == [
        ToolOutputSpilled(
            number=2,
            pointer="/content",
            sha256=sha256,
            bytes=len(BIG),
            tokens=COUNT(BIG),
            estimated=False,
            kind="text",
            text=trimmed.text,
            text_tokens=trimmed.text_tokens,
        )
    ]
    assert talk.view().messages[:2] == before
    talk.play(user(words(400, "again")))
    assert sum(isinstance(fact, ToolOutputSpilled) and fact.number == 2 for fact in talk.facts) == 1


REFUSING = policy(10_000, spill={"share": 0.03, "on_store_error": "refuse", "medium": 0.025})


def test_a_store_that_is_down_may_mean_that_the_model_is_asked_for_less() -> None:
    (fact,) = without_store(called("look", BIG, REFUSING))
    assert isinstance(fact, ToolOutputTrimmed)
    assert fact.text == (
        f"[Error: this result of {COUNT(BIG):,}/300 tokens ({len(BIG):,} bytes) is too large to return and could not "
        "be stored. Repeat the call so that it returns less: narrow down the query, filter, or ask for fewer lines.]"
    )
    assert not fact.owed


def test_what_a_user_said_is_never_refused() -> None:
    talk = Talk(REFUSING)
    talk.append(user(BIG))
    (fact,) = without_store(talk)
    assert isinstance(fact, ToolOutputTrimmed)
    assert fact.text.endswith(BIG[-80:])
    assert fact.owed


def test_a_result_of_medium_size_is_never_refused() -> None:
    (fact,) = without_store(called("look", "\n".join(f"tick {number} went well" for number in range(47)), REFUSING))
    assert isinstance(fact, ToolOutputTrimmed)
    assert (fact.owed, fact.text_tokens < fact.tokens <= 300) == (True, True)
    assert fact.text.startswith("[Shortened from")


def test_a_result_that_is_a_block_of_a_users_message_is_held_to_its_own_tool() -> None:
    talk = Talk(policy(8000))
    tools = {"a": "look", "b": READ_TOOL}
    calls = [{"type": "tool_use", "id": ident, "name": name, "input": {}} for ident, name in tools.items()]
    blocks = [{"type": "tool_result", "tool_use_id": ident, "content": f"{ident}\n{BIG}"} for ident in "ab"]
    said = {"type": "text", "text": f"And mine:\n{BIG}\nWhat is wrong with ORD-7?"}
    talk.play(user("go"), {"role": "assistant", "content": calls}, user([*blocks, said]))
    spilled, mine = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]
    (reading,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputTrimmed)]
    pointers = (spilled.pointer, reading.pointer, mine.pointer)
    assert pointers == ("/content/0/content", "/content/1/content", "/content/2/text")
    assert mine.text.endswith("What is wrong with ORD-7?")
