"""HolmesGPT: its cases H1 to H38, and the four defects of it that ours must not have, under the preset `holmes`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from actors.replay import replay
from actors.rules.budget import trigger_tokens
from actors.rules.caps import cap_tokens
from actors.rules.cut import SHRUNK_TOKENS_MIN, water_level
from actors.rules.entry import IMAGE_TOKENS
from actors.rules.hear import hear
from actors.rules.lead import refusal
from actors.rules.spill import degraded
from actors.rules.squeeze import Answer, Ask, answer_tokens_max, fits, next_ask
from actors.rules.summarize import RESULT_TOKENS_MAX
from protocol.errors import BudgetRefused
from protocol.facts import (
    CompactionDeclined,
    HistoryDigested,
    HistorySummarized,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.policy import Policy, resolve
from protocol.tools import READ_TOOL
from tests.builders import AT, COUNT, Talk, asked_of, assistant, result, said_by_model, sample, system, user, words
from tests.presets.cases import Cases, lightened_sample
from tests.rules.summarizers import extractive, history_of

CASES = Cases(H=38)

NOT_OURS: dict[str, str] = {}
"""Case to reason; every case of HolmesGPT has a counterpart here."""

TOO_LONG = Answer(too_long=True)


def holmes(window: int = 128_000, **sections: Mapping[str, Any]) -> Policy:
    layer = {"preset": "holmes", "squeeze": {"model": "m"}, "budget": {"window": window, "reserve": window // 5}}
    return resolve([layer, sections])


def called(text: Any, wanted: Policy) -> Talk:
    """Return a conversation in which a tool has just returned *text*."""
    talk = Talk(wanted)
    talk.append(user("why?"), assistant(None, "c"), result("c", text))
    return talk


def spilled(text: Any, tokens: int) -> tuple[Talk, ToolOutputSpilled]:
    """Return the conversation after spill acted on *text* under a cap of *tokens*, and its one fact."""
    talk = called(text, holmes(spill={"tokens": tokens}))
    talk.settle()
    (fact,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]
    return talk, fact


def unstored(text: str, tokens: int) -> ToolOutputTrimmed:
    """Return the fact for *text* under a cap of *tokens* while there is no store."""
    found = degraded(called(text, holmes(spill={"tokens": tokens})).state, reason="S3 is down", count=COUNT)
    assert found is not None
    assert found.bodies == ()
    (fact,) = found.facts
    assert isinstance(fact, ToolOutputTrimmed)
    return fact


def fair(*outputs: int) -> Talk:
    """Return a conversation under HolmesGPT's older rule: no compaction, long tool outputs are cut to the same size."""
    layer: dict[str, Any] = {
        "budget": {"window": 10_000, "reserve": 2_000},
        "trigger": {"ratio": 1.0, "of": "usable", "expected": 0},
        "digest": {"mode": "off"},
        "squeeze": {"mode": "off"},
        "cut": {"mode": "on", "down_to": "usable", "floor": {"messages": 100}},
        "spill": {"share": 1.0},
    }
    talk = Talk(holmes(**layer))
    talk.append(user(words(80)))
    for at, tokens in enumerate(outputs):
        talk.append(assistant(None, f"c{at}"), result(f"c{at}", words(tokens, "abc")))
    talk.settle()
    return talk


def tool_texts(talk: Talk) -> list[str]:
    return [message["content"] for message in talk.shown() if message["role"] == "tool"]


