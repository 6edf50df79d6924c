"""HolmesGPT: its cases H21 to H38, and the four defects of it that ours must not have, under the preset `holmes`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from actors.audit.replay import replay
from actors.cli.policy_import import from_holmes
from actors.core.pressure import trigger_tokens
from actors.squeeze.act import Asking
from actors.squeeze.chunks import RESULT_TOKENS_MAX
from actors.squeeze.decide import Ask, Completion, answer_tokens_max, fits, squeeze
from actors.squeeze.model import OpenAiModel
from protocol.errors import BudgetRefused
from protocol.facts import CompactionDeclined, HistoryDigested, HistorySummarized, StageFailed
from protocol.policy import resolve
from tests.builders import (
    AT,
    COUNT,
    Talk,
    asked_of,
    assistant,
    result,
    said_by_model,
    sample,
    system,
    user,
    words,
)
from tests.presets import test_holmes_tools
from tests.presets.cases import lightened_sample
from tests.presets.holmes import CASES, NOT_OURS, holmes, lines, users
from tests.squeeze.summarizers import extractive, history_of, naming
from tests.stack import Refusal, Scripted, scripted_llm

TOO_LONG = Completion(too_long=True)


def asking(turns: int = 10, *, text: str = lines(500), **sections: Mapping[str, Any]) -> Talk:
    """Return an investigation whose history a model is asked to summarize, in a window that is just too small."""
    said = [system("You investigate."), user("Why does web-7 fail?")]
    for turn in range(turns):
        arguments = json.dumps({"path": f"/var/log/web-{turn}.log"})
        said.append(assistant(f"step {turn}", f"c{turn}", arguments=arguments))
        said.append(result(f"c{turn}", f"HEAD-100{turn} {text} TAIL-200{turn}"))
    measured = Talk(holmes(spill={"share": 1.0}))
    measured.append(*said)
    # 95 % less the answer's fifth
    window = math.ceil((measured.state.live_tokens + 1) / 0.75)
    talk = Talk(holmes(window, **({"spill": {"share": 1.0}} | sections)))
    talk.append(*said)
    assert talk.state.episode is None
    talk.append(user("And now?"))
    talk.until("squeeze")
    return talk


def refused(talk: Talk, *answers: Completion) -> CompactionDeclined:
    fact = squeeze(talk.state, answers, count=COUNT)
    assert isinstance(fact, CompactionDeclined), fact
    return fact


def test_their_defaults_said_as_settings_are_the_preset() -> None:
    said = {
        "TOOL_MAX_ALLOCATED_CONTEXT_WINDOW_PCT": "15",
        "TOOL_MAX_ALLOCATED_CONTEXT_WINDOW_TOKENS": "25000",
        "ENABLE_CONVERSATION_HISTORY_COMPACTION": "true",
        "CONTEXT_WINDOW_COMPACTION_THRESHOLD_PCT": "95",
    }
    assert resolve([from_holmes(said).layer]) == resolve([{"preset": "holmes"}])


@CASES.of("H32")
@pytest.mark.parametrize(("window", "mark"), [(128_000, 96_000), (200_000, 150_000), (1_000_000, 886_000)])
def test_compaction_begins_above_95_percent_less_the_answer_and_not_before(window: int, mark: int) -> None:
    wanted = resolve([{"preset": "holmes", "budget": {"window": window}, "spill": {"share": 1.0, "tokens": 2**40}}])
    talk = Talk(wanted)
    assert trigger_tokens(talk.state) == mark
    talk.append(*users(mark))
    assert talk.state.live_tokens == mark
    assert (talk.state.episode, talk.decided()) == (None, None)
    talk.append(user(words(1)))
    assert talk.state.episode is not None


@CASES.of("H21", "H36")
def test_the_history_goes_to_the_model_as_text_and_the_view_is_system_summary_and_last_prompt() -> None:
    talk = asking()
    asked = asked_of(talk)
    assert 'calls look({"path": "/var/log/web-3.log"})' in asked.user
    assert "HEAD-1003" in asked.user
    assert '"tool_calls"' not in asked.user
    talk.answer = extractive
    talk.settle()
    assert isinstance(talk.facts[-1], HistorySummarized)
    head, summary, last = talk.shown()
    assert (head, last) == (system("You investigate."), user("And now?"))
    assert (summary["role"], "Summary." in summary["content"]) == ("user", True)


CALLED = {"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]}
UNUSABLE: dict[str, tuple[Scripted, str]] = {
    "H22": (CALLED, "the model called a tool instead of answering"),
    "H23": (Refusal(status=400), "HTTP 400"),
    "H24": (Refusal(status=500), "HTTP 500"),
    "H25": ("", "the answer is empty"),
}


async def squeezed(talk: Talk, answer: Scripted) -> CompactionDeclined | StageFailed:
    """Let squeeze ask a real endpoint that answers so, and all four actors go on; return what it came to."""
    async with scripted_llm([answer]) as llm:
        asks = Asking(model=OpenAiModel(base_url=llm.base_url, api_key="none"))
        step = await asks.step(AT, talk.state, count=COUNT, release_credit=lambda: None)
    (fact,) = step.facts
    assert isinstance(fact, CompactionDeclined | StageFailed), fact
    talk.land(talk.sealed(step.facts))
    talk.settle()
    return fact


@CASES.of("H22", "H23", "H24", "H25")
@pytest.mark.parametrize("case", UNUSABLE)
async def test_an_unusable_answer_leaves_the_rules_digest_and_its_reason(case: str) -> None:
    # theirs asks again without tools (ours never sends any) and then keeps a history that is too long
    answer, reason = UNUSABLE[case]
    talk = asking(squeeze={"model": "m", "attempts": 1})
    before = talk.state
    assert before.digest is not None
    fact = await squeezed(talk, answer)
    assert reason in (fact.reason if isinstance(fact, CompactionDeclined) else fact.error)
    assert talk.state.digest == before.digest
    head, notes, last = talk.shown()
    assert (head, last) == (system("You investigate."), user("And now?"))
    assert all(value in notes["content"] for value in ("/var/log/web-3.log", "HEAD-1003"))
    assert talk.view().tokens <= talk.state.usable_tokens


@CASES.of("H26")
def test_no_thinking_is_ever_stored_with_a_summary() -> None:
    # defect: theirs keeps the private analysis
    talk = asking()
    talk.answer = lambda asked: f"<analysis>hidden</analysis>{extractive(asked)}<thinking>hidden too"
    talk.settle()
    assert isinstance(talk.facts[-1], HistorySummarized)
    assert "hidden" not in talk.view().body.decode()


@CASES.of("H27", "H34")
def test_a_history_larger_than_the_window_is_rolled_and_the_longest_result_keeps_its_ends() -> None:
    talk = asking(8, text=lines(1400), squeeze={"model": "m", "window": 4000})
    before = talk.state
    answers: tuple[Completion, ...] = ()
    asked: list[Ask] = []
    while isinstance(found := squeeze(talk.state, answers, count=COUNT), Ask):
        asked.append(found)
        answers = (*answers, said_by_model(extractive(found)))
    assert isinstance(found, HistorySummarized), found
    assert len(asked) > 1
    for one in asked:
        assert COUNT(one.system) + COUNT(one.user) + one.tokens_max <= 4000
    text = "\n".join(one.user for one in asked)
    assert all(f"HEAD-100{turn}" in text and f"TAIL-200{turn}" in text for turn in range(8))
    assert "never conclude" in asked[0].system
    assert talk.state == before


@CASES.of("H34", "H31")
@pytest.mark.parametrize(("tokens", "whole"), [(RESULT_TOKENS_MAX - 20, True), (2 * RESULT_TOKENS_MAX, False)])
def test_a_result_that_fits_is_given_whole_and_of_a_cut_one_the_rest_is_counted(tokens: int, whole: bool) -> None:
    talk = asking(4, text=words(tokens))
    said = f"HEAD-1001 {words(tokens)} TAIL-2001"
    history = history_of(asked_of(talk))
    assert (said in history) is whole
    if not whole:
        head, gone, tail = re.split(r"\n\[(\d+) characters are not shown here\]\n", history.partition("HEAD-1001")[2])[
            :3
        ]
        shown = len("HEAD-1001" + head) + len(tail.partition("TAIL-2001")[0] + "TAIL-2001")
        assert shown + int(gone) == len(said)


@CASES.of("H28", "H29", "H30")
@pytest.mark.parametrize("refusals", [2, 100])
def test_a_provider_that_takes_less_is_asked_for_less_a_bounded_number_of_times(refusals: int) -> None:
    talk = asking()
    answers: tuple[Completion, ...] = ()
    sizes: list[int] = []
    while isinstance(found := squeeze(talk.state, answers, count=COUNT), Ask):
        sizes.append(COUNT(found.user))
        answers = (*answers, TOO_LONG if len(sizes) <= refusals else said_by_model(extractive(found)))
    tried = sizes[: refusals + 1]
    assert all(later < earlier for earlier, later in pairwise(tried))
    if refusals == 2:
        assert isinstance(found, HistorySummarized), found
    else:
        # theirs gives up at the third, and then the history is too long
        assert (len(sizes), type(found)) == (4, CompactionDeclined)
        talk.settle()
        assert talk.view().tokens <= talk.state.usable_tokens


@CASES.of("H35")
def test_images_go_to_the_summarizer_as_a_line_of_text() -> None:
    talk = Talk(holmes(5000, spill={"share": 1.0}))  # begins above 3750
    url = "data:image/png;base64," + "iVBORw0KGgo" * 100
    image = {"type": "image_url", "image_url": {"url": url}}
    talk.append(
        user([{"type": "text", "text": "see /tmp/a.png"}, image, image]), assistant(lines(1200)), user(words(500))
    )
    talk.until("squeeze")
    history = history_of(asked_of(talk))
    assert history.count("[image: in the message itself]") == 2
    assert "see /tmp/a.png" in history
    assert "iVBOR" not in history


@CASES.of("H37")
@pytest.mark.parametrize("fitting", [True, False])
async def test_a_rate_limit_is_no_failure_while_the_view_fits_and_one_where_it_does_not(fitting: bool) -> None:
    talk = Talk(holmes(20_000, spill={"share": 1.0, "users": "keep"}, squeeze={"model": "m", "attempts": 1}))
    talk.append(*users(9_000), user(words(9_000 if fitting else 18_000)))
    talk.until("squeeze")
    assert fits(talk.state) is fitting
    fact = await squeezed(talk, Refusal(status=429, retry_after_seconds=60.0))
    assert isinstance(fact, CompactionDeclined) is fitting
    if fitting:
        assert fact.reason == "rate limited; the context still fits"  # type: ignore[union-attr]
        assert talk.shown()[-1] == user(words(9_000))
    else:
        # theirs raises the provider's error; ours says what does not fit, and nothing is sent
        with pytest.raises(BudgetRefused):
            talk.view()


@CASES.of("H38")
def test_a_real_run_is_compacted_to_a_fifth() -> None:
    talk = Talk(holmes(60_000))
    talk.answer = extractive
    talk.play(*sample())
    steps = [fact for fact in talk.facts if isinstance(fact, HistoryDigested | HistorySummarized)]
    shares = [two.after_tokens / one.before_tokens for one, two in zip(steps[::2], steps[1::2], strict=True)]
    assert len(shares) >= 1
    assert max(shares) < 0.2


def test_the_recorded_run_is_lightened_and_rebuilt() -> None:
    talk = lightened_sample(holmes(16_000))
    assert replay(AT, talk.records).divergence is None


def test_the_recorded_run_is_summarized_and_every_view_is_legal() -> None:
    talk = lightened_sample(holmes(24_000), answer=naming)
    assert sum(isinstance(fact, HistorySummarized) for fact in talk.facts) >= 3
    assert replay(AT, talk.records).divergence is None


def test_a_prompt_that_nothing_can_reduce_starts_no_compaction_at_every_step() -> None:
    # defect: 44k became 43k on every call
    talk = Talk(holmes(20_000))
    talk.answer = naming
    talk.play(system(words(14_600)), user("Why does web-7 fail?"))
    for turn in range(60):
        talk.play(assistant(None, f"c{turn}"), result(f"c{turn}", f"REF-{turn} {words(100)}"))
    grown = 60 * 120
    assert (
        2 <= sum(isinstance(fact, HistoryDigested) for fact in talk.facts) <= grown // (talk.state.usable_tokens // 20)
    )


def test_after_a_compaction_the_agent_knows_which_call_was_made_and_what_came_of_it() -> None:
    # defect (home-ops 11904): after each compaction the same call was made again
    talk = Talk(holmes(5000))
    talk.append(user("Why does web-7 fail?"))
    turn = 0
    while not any(isinstance(fact, HistoryDigested) for fact in talk.facts):
        turn += 1
        call = assistant(None, f"c{turn}", arguments=json.dumps({"path": f"/var/log/web-{turn}.log"}))
        talk.play(call, result(f"c{turn}", f"{lines(300)} HTTP 503 from db-{turn}.internal"))
    view = talk.view().body.decode()
    assert talk.shown()[-2] == call
    assert talk.shown()[1]["content"] == "Why does web-7 fail?"
    assert all(f"/var/log/web-{one}.log" in view and f"db-{one}.internal" in view for one in range(1, turn + 1))


def test_an_error_of_733k_characters_breaks_neither_this_view_nor_the_next_compaction() -> None:
    # defect (PR 2409): it made a prompt of 386k tokens, and the next compaction failed of it too
    talk = Talk(holmes(200_000))
    text = "Error: query timed out on pg-3\n" + '{"row": 1, "message": "timeout"}\n' * 22_000
    talk.play(user("why?"), assistant(None, "c"), result("c", text))
    assert talk.view().tokens < 13_000
    assert "Error: query timed out on pg-3" in talk.shown()[-1]["content"]
    for _ in range(30):
        talk.append(assistant(lines(9_000)), user("go on"))
        if talk.state.episode is not None:
            break
    talk.until("squeeze")
    asked = asked_of(talk)
    assert COUNT(asked.user) < 180_000
    assert "Error: query timed out on pg-3" in asked.user
    talk.settle()
    assert talk.view().tokens < 40_000
    assert list(talk.bodies.values()) == [text.encode()]


def test_the_summary_is_capped_and_the_answer_is_reserved() -> None:
    talk = asking()
    assert talk.state.policy is not None
    assert answer_tokens_max(talk.state) <= talk.state.policy.budget.window // 4
    assert talk.state.usable_tokens + talk.state.policy.budget.reserve == talk.state.policy.budget.window


def test_every_case_is_accounted_for() -> None:
    assert vars(test_holmes_tools)["CASES"] is CASES
    assert CASES.covered | set(NOT_OURS) == CASES.expected
    assert CASES.covered.isdisjoint(NOT_OURS)
