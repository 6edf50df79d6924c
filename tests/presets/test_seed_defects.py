"""What breaks in the five systems that ours learned from, one scenario each, by the number of the defect.

L is llm4s, X DocsGPT, Y Digitorn, O Octopus, H HolmesGPT. Each fails there; each must pass here.
"""

from __future__ import annotations

import json
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest

from actors.squeeze.decide import Ask
from protocol.errors import BudgetRefused
from protocol.facts import (
    CompactionDeclined,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    StageFailed,
    ToolOutputSpilled,
)
from protocol.formats.validate import problems
from protocol.policy import resolve
from tests.builders import COUNT, Talk, assistant, policy, result, said_by_model, system, user, words
from tests.core.runs import judged, preset_policy, refolded
from tests.squeeze.summarizers import extractive

ELSEWHERE = {
    "Y3": "test_digitorn.TestSplit.test_a_long_run_under_one_prompt_is_compacted_on_schedule",
    "Y4": "test_digitorn.TestSplit.test_a_summary_is_made_though_the_last_request_is_the_first_message",
    "Y5": "test_digitorn.TestTruncateAndSummarize.test_the_summary_is_never_shortened_nor_summarized_as_a_message",
    "Y7": "test_digitorn_control.TestResultsAndReminder.test_a_reminder_never_costs_what_its_compaction_won",
    "Y8": "test_digitorn_control.TestResultsAndReminder.test_a_single_item_over_the_cap_is_spilled_within_it",
    "Y9": "test_digitorn.TestFacts.test_what_is_put_back_has_a_bound",
    "Y10": "test_digitorn.TestFacts.test_a_value_that_changed_takes_the_place_of_the_old_one",
    "Y14": "test_digitorn_control.TestEvents.test_what_was_begun_is_gone_on_with_by_whoever_comes_next",
}


@pytest.mark.parametrize("defect", ELSEWHERE)
def test_the_scenario_of_a_preset_is_there(defect: str) -> None:
    module, owner, name = ELSEWHERE[defect].split(".")
    found = getattr(getattr(import_module(f"tests.presets.{module}"), owner), name)
    assert defect in found.__doc__


def steps(count: int, tokens: int = 60, first: int = 0) -> list[dict[str, Any]]:
    """Return *count* questions, each with a call, its result and an answer."""
    return [
        message
        for number in range(first, first + count)
        for message in (
            user(f"Look at ORD-{number:05}."),
            assistant(None, f"c{number}", arguments=f'{{"path":"/srv/app/file_{number}.py"}}'),
            result(f"c{number}", f"REF-{number:05} {words(tokens)}"),
            assistant(f"ORD-{number:05} is fine."),
        )
    ]


def llm4s(window: int = 3000, **sections: Any) -> Talk:
    return Talk(preset_policy("llm4s", window, **sections))


def contents(talk: Talk, budget: int | None = None) -> list[str]:
    return [str(message["content"]) for message in talk.shown(budget)]