def lines(tokens: int) -> str:
    """Return about as many *tokens* in lines of ten."""
    return "\n".join([words(9)] * (tokens // 10))


def users(tokens: int) -> list[dict[str, Any]]:
    """Return messages of exactly *tokens* together, none so large that it is estimated."""
    full = max(0, tokens - 5_000) // 5_000
    return [*[user(words(4_996))] * full, user(words(tokens - full * 5_000 - 4))]


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


def refused(talk: Talk, *answers: Answer) -> CompactionDeclined:
    fact = next_ask(talk.state, answers, count=COUNT)
    assert isinstance(fact, CompactionDeclined), fact
    return fact


@pytest.mark.parametrize(
    ("window", "cap"),
    [(8_000, 1_200), (32_000, 4_800), (128_000, 19_200), (166_666, 24_999), (166_667, 25_000), (1_000_000, 25_000)],
)
def test_one_result_may_have_fifteen_percent_of_the_window_and_25k_at_most(window: int, cap: int) -> None:
    wanted = holmes(window)
    assert cap_tokens(wanted, wanted.usable_tokens) == cap


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


@CASES.of("H1", "H2", "H8", "H33")
@pytest.mark.parametrize(
    ("sizes", "room", "height"),
    [
        ([5000, 6000, 7000], 7906, 2635),
        ([8000, 100, 200], 7906, 7606),
        ([100, 100], 60, 30),
        # theirs are given by what must go: 50, 60, 1, 100 and 5
        ([100, 10], 60, 50),
        ([100, 60], 100, 50),
        ([100, 100], 199, 99),
        ([10, 10], -80, 0),
        ([], -5, 0),
    ],
)
def test_only_what_is_above_the_water_level_is_cut(sizes: list[int], room: int, height: int) -> None:
    assert water_level(sizes, room) == height


@CASES.of("H1")
def test_three_large_outputs_are_cut_to_the_same_size_and_say_so() -> None:
    talk = fair(5000, 6000, 7000)
    sizes = [COUNT(text) for text in tool_texts(talk)]
    assert all("left out" in text for text in tool_texts(talk))
    assert max(sizes) - min(sizes) <= 8
    assert 7_000 <= talk.view().tokens <= 8_000


@CASES.of("H2")
def test_small_outputs_stay_whole_beside_a_large_one() -> None:
    large, *small = tool_texts(fair(8000, 100, 200))
    assert "left out" in large
    assert 6_800 <= COUNT(large) <= 7_606
    assert small == [words(100, "abc"), words(200, "abc")]


@CASES.of("H3", "H4")
@pytest.mark.parametrize("outputs", [(100, 200), ()], ids=["H3", "H4"])
def test_what_fits_or_has_no_tool_output_stays_as_it_was_said(outputs: tuple[int, ...]) -> None:
    talk = fair(*outputs) if outputs else Talk(holmes())
    if not outputs:
        talk.play(user("a"), assistant("b"), user("c"))
    assert talk.view().level == "none"
    assert list(talk.view().messages) == [entry.raw for entry in talk.state.live]


@CASES.of("H5", "H29")
def test_what_cannot_fit_is_refused_by_name_and_nothing_is_sent() -> None:
    talk = Talk(holmes(10_000, trigger={"ratio": 1.0}, spill={"share": 1.0}))
    talk.play(system(words(8_100)), user("hello"))
    with pytest.raises(BudgetRefused) as caught:
        talk.view()
    assert caught.value.fields["parts"][0] == (1, "system", 8_104)


@CASES.of("H6", "H7")
def test_a_room_too_small_for_the_mark_of_a_cut_is_refused_and_not_filled_with_half_of_it() -> None:
    talk = fair()
    talk.play(assistant(None, "a", "b"), result("a", words(100)), result("b", words(100)))
    mark = "[left out: 499 characters]"
    least = talk.state.live_tokens - 80 - 200 + 3 * COUNT(mark)
    assert [message["content"] for message in talk.shown(least)[-2:]] == [mark, mark]
    with pytest.raises(BudgetRefused):
        talk.view(least - 3 * SHRUNK_TOKENS_MIN)


@CASES.of("H9", "H10")
@pytest.mark.parametrize(("tokens", "leaves"), [(1000, False), (2048, False), (2049, True)])
def test_a_result_may_be_as_large_as_its_cap(tokens: int, leaves: bool) -> None:
    talk = called(words(tokens), holmes(spill={"tokens": 2048}))
    talk.settle()
    assert bool(talk.bodies) is leaves
    assert (talk.shown()[-1]["content"] == words(tokens)) is not leaves


@CASES.of("H11", "H12", "H18")
@pytest.mark.parametrize(("tokens", "cap"), [(3000, 2048), (2000, 1024), (1000, 819), (2000, 1000)])
def test_without_a_store_the_model_is_told_to_narrow_down_and_the_log_has_the_original(tokens: int, cap: int) -> None:
    fact = unstored(words(tokens), cap)
    assert fact.text == refusal(bytes=len(words(tokens)), tokens=tokens, cap=cap)
    assert f"{tokens:,}/{cap:,} tokens" in fact.text
    assert "too large to return" in fact.text
    assert "narrow down" in fact.text
    assert (fact.reason, fact.owed) == ("S3 is down", False)


@CASES.of("H13")
def test_of_a_failed_call_that_cannot_be_stored_the_words_of_the_error_stay() -> None:
    fact = unstored(f"Error: no such pod web-7\n{words(3000)}", 1000)
    assert "too large to return" in fact.text
    assert "\nError: no such pod web-7" in fact.text
    assert fact.text_tokens < 250


@CASES.of("H14")
def test_of_a_failed_call_the_error_stands_first_and_the_artifact_has_all_of_it() -> None:
    text = f"Error: no such pod web-7\n{words(5000)}"
    talk, fact = spilled(text, 500)
    assert fact.text.partition("\n")[2].startswith("Error: no such pod web-7")
    assert len(fact.text) < 1_400
    assert talk.bodies == {fact.sha256: text.encode()}


@CASES.of("H15", "H35")
def test_an_image_beside_a_spilled_text_is_still_shown() -> None:
    # theirs is taken out and must be read back with a tool of its own
    url = "data:image/png;base64," + "iVBORw0KGgo" * 2000
    image = {"type": "image_url", "image_url": {"url": url}}
    talk, fact = spilled([{"type": "text", "text": words(5000)}, image], 200)
    text, shown = talk.shown()[-1]["content"]
    assert (text["text"], shown) == (fact.text, image)
    assert talk.bodies == {fact.sha256: words(5000).encode()}
    assert talk.state.live[-1].tokens == fact.text_tokens + IMAGE_TOKENS + 4


@CASES.of("H16", "H17")
def test_a_pointer_says_nothing_of_images_and_what_the_model_saw_is_recorded() -> None:
    talk, fact = spilled(words(5000), 500)
    assert "image" not in fact.text
    assert talk.shown()[-1]["content"] == fact.text
    assert 0 < fact.text_tokens == COUNT(fact.text) <= 250
    assert (fact.tokens, fact.bytes, fact.kind) == (5000, len(words(5000)), "text")


@CASES.of("H19")
def test_what_is_read_back_over_the_cap_is_trimmed_and_never_stored_again() -> None:
    talk = Talk(holmes(spill={"tokens": 500}))
    call = {"id": "r", "type": "function", "function": {"name": READ_TOOL, "arguments": "{}"}}
    talk.play(user("read it"), {"role": "assistant", "content": None, "tool_calls": [call]}, result("r", words(5000)))
    assert talk.bodies == {}
    assert [type(fact) for fact in talk.facts] == [ToolOutputTrimmed]


@CASES.of("H20")
def test_only_the_new_message_is_counted() -> None:
    talk = Talk(holmes())
    talk.play(*(user(f"old {turn}") for turn in range(20)))
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return COUNT(text)

    before = talk.state
    talk.append(user("new"))
    hear(before, talk.records[-1].body, seq=talk.records[-1].seq, count=count)
    assert set(counted) <= {"", "new"}


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


@CASES.of("H22", "H23", "H24", "H25")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said_by_model("I look it up.", tool_calls=True), "the model called a tool instead of answering"),
        (said_by_model("", finish_reason="content_filter"), "the answer is not complete: finish reason 'content_filter'"),
        (said_by_model(""), "the answer is empty"),
    ],
    ids=["H22", "H23-H24", "H25"],
)
def test_an_unusable_answer_leaves_the_rules_digest_and_its_reason(answer: Answer, reason: str) -> None:
    # theirs asks again without tools (ours never sends any) and then keeps a history that is too long
    talk = asking()
    before = talk.state
    assert before.digest is not None
    fact = refused(talk, answer)
    assert fact.reason == reason
    talk.land(talk.sealed((fact,)))
    talk.settle()
    assert talk.state.digest == before.digest
    assert {"/var/log/web-3.log", "HEAD-1003"} <= {item.value for item in before.digest.items}
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
    answers: tuple[Answer, ...] = ()
    asked: list[Ask] = []
    while isinstance(found := next_ask(talk.state, answers, count=COUNT), Ask):
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
        head, gone, tail = re.split(r"\n\[(\d+) characters are not shown here\]\n", history.partition("HEAD-1001")[2])[:3]
        shown = len("HEAD-1001" + head) + len(tail.partition("TAIL-2001")[0] + "TAIL-2001")
        assert shown + int(gone) == len(said)


