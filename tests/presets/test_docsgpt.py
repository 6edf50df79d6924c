"""DocsGPT: its cases of compression, G1 to G40, and its defects X1 to X12, under the preset `docsgpt`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.audit.replay import replay
from actors.cli.policy_import import from_docsgpt
from actors.core.pressure import trigger_tokens
from actors.squeeze.decide import Ask, Completion, answer_tokens_max, squeeze
from actors.squeeze.prompts import PROMPTS, prompt_hash
from protocol import policy as policies
from protocol.facts import (
    CompactionDeclined,
    HistoryDigested,
    HistorySummarized,
    StageFailed,
    ToolOutputSpilled,
)
from protocol.policy import resolve
from tests.builders import AT, COUNT, Talk, asked_of, assistant, said_by_model, system, user, words
from tests.presets import test_docsgpt_tools
from tests.presets.cases import lightened_sample
from tests.presets.docsgpt import CASES, NOT_OURS, docsgpt, facts_of, lines, turn, users
from tests.squeeze.summarizers import history_of, naming


def summary(asked: Ask) -> str:
    """Say in few words which pages were read, the newer ones by name."""
    history = history_of(asked)
    seen = [number for number in range(200) if f"REF-{1000 + number}" in history]
    said = " ".join(f"/docs/page_{number}.md REF-{1000 + number}" for number in seen[len(seen) * 2 // 3 :])
    return f"<analysis>thinking</analysis><summary>The user asks about pages. {said}</summary>"


def asking(turns: int = 30, *, window: int = 6000, answer: Any = "") -> Talk:
    """Return a conversation whose history a model is asked to summarize."""
    talk = Talk(docsgpt(window))
    talk.answer = answer
    for number in range(turns):
        for message in turn(number):
            talk.append(message)
            if talk.state.episode is not None:
                talk.until("squeeze")
                return talk
    raise AssertionError("the window is too large")


def after(talk: Talk, answer: Completion) -> HistorySummarized | CompactionDeclined:
    """Return the fact that ends the stage after *answer*, and let it land."""
    fact = squeeze(talk.state, (answer,), count=COUNT)
    assert isinstance(fact, HistorySummarized | CompactionDeclined), fact
    talk.land(talk.sealed((fact,)))
    return fact


@CASES.of("G3", "G5")
@pytest.mark.parametrize(("total", "begins"), [(79_999, False), (80_000, True), (80_001, True)])
def test_compression_begins_at_80_percent_with_500_for_the_question(total: int, begins: bool) -> None:
    talk = Talk(docsgpt(100_000))
    talk.append(*users(total - 500))
    assert talk.state.live_tokens == total - 500
    assert (talk.state.episode is not None) is begins


@pytest.mark.parametrize("window", [2_000, 10_000, 12_000, 16_000, 128_000])
def test_the_answers_reserve_never_comes_before_their_trigger(window: int) -> None:
    talk = Talk(docsgpt(window))
    assert trigger_tokens(talk.state) == window * 8 // 10 - 501 < talk.state.usable_tokens


@CASES.of("G1", "G2")
@pytest.mark.parametrize(("window", "turns", "begins"), [(128_000, 3, False), (10_000, 100, True)], ids=["G1", "G2"])
def test_a_small_chat_is_left_alone_and_a_hundred_turns_are_not(window: int, turns: int, begins: bool) -> None:
    talk = Talk(docsgpt(window))
    talk.append(*(message for number in range(turns) for message in (user(words(96)), assistant(words(96)))))
    assert (talk.state.episode is not None) is begins


@CASES.of("G4", "G10", "G36")
def test_a_model_that_fails_leaves_the_rules_digest_in_a_view_that_fits() -> None:
    # theirs sends the whole history
    talk = asking()
    before = talk.state
    assert before.episode is not None
    failed = StageFailed(boundary=before.episode.boundary, stage="squeeze", error="connection refused")
    talk.land(talk.sealed((failed,)))
    talk.settle()
    assert talk.state.digest == before.digest
    assert "REF-1002" in talk.view().body.decode()
    assert talk.view().tokens <= talk.state.usable_tokens


@CASES.of("G6", "G7", "G18")
def test_a_summary_is_kept_without_its_analysis_and_with_its_prompt() -> None:
    talk = asking()
    asked = asked_of(talk)
    assert 'calls look({"path": "/docs/page_1.md"})' in asked.user
    fact = after(talk, said_by_model(summary(asked)))
    assert isinstance(fact, HistorySummarized), fact
    assert fact.prose.startswith("The user asks about pages.")
    assert "thinking" not in fact.prose
    assert fact.prompt_hash == prompt_hash(PROMPTS["v1"]["summarize"])
    assert fact.model == "m"
    assert 0 < fact.after_tokens < fact.before_tokens


@CASES.of("G11", "X9")
def test_a_summary_that_is_not_smaller_is_refused_and_both_sizes_are_said() -> None:
    talk = asking()
    before = talk.state.digest
    assert before is not None
    fact = after(talk, said_by_model("REF-1001 " + " ".join(f"note{number}" for number in range(200))))
    assert isinstance(fact, CompactionDeclined)
    assert fact.reason.startswith(f"not smaller by enough: {before.tokens} to ")
    assert talk.state.digest == before


@CASES.of("G12", "X9")
def test_what_a_smaller_summary_wins_is_counted_over_the_whole_view() -> None:
    # defect X9: their ratio compares all turns with the summary alone
    talk = asking()
    before = talk.state.live_tokens
    fact = after(talk, said_by_model(summary(asked_of(talk))))
    assert isinstance(fact, HistorySummarized)
    assert (fact.before_tokens, fact.after_tokens) == (before, talk.state.live_tokens)
    assert talk.view().tokens == fact.after_tokens


@CASES.of("G14", "G26")
def test_without_a_compaction_the_view_is_the_whole_history() -> None:
    talk = Talk(docsgpt())
    talk.play(*turn(0), *turn(1))
    assert list(talk.view().messages) == [entry.raw for entry in talk.state.live]
    assert talk.state.messages == 8
    assert talk.facts == []


@CASES.of("G9", "G15", "G16", "G27", "G40", "X2")
def test_each_summary_merges_the_last_one_and_reads_only_what_is_new() -> None:
    # defect X2: theirs sends all turns again, and up to three summaries beside them
    talk = Talk(docsgpt(6000))
    inputs: list[str] = []

    def answer(asked: Ask) -> str:
        inputs.append(history_of(asked))
        return summary(asked)

    talk.answer = answer
    for number in range(80):
        talk.play(*turn(number))
    made = facts_of(talk, HistorySummarized)
    assert len(made) == len(inputs) >= 5
    for earlier, later in zip(made, inputs[1:], strict=False):
        assert later.startswith(f"[summary so far]\n{earlier.prose}\n\n")
        assert later.count("[summary so far]") == 1
    assert "Answer 0 " not in "".join(inputs[1:])
    shown = talk.view().body.decode()
    assert shown.count("The user asks about pages.") == shown.count("[Notes on messages 1-") == 1
    assert max(map(COUNT, inputs)) < 6000
    assert talk.state.digest is not None
    through = talk.state.digest.through
    assert [entry.number for entry in talk.state.live] == list(range(through + 1, talk.state.messages + 1))
    assert replay(AT, talk.records).divergence is None


@CASES.of("X1")
def test_four_requests_after_a_compaction_ask_the_model_not_once_more() -> None:
    # defect: each request after the first trigger compressed everything again
    talk = asking(answer=summary)
    talk.settle()
    assert len(facts_of(talk, HistorySummarized)) == 1
    for number in range(4):
        talk.play(user(f"Short {number}?"), assistant("Yes."))
    assert len(facts_of(talk, HistorySummarized)) == 1
    assert "The user asks about pages." in talk.view().body.decode()


@CASES.of("X3", "X12")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said_by_model(""), "the answer is empty"),
        (said_by_model("<analysis>all of it</analysis>"), "the answer is empty"),
        (said_by_model("<analysis>cut off in the"), "the answer is empty"),
        (
            said_by_model("<summary>cut off", finish_reason="length"),
            "the answer is not complete: finish reason 'length'",
        ),
    ],
)
def test_an_answer_without_a_whole_summary_never_replaces_history(answer: Completion, reason: str) -> None:
    talk = asking()
    fact = after(talk, answer)
    assert isinstance(fact, CompactionDeclined)
    assert fact.reason == reason
    talk.settle()
    assert all(f"REF-{1000 + number}" in talk.view().body.decode() for number in range(3))


@CASES.of("G24")
def test_twenty_read_files_become_a_tenth() -> None:
    said = [message for number in range(20) for message in turn(number)]
    measured = Talk(docsgpt())
    measured.append(*said)
    talk = Talk(docsgpt((measured.state.live_tokens + 501) * 10 // 8 + 1))
    talk.append(*said)
    assert talk.state.episode is None
    talk.answer = summary
    talk.play(user("And now, what is in them?"))
    first, last = facts_of(talk, HistoryDigested)[0], facts_of(talk, HistorySummarized)[0]
    assert first.before_tokens > 5_000
    assert last.digest_tokens < 500
    assert first.before_tokens / last.after_tokens > 10


FACTS = ("DATABASE_URL_PROD", "3:00 AM UTC", "10,000", "90 days", "ops-alerts@example.com")


NEEDLE = (
    "Read the connection from DATABASE_URL_PROD=primary. Backups must run at 3:00 AM UTC. The limit is 10,000/h "
    "requests. Logs are kept 90 days. Write to ops-alerts@example.com."
)


@CASES.of("G25")
@pytest.mark.parametrize("model", ["", "Backups and limits were discussed with the user, for ops-alerts@example.com."])
def test_five_facts_in_a_haystack_outlive_a_summary_that_forgets_them(model: str) -> None:
    talk = Talk(docsgpt(20_000))
    talk.answer = model
    talk.play(user(NEEDLE), assistant("Noted."))
    for number in range(90):
        # a haystack that competes: values, rules and decisions of its own
        asked = f"Chapter {number}: what of ORD-{number:05} in /srv/docs/{number}.md? It must be kept {number} hours."
        found = f"REF-{number:05} id=req-{number * 7919} https://docs.example/{number}. We decided to keep v1.{number}."
        talk.play(user(asked), assistant(f"{found} {lines(250)}"))
        if facts_of(talk, HistoryDigested):
            break
    talk.play(user("Where do I write to?"))
    view = talk.view().body.decode()
    assert [fact for fact in FACTS if fact not in view] == []
    fact = facts_of(talk, HistoryDigested)[0]
    assert fact.before_tokens / fact.after_tokens > 4


@CASES.of("G26")
def test_another_model_may_write_the_summary() -> None:
    layer = {"preset": "docsgpt", "budget": {"window": 6000}, "squeeze": {"model": "small", "window": 4000}}
    talk = Talk(resolve([layer]))
    for number in range(20):
        talk.append(*turn(number))
    talk.until("squeeze")
    asked = asked_of(talk)
    assert (asked.model, asked.tokens_max) == ("small", 1000)
    assert COUNT(asked.system) + COUNT(asked.user) + asked.tokens_max <= 4000


def test_their_defaults_said_as_settings_are_the_preset() -> None:
    said = {
        "ENABLE_CONVERSATION_COMPRESSION": "True",
        "COMPRESSION_THRESHOLD_PERCENTAGE": "0.8",
        "TOOL_RESULT_MAX_TOKENS": "20000",
        "DEFAULT_LLM_TOKEN_LIMIT": "128000",
    }
    assert resolve([from_docsgpt(said).layer]) == resolve([{"preset": "docsgpt"}])


def test_a_summary_may_have_4000_tokens() -> None:
    assert answer_tokens_max(Talk(docsgpt()).state) == 4_000


@CASES.of("G28", "X6")
def test_calls_stand_before_the_answer_that_came_of_them() -> None:
    # defect X6: theirs puts a turn's calls behind its final answer
    talk = asking()
    history = history_of(asked_of(talk))
    places = [history.index(text) for text in ("Question 1?", "/docs/page_1.md", "REF-1001", "Answer 1 ")]
    assert places == sorted(places)
    talk.settle()
    talk.play(*turn(90))
    assert [message["role"] for message in talk.shown()[-4:]] == ["user", "assistant", "tool", "assistant"]
    assert talk.shown()[-3]["tool_calls"][0]["function"]["arguments"] == '{"path": "/docs/page_90.md"}'


@CASES.of("G29", "G30", "X7")
@pytest.mark.parametrize("head", [(), (system("Rules.\n\n---\n\nThis session is being continued from before."),)])
def test_the_summary_is_a_message_of_its_own_and_no_prompt_is_split(head: tuple[dict[str, Any], ...]) -> None:
    # defect X7: theirs cuts a prompt that holds its separator
    talk = Talk(docsgpt(6000))
    talk.answer = summary
    talk.play(*head)
    for number in range(60):
        talk.play(*turn(number))
    assert len(facts_of(talk, HistorySummarized)) >= 3
    shown = talk.shown()
    assert tuple(shown[: len(head)]) == head
    assert shown[len(head)]["content"].startswith("[Notes on messages 1-")
    assert "please continue" not in talk.view().body.decode()


@CASES.of("G31", "G39", "X10", "X11")
def test_in_the_middle_of_a_run_nothing_live_is_lost_and_the_question_stays_verbatim() -> None:
    # defects: X10 dropped live messages, X11 kept only a generic «continue» of the last question
    talk = Talk(docsgpt(6000))
    talk.answer = summary
    question = user("Which page tells --- of REF-77?")
    talk.play(question)
    for number in range(30):
        _, call, found, _ = turn(number)
        talk.play(call, found)
        assert [message for message in talk.shown() if message == question] == [question]
        assert talk.shown()[-2:] == [call, found]
    assert len(facts_of(talk, HistorySummarized)) >= 2


@CASES.of("X4", "X5")
def test_a_compaction_adds_no_message_and_changes_no_number() -> None:
    # defects: X4 saved the number of another list, X5 made the summary a turn that was compressed again
    talk = Talk(docsgpt(6000))
    talk.answer = summary
    said = [message for number in range(40) for message in turn(number)]
    talk.play(*said)
    assert len(facts_of(talk, HistorySummarized)) >= 2
    assert talk.state.messages == len(said)
    assert talk.state.digest is not None
    shown = [(entry.number, json.loads(entry.raw)) for entry in talk.state.live]
    assert shown == [(number, said[number - 1]) for number, _ in shown]
    assert max(fact.through for fact in facts_of(talk, HistorySummarized)) == talk.state.digest.through


@CASES.of("G40")
def test_what_is_kept_of_each_compaction_is_a_fact_and_never_thrown_away() -> None:
    talk = Talk(docsgpt(6000))
    talk.answer = summary
    for number in range(60):
        talk.play(*turn(number))
    made = facts_of(talk, HistorySummarized)
    assert len(made) > 3
    assert all(fact.prose and fact.answers for fact in made)
    assert {commit.policy_hash for commit in talk.commits} == {policies.fingerprint(docsgpt(6000))}


@pytest.mark.parametrize("answer", ["", naming], ids=["no model", "a model"])
def test_the_recorded_run_is_lightened_and_every_view_is_legal(answer: Any) -> None:
    talk = lightened_sample(docsgpt(24_000), answer=answer)
    assert replay(AT, talk.records).divergence is None
    assert len(facts_of(talk, ToolOutputSpilled)) <= 1
    assert bool(facts_of(talk, HistorySummarized)) is bool(answer)


def test_every_case_is_accounted_for() -> None:
    assert vars(test_docsgpt_tools)["CASES"] is CASES
    assert CASES.covered | set(NOT_OURS) == CASES.expected
    assert CASES.covered.isdisjoint(NOT_OURS)