class TestLlm4s:
    def test_l1_a_squeezed_digest_stays_in_front_of_what_came_after_it(self) -> None:
        talk = llm4s(700)
        talk.answer = extractive
        talk.play(system("Be careful."), *steps(40))
        assert [fact for fact in talk.facts if isinstance(fact, DigestSqueezed)]
        shown = contents(talk)
        assert shown[0] == "Be careful."
        assert shown[1].startswith("[Notes on messages 1-")
        assert shown[-1] == "ORD-00039 is fine."
        assert list(talk.view().numbers) == sorted(talk.view().numbers)

    @pytest.mark.parametrize("keep", [0, 1, 2, 3, 5])
    def test_l2_no_number_of_blocks_keeps_a_result_without_its_call(self, keep: int) -> None:
        talk = llm4s(900, digest={"keep_blocks": keep})
        for message in steps(14):
            talk.play(message)
            assert problems(talk.shown()) == []
        assert [fact for fact in talk.facts if isinstance(fact, HistoryDigested)]

    def test_l3_the_last_cut_keeps_pairs_instructions_and_at_least_one_message(self) -> None:
        talk = llm4s()
        talk.play(system("Be careful."), *steps(4), user("Now this: " + words(9000)))
        for budget in (120, 300, 800):
            shown = talk.shown(budget)
            assert problems(shown) == []
            assert [message["role"] for message in shown[:1] + shown[-1:]] == ["system", "user"]

    @pytest.mark.parametrize("budget", range(60, 300, 11))
    def test_l4_every_overhead_is_within_the_budget(self, budget: int) -> None:
        talk = Talk(policy(100_000))
        talk.append(*steps(10, tokens=5))
        try:
            shown = talk.view(budget)
        except BudgetRefused:
            return
        assert sum(COUNT(json.dumps(json.loads(raw).get("content"))) for raw in shown.messages) < shown.tokens <= budget

    def test_l5_between_headroom_and_budget_history_is_digested_before_it_is_cut(self) -> None:
        talk = llm4s(3000, squeeze={"mode": "off"})
        talk.play(*steps(40))
        acted = [type(fact) for fact in talk.facts if isinstance(fact, HistoryDigested | HistoryCut)]
        assert acted[0] is HistoryDigested
        assert talk.view().tokens <= 2760

    def test_l6_later_history_is_digested_too(self) -> None:
        talk = llm4s(squeeze={"mode": "off"})
        talk.play(*steps(120))
        through = [fact.through for fact in talk.facts if isinstance(fact, HistoryDigested)]
        assert len(through) >= 3
        assert all(earlier < later for earlier, later in pairwise(through))

    def test_l7_the_last_resort_runs_though_the_model_failed(self) -> None:
        talk = llm4s(900)
        talk.append(*steps(20))
        talk.until("squeeze")
        assert talk.state.episode is not None
        boundary = talk.state.episode.boundary
        talk.land(talk.sealed((StageFailed(boundary=boundary, stage="squeeze", error="refused"),)))
        talk.settle()
        assert talk.view().tokens <= talk.state.usable_tokens

    def test_l8_l9_a_pointer_resolves_at_once_and_an_original_is_always_kept(self) -> None:
        for size in (700, 3000):  # between 2 and 8 KB, and above
            body = json.dumps([{"row": number, "none": None} for number in range(size // 7)])
            talk = llm4s(20_000)
            talk.play(user("Look."), assistant(None, "c"), result("c", body))
            (fact,) = (fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled))
            assert talk.bodies == {fact.sha256: body.encode()}
            assert fact.sha256[:16] in contents(talk)[-1]

    def test_l9_the_word_base64_makes_no_text_binary(self) -> None:
        text = "How to use base64 in a shell:\n" + "\n".join(f"line {number} encodes it" for number in range(400))
        talk = llm4s(20_000)
        talk.play(user("Look."), assistant(None, "c"), result("c", text))
        assert "How to use base64 in a shell:\nline 0 encodes it" in contents(talk)[-1]

    def test_l10_three_dashes_make_no_text_yaml(self) -> None:
        text = "# Title\n\n---\n\n" + "\n".join(f"- point {number}: it holds" for number in range(300))
        talk = llm4s(20_000)
        talk.play(user("Look."), assistant(None, "c"), result("c", text))
        shown = contents(talk)[-1]
        assert "- point 0: it holds" in shown
        assert "- point 299: it holds" in shown

    @pytest.mark.parametrize("text", ["x" * 3000, "é" * 2500, "日" * 2000, " ".join(["y" * 400] * 8)])
    def test_l11_no_result_grows_by_being_shortened(self, text: str) -> None:
        talk = llm4s(20_000)
        talk.play(user("Look."), assistant(None, "c"), result("c", text))
        for fact in talk.facts:
            assert isinstance(fact, CompactionDeclined) or (
                isinstance(fact, ToolOutputSpilled) and fact.text_tokens < fact.tokens
            )

    def test_l12_a_python_trace_is_shortened_and_its_causes_stay(self) -> None:
        frames = "\n".join(f'  File "/srv/app/f{at}.py", line {at}, in step\n    step({at})' for at in range(200))
        text = (
            f"Traceback (most recent call last):\n{frames}\nKeyError: 'ORD-7'\n\n"
            "The above exception was the direct cause of the following exception:\n\n"
            f"Traceback (most recent call last):\n{frames}\nRuntimeError: payout failed"
        )
        talk = llm4s(20_000)
        talk.play(user("Look."), assistant(None, "c"), result("c", text))
        shown = contents(talk)[-1]
        assert COUNT(shown) < COUNT(text) / 2
        assert "KeyError: 'ORD-7'" in shown
        assert "RuntimeError: payout failed" in shown


def docsgpt(window: int = 4000) -> tuple[Talk, list[Ask]]:
    talk = Talk(preset_policy("docsgpt", window))
    asked: list[Ask] = []

    def model(ask: Ask) -> str:
        asked.append(ask)
        return extractive(ask)

    talk.answer = model
    return talk, asked


class TestDocsGpt:
    def test_x1_what_was_summarized_is_not_summarized_again_at_the_next_request(self) -> None:
        talk, asked = docsgpt()
        talk.play(*steps(20))
        while not asked:
            talk.play(*steps(1, first=talk.state.messages))
        known = len(asked)
        talk.play(user("And now?"), assistant("Still fine."), user("Sure?"), assistant("Yes."))
        assert len(asked) == known

    def test_x2_the_input_of_a_summary_does_not_grow_with_the_conversation(self) -> None:
        talk, asked = docsgpt()
        talk.play(*steps(80))
        sizes = [COUNT(ask.user) for ask in asked]
        assert len(sizes) >= 4
        assert max(sizes) <= 4000
        assert max(sizes[len(sizes) // 2 :]) <= 1.3 * max(sizes[: len(sizes) // 2])

    @pytest.mark.parametrize(
        ("text", "finish"),
        [("", "stop"), ("<analysis>all of it</analysis>", "stop"), ("<analysis>half", "length"), ("half a", "length")],
    )
    def test_x3_x12_an_answer_without_a_summary_or_cut_off_is_never_taken(self, text: str, finish: str) -> None:
        talk, _ = docsgpt()
        talk.append(*steps(50))
        talk.until("squeeze")
        assert isinstance(judged(talk, [said_by_model(text, finish_reason=finish)]), CompactionDeclined)
        talk.answer = ""
        talk.settle()
        assert "ORD-00003" in " ".join(contents(talk))

    @pytest.mark.parametrize("roles", [("assistant", "tool"), ("user", "assistant", "tool")])
    def test_x4_x6_what_stays_has_its_own_number_and_its_own_place(self, roles: tuple[str, ...]) -> None:
        talk, _ = docsgpt()
        said = [user("Go."), *(message for message in steps(60) if message["role"] in roles)]
        for message in said:
            talk.play(message)
            own = [json.loads(raw) for raw in talk.view().messages if raw in {one.raw for one in talk.state.live}]
            assert own == [said[number - 1] for number in talk.view().numbers]

    def test_x5_a_summary_is_no_message_of_the_log(self) -> None:
        talk, asked = docsgpt()
        talk.play(*steps(60))
        assert talk.state.messages == 240
        assert asked
        assert all("[Notes on messages" not in ask.user for ask in asked)

    @pytest.mark.parametrize(
        "text", ["one\n\n---\n\ntwo", "[Notes on messages 1-7 of this conversation]", "</history>"]
    )
    def test_x7_no_text_of_a_user_is_taken_for_a_mark_of_ours(self, text: str) -> None:
        talk, _ = docsgpt()
        talk.play(*steps(50), user(text))
        assert talk.shown()[-1] == user(text)

    def test_x8_arguments_tools_and_the_answer_are_counted(self) -> None:
        wanted = resolve([{"budget": {"window": 1000, "reserve": 200, "tools": 100}}])
        talk = Talk(wanted)
        arguments = json.dumps({"script": words(300)})
        talk.append(assistant(None, "c", arguments=arguments))
        assert wanted.usable_tokens == 700
        assert talk.state.live_tokens >= COUNT(arguments)


def test_o8_what_the_floor_keeps_stands_in_its_own_order() -> None:
    talk = Talk(preset_policy("octopus-fifo", 1200))
    talk.play(system("Be careful."), *steps(30))
    assert [fact for fact in talk.facts if isinstance(fact, HistoryCut)]
    numbers = talk.view().numbers
    assert list(numbers) == sorted(numbers)
    orders = [text for text in contents(talk) if text.endswith("is fine.")]
    assert orders == [f"ORD-{number:05} is fine." for number in range(30 - len(orders), 30)]
    assert len(orders) >= 3


class TestHolmes:
    def test_h_a_view_that_cannot_shrink_is_not_compacted_at_every_call(self) -> None:
        """44k became 43k, again at each call (PR 2214)."""
        talk = Talk(preset_policy("jettison", 2000))
        talk.play(system(words(1650)), user("Go."))
        for number in range(30):
            talk.play(assistant(f"Step {number}."), user("On."))
        acted = [fact for fact in talk.facts if isinstance(fact, HistoryDigested | HistoryCut | CompactionDeclined)]
        assert len(acted) <= 6, "of sixty calls"

    def test_h_after_a_compaction_the_agent_still_knows_what_it_looked_at(self) -> None:
        """After each compaction the agent made the same call again (home-ops 11904)."""
        talk = Talk(preset_policy("jettison", 3000))
        talk.play(*steps(1), *steps(30, first=1))
        assert 3 not in talk.view().numbers
        known = contents(talk)[0]
        assert "/srv/app/file_0.py" in known
        assert "REF-00000" in known

    def test_h_an_error_of_733k_characters_leaves_its_error_and_the_next_compaction_works(self) -> None:
        payload = "ERROR: query timed out after 30s\n" + "payload row 17 of the answer\n" * 25_000
        talk = Talk(preset_policy("jettison", 8000))
        talk.play(user("Ask."), assistant(None, "c"), result("c", payload))
        assert "ERROR: query timed out after 30s" in contents(talk)[-1]
        talk.play(*steps(80))
        assert talk.view().tokens <= 8000

    def test_h_a_pointer_of_a_turn_long_ago_still_resolves(self) -> None:
        """Their folder is removed when the request ends."""
        talk = Talk(preset_policy("jettison", 8000))
        body = "\n".join(f"row {number} REF-{number:06}" for number in range(2000))
        talk.play(user("Ask."), assistant(None, "c"), result("c", body))
        (fact,) = (fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled))
        talk.play(*steps(100))
        assert talk.bodies[fact.sha256] == body.encode()
        assert 'read_artifact("messages:1-' in contents(talk)[0]
        assert refolded(talk).view().body == talk.view().body


class TestComplaintsAboutOthers:
    def test_a_history_that_is_over_the_window_when_it_arrives_is_served_within_it(self) -> None:
        """tontinton/maki 301; earendil-works/pi 8196: the input of a summary had 2 million tokens."""
        asked: list[Ask] = []

        def model(ask: Ask) -> str:
            asked.append(ask)
            return "The orders were looked at."

        talk = Talk(preset_policy("digitorn", 4000))
        talk.answer = model
        talk.append(*steps(200))
        talk.settle()
        assert talk.view().tokens <= 4000
        assert asked
        assert max(COUNT(ask.system) + COUNT(ask.user) + ask.tokens_max for ask in asked) <= 4000

    def test_a_tool_call_is_no_summary(self) -> None:
        """senpi 1067."""
        talk, _ = docsgpt()
        talk.append(*steps(50))
        talk.until("squeeze")
        fact = judged(talk, [said_by_model("", tool_calls=True)])
        assert isinstance(fact, CompactionDeclined)
        assert fact.reason == "the model called a tool instead of answering"

    def test_without_any_model_the_notes_hold_values_and_no_placeholder(self) -> None:
        """openclaw 3643: every compaction falls back to a placeholder."""
        talk = Talk(preset_policy("digitorn", 4000))
        talk.play(*steps(60))
        assert not [fact for fact in talk.facts if isinstance(fact, HistorySummarized)]
        assert "REF-00007" in contents(talk)[0]

    def test_one_huge_newest_message_is_shown_in_part_and_kept_whole(self) -> None:
        """open-webui/computer 277."""
        text = "What is wrong here?\n" + "\n".join(f"line {number} of the log" for number in range(9000))
        talk = Talk(preset_policy("jettison", 4000))
        talk.play(user(text))
        assert contents(talk)[-1].count("What is wrong here?") == 1
        assert talk.view().tokens <= 4000
        assert list(talk.bodies.values()) == [text.encode()]

    def test_many_identical_results_are_shown_once(self) -> None:
        """holon-run/holon 1842."""
        same = "\n".join(f"row {number} of the same table" for number in range(60))
        talk = Talk(preset_policy("jettison", 20_000))
        talk.play(user("Watch it."))
        for number in range(8):
            talk.play(assistant(None, f"c{number}"), result(f"c{number}", same))
        assert sum("row 30 of the same table" in text for text in contents(talk)) <= 1
        assert sum("The same result as message 3" in text for text in contents(talk)) == 7

    def test_between_two_compactions_the_view_grows_only_at_its_end(self) -> None:
        """ranxianglei/opencode-acp 116: old messages edited in place cost the prompt cache."""
        talk = Talk(preset_policy("jettison", 4000))
        before: tuple[bytes, ...] = ()
        changed = 0
        for message in steps(120):
            talk.play(message)
            after = talk.view().messages
            changed += after[: len(before)] != before
            before = after
        compactions = [fact for fact in talk.facts if isinstance(fact, HistoryDigested | HistoryCut)]
        assert 2 <= changed <= len(compactions) < 40

    def test_a_part_is_said_to_be_a_part(self) -> None:
        """xorbitsai/xagent 2416: totals and «none found» were wrong on results that were cut."""
        talk = Talk(preset_policy("jettison", 8000))
        body = "\n".join(f"row {number}" for number in range(4000))
        talk.play(user("Count."), assistant(None, "c"), result("c", body))
        shown = contents(talk)[-1]
        assert "4,000 lines" in shown
        assert "below is a part" in shown
        assert "Do not guess what is not shown" in shown

    def test_a_result_nobody_asked_for_makes_no_later_call_fail(self) -> None:
        """Bamboo-agent 340, stride-gpt 187, hermes-agent 51218."""
        talk = Talk(preset_policy("jettison", 4000))
        talk.play(user("Go."), result("nobody", "lost"), *steps(40))
        assert problems(talk.shown()) == []