@CASES.of("H28", "H29", "H30")
@pytest.mark.parametrize("refusals", [2, 100])
def test_a_provider_that_takes_less_is_asked_for_less_a_bounded_number_of_times(refusals: int) -> None:
    talk = asking()
    answers: tuple[Answer, ...] = ()
    sizes: list[int] = []
    while isinstance(found := next_ask(talk.state, answers, count=COUNT), Ask):
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
    talk.append(user([{"type": "text", "text": "see /tmp/a.png"}, image, image]), assistant(lines(1200)), user(words(500)))
    talk.until("squeeze")
    history = history_of(asked_of(talk))
    assert history.count("[image: in the message itself]") == 2
    assert "see /tmp/a.png" in history
    assert "iVBOR" not in history


@CASES.of("H37")
def test_whether_a_rate_limit_can_be_waited_out_is_told_by_the_room_that_is_left() -> None:
    # the shell declines while it fits, and records a failure otherwise: tests/actors/test_squeeze_path.py
    wanted = holmes(trigger={"ratio": 1.0, "of": "usable", "expected": 0})
    for more, fitting in ((0, True), (1, False)):
        talk = Talk(wanted)
        talk.append(*users(wanted.usable_tokens + more))
        assert (talk.state.live_tokens, fits(talk.state)) == (wanted.usable_tokens + more, fitting)


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
    talk = lightened_sample(holmes(16_000), answer=extractive)
    assert sum(isinstance(fact, HistorySummarized) for fact in talk.facts) >= 3
    assert replay(AT, talk.records).divergence is None


