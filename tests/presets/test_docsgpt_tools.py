"""DocsGPT's cases of large results, of counting and of the last gate (G19 to G23, G32 to G39), under `docsgpt`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.cli.policy_import import from_docsgpt
from actors.core.entry import IMAGE_TOKENS
from actors.core.pressure import trigger_tokens
from actors.core.written_words import ABORTED
from protocol.errors import BudgetRefused
from protocol.facts import (
    ContextServed,
    HistoryDigested,
    HistorySummarized,
    MessageRepaired,
    OverflowReported,
)
from protocol.formats.validate import problems
from protocol.policy import resolve
from tests.builders import COUNT, Talk, assistant, result, system, user, words
from tests.presets.docsgpt import CASES, docsgpt, facts_of, lines, turn


@CASES.of("G19", "G21", "G32")
@pytest.mark.parametrize(("cap", "leaves"), [(4_999, True), (5_000, False), (0, False)], ids=["over", "equal", "off"])
def test_a_result_over_the_cap_is_a_pointer_and_the_whole_is_kept(cap: int, leaves: bool) -> None:
    talk = Talk(resolve([from_docsgpt({"TOOL_RESULT_MAX_TOKENS": str(cap)}).layer]))
    said = result("c", words(5_000))
    talk.play(user("why?"), assistant(None, "c"), said)
    assert (talk.view().messages[-1] == talk.state.live[-1].raw) is not leaves
    assert [body.decode() for body in talk.bodies.values()] == ([words(5_000)] if leaves else [])
    assert json.loads(talk.state.live[-1].raw) == said


@CASES.of("G20", "G32")
@pytest.mark.parametrize("tokens", [1, 160, 161, 400])
def test_a_cap_of_one_token_makes_nothing_larger(tokens: int) -> None:
    talk = Talk(docsgpt(spill={"tokens": 1}))
    talk.play(user("why?"), assistant(None, "c"), result("c", words(tokens)))
    assert COUNT(talk.shown()[-1]["content"]) <= tokens


@CASES.of("G22")
def test_an_image_costs_the_same_however_many_bytes_it_has() -> None:
    def cost(size: int, images: int) -> int:
        url = "data:image/png;base64," + "A" * size
        chat = [{"type": "image_url", "image_url": {"url": url}}] * images
        talk = Talk(docsgpt())
        talk.append(user([{"type": "text", "text": words(10)}, *chat]))
        return talk.state.live_tokens

    assert [cost(100, 1), cost(40_000, 1), cost(100, 2), cost(100, 0)] == [
        14 + IMAGE_TOKENS,
        14 + IMAGE_TOKENS,
        14 + 2 * IMAGE_TOKENS,
        14,
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "A" * 40_000}
    talk = Talk(docsgpt())
    talk.append(user([{"type": "text", "text": words(10)}, {"type": "image", "source": source}]))
    assert talk.state.live_tokens == 14 + IMAGE_TOKENS


@CASES.of("G23", "X8")
def test_arguments_of_calls_and_tool_definitions_are_counted() -> None:
    # defect X8: theirs counts an assistant message without content as nothing
    talk = Talk(docsgpt())
    talk.append(assistant(None, "c", arguments=json.dumps({"text": words(500)})))
    assert talk.state.live_tokens > 500
    bare, tooled = docsgpt(), docsgpt(budget={"tools": 1_000})
    assert bare.usable_tokens - tooled.usable_tokens == 1_000
    assert trigger_tokens(Talk(bare).state) - trigger_tokens(Talk(tooled).state) == 1_000


@CASES.of("G28")
@pytest.mark.parametrize(
    "call",
    [
        {"type": "function", "function": {"name": "look", "arguments": "{}"}},
        {"id": "c", "type": "function", "function": {"name": "look", "arguments": {"path": "/a"}}},
    ],
    ids=["no id", "arguments that are no text"],
)
def test_a_call_that_no_provider_takes_is_refused_by_name_and_nothing_is_made_up(call: dict[str, Any]) -> None:
    # theirs makes up an id and writes the arguments as JSON
    talk = Talk(docsgpt())
    talk.play(user("q"), {"role": "assistant", "content": None, "tool_calls": [call]}, user("x"))
    (repair,) = talk.facts
    assert isinstance(repair, MessageRepaired)
    assert (repair.number, repair.kind, "/tool_calls/0" in repair.detail) == (2, "refused", True)
    assert talk.shown() == [user("q"), user("x")]


@CASES.of("G39")
def test_no_compaction_comes_between_the_results_of_one_batch() -> None:
    talk = Talk(docsgpt(6000))
    talk.play(*turn(0), *turn(1), user("Read five pages."), assistant(None, *"abcde"))
    for call in "abcd":
        talk.play(result(call, lines(1000)))
        assert facts_of(talk, HistoryDigested) == []
    talk.play(result("e", lines(1000)))
    assert len(facts_of(talk, HistoryDigested)) == 1
    assert [message.get("tool_call_id") for message in talk.shown()][-5:] == list("abcde")


@CASES.of("G33")
def test_a_view_within_the_window_is_untouched_and_one_above_it_is_cut() -> None:
    talk = Talk(docsgpt())
    talk.play(
        user("why?"), assistant(None, "a"), result("a", lines(8_000)), assistant(None, "b"), result("b", lines(9_000))
    )
    whole = talk.view()
    assert whole.level == "none"
    assert talk.view(whole.tokens).messages == whole.messages
    cut = talk.view(whole.tokens - 1)
    assert cut.tokens < whole.tokens
    assert problems([json.loads(raw) for raw in cut.messages]) == []


@CASES.of("G33", "G37")
def test_at_last_instructions_and_the_last_question_are_left_and_then_a_refusal_before_anything_is_sent() -> None:
    talk = Talk(docsgpt(digest={"mode": "off"}))
    talk.play(system(words(100)), *turn(0), *turn(1), user("And now?"))
    assert [message["role"] for message in talk.shown(120)] == ["system", "user"]
    with pytest.raises(BudgetRefused):
        talk.view(12)
    assert facts_of(talk, ContextServed) == []


@CASES.of("G34")
def test_calls_that_an_agent_gives_up_are_answered_and_its_wrap_up_is_the_users() -> None:
    talk = Talk(docsgpt(squeeze={"mode": "off"}, digest={"mode": "off"}))
    talk.play(user("Read them."), assistant(None, "a", "b"), result("a"), user("Answer with what you have."))
    answers = [message["content"] for message in talk.shown() if message["role"] == "tool"]
    assert answers == ["done", ABORTED]
    assert problems(talk.shown()) == []
    assert talk.shown()[-1]["role"] == "user"


def test_a_provider_that_refuses_a_view_gets_a_smaller_one_without_a_model() -> None:
    talk = Talk(docsgpt())
    talk.play(*(message for number in range(10) for message in turn(number)))
    before = talk.view().tokens
    talk.say(OverflowReported(message="prompt is too long"))
    talk.settle()
    assert talk.view().tokens < before / 2
    assert facts_of(talk, HistorySummarized) == []