def test_a_prompt_that_nothing_can_reduce_starts_no_compaction_at_every_step() -> None:
    # defect: 44k became 43k on every call
    talk = Talk(holmes(50_000))
    talk.answer = extractive
    talk.play(user(words(38_000)))
    for turn in range(60):
        talk.play(assistant(None, f"c{turn}"), result(f"c{turn}", f"REF-{turn} {words(100)}"))
    grown = 60 * 120
    assert sum(isinstance(fact, HistoryDigested) for fact in talk.facts) <= grown // (talk.state.usable_tokens // 20)


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
    talk.answer = extractive
    while not any(isinstance(fact, HistorySummarized) for fact in talk.facts):
        talk.play(assistant(lines(9_000)), user("go on"))
    assert talk.view().tokens < 40_000
    assert list(talk.bodies.values()) == [text.encode()]


def test_every_pointer_in_every_view_can_be_read_for_as_long_as_it_is_shown() -> None:
    # defect: the folder was removed at the end of a request, its paths stayed in the stored history
    talk = Talk(holmes(12_000))
    seen = set()
    for message in sample():
        talk.play(message)
        if fits(talk.state):
            seen |= set(re.findall(r'read_artifact\(\\"([0-9a-f]{16})\\"', talk.view().body.decode()))
    assert seen
    assert seen <= {sha256[:16] for sha256 in talk.bodies}


def test_the_summary_is_capped_and_the_answer_is_reserved() -> None:
    talk = asking()
    assert talk.state.policy is not None
    assert answer_tokens_max(talk.state) <= talk.state.policy.budget.window // 4
    assert talk.state.usable_tokens + talk.state.policy.budget.reserve == talk.state.policy.budget.window


def test_every_case_is_accounted_for() -> None:
    assert CASES.covered | set(NOT_OURS) == CASES.expected
    assert CASES.covered.isdisjoint(NOT_OURS)
