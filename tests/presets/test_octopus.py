"""Octopus: O1-O10 and O8 of the snippet in its document, under its three presets.

Its document alone is known: no code, tests or issues. Its turns are complete pairs; the current message stands
beside them, as the last message of every conversation here.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors.core.caps import cap_tokens
from actors.squeeze.decide import Ask
from protocol.errors import BudgetRefused
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    ContextServed,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    ToolOutputSpilled,
)
from protocol.policy import Policy, resolve
from tests.builders import Talk, assistant, result, system, user, words
from tests.presets.cases import Cases, lightened_sample
from tests.squeeze.summarizers import extractive

CASES = Cases(O=10)
NOT_OURS: dict[str, str] = {}

EVERY = ("octopus-fifo", "octopus-window", "octopus-summarize")
WITHOUT_LLM = ("octopus-fifo", "octopus-window")
NOW = user("And now?")


def quarters(text: str) -> int:
    """Count as Octopus does; its 4 tokens for each message are ours too. No text is none to count."""
    return max(1, len(text) // 4) if text else 0


def wanted(preset: str, window: int = 150_000, **sections: Any) -> Policy:
    return resolve([{"preset": preset, "budget": {"window": window, "reserve": 0}}, sections])


def turns(first: int, last: int, *, tokens: int = 200) -> list[dict[str, Any]]:
    """Return complete turns by their numbers, each of a question and an answer of *tokens* with their frames."""
    said = []
    for number in range(first, last + 1):
        for message in (user(f"Question {number:2}? "), assistant(f"Answer {number:2}. ")):
            said.append(message | {"content": message["content"].ljust(4 * (tokens - 4), "x")})
    return said


def pruned(preset: str, budget: int, *said: dict[str, Any], **sections: Any) -> Talk:
    """Return the conversation of *said* after its history was pruned to *budget*, at once."""
    talk = Talk(wanted(preset, **sections), count=quarters)
    talk.append(*said)
    talk.say(CompactionRequested(budget=budget))
    talk.settle()
    return talk


def test_the_presets_have_the_documents_numbers() -> None:
    for preset in EVERY:
        found = resolve([{"preset": preset}])
        assert (found.budget.window, found.budget.reserve, found.usable_tokens) == (100_000, 4096, 95_904)
        assert (found.cut.floor.blocks, found.cut.floor.mode, found.cut.by) == (4, "hard", "blocks")
        assert cap_tokens(found, found.usable_tokens) == 2000
    assert resolve([{"preset": "octopus-window"}]).cut.window == 11
    assert resolve([{"preset": "octopus-summarize"}]).digest.keep_share == 0.7


@CASES.of("O1", "O10")
@pytest.mark.parametrize("preset", EVERY)
def test_fifty_turns_that_fit_are_untouched_and_nobody_is_asked(preset: str) -> None:
    talk = pruned(preset, 150_000, *turns(1, 50), NOW)
    assert talk.shown() == [*turns(1, 50), NOW]
    assert talk.facts == []


@CASES.of("O10")
@pytest.mark.parametrize(("budget", "dropped"), [(2006, 0), (2005, 2)])
def test_a_history_as_large_as_its_budget_fits(budget: int, dropped: int) -> None:
    talk = pruned("octopus-fifo", budget, *turns(1, 5), NOW)
    assert talk.state.live_tokens == 2006 - 200 * dropped
    assert len(talk.shown()) == 11 - dropped
    assert [fact.dropped for fact in talk.facts if isinstance(fact, HistoryCut)] == ([(1, 2)] if dropped else [])


@CASES.of("O2")
def test_over_the_budget_the_oldest_pairs_leave_whole() -> None:
    talk = pruned("octopus-fifo", 8000, *turns(1, 50), NOW)
    assert talk.shown() == [*turns(32, 50), NOW]
    # sixty-one messages would do, but a question does not leave without its answer
    assert talk.view().tokens == 7606
    assert talk.facts == [
        CompactionDeclined(boundary=101, stage="digest", reason="digest.mode is off"),
        HistoryCut(
            boundary=101,
            dropped=tuple(range(1, 63)),
            trimmed=(),
            level="units",
            digest_dropped=False,
            before_tokens=20_006,
            after_tokens=7606,
            ledger=talk.facts[1].ledger,  # type: ignore[union-attr]
            fates=talk.facts[1].fates,  # type: ignore[union-attr]
        ),
    ]


FAR_OVER: dict[str, Any] = {"trigger": {"ratio": 0.001}, "target": {"low_water": 0.0}}
"""Ten tokens would be enough, so that each message is over it: what stays, stays by the minimum of turns."""


@CASES.of("O3")
@pytest.mark.parametrize("preset", EVERY)
def test_a_target_of_nothing_leaves_the_last_three_turns_in_their_order(preset: str) -> None:
    talk = Talk(wanted(preset, **FAR_OVER), count=quarters)
    talk.append(*turns(1, 50), NOW)
    talk.settle()
    notes = preset == "octopus-summarize"
    assert talk.shown()[notes:] == [*turns(48, 50), NOW]


@CASES.of("O3")
@pytest.mark.parametrize("preset", EVERY)
def test_the_last_three_turns_stay_within_a_smaller_budget_with_shorter_texts(preset: str) -> None:
    """Theirs goes over the budget, and the provider's error follows; ours shortens inside the turns."""
    talk = pruned(preset, 600, *turns(1, 50), NOW)
    shown = talk.shown()[-7:]
    assert [message["content"][:12].strip() for message in shown] == [
        "Question 48?", "Answer 48. x", "Question 49?", "Answer 49. x", "Question 50?", "Answer 50. x", "And now?",
    ]  # fmt: skip
    assert talk.view().tokens <= 600


@CASES.of("O3")
@pytest.mark.parametrize("preset", EVERY)
def test_three_turns_that_nothing_can_make_fit_are_refused_by_name_and_nothing_is_served(preset: str) -> None:
    talk = pruned(preset, 10, *turns(1, 50), NOW)
    with pytest.raises(BudgetRefused) as refused:
        talk.view()
    assert refused.value.fields["budget"] == 10
    assert "largest: message " in str(refused.value)
    assert not [fact for fact in talk.facts if isinstance(fact, ContextServed)]


@CASES.of("O4")
@pytest.mark.parametrize("preset", EVERY)
@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_of_three_turns_or_fewer_all_stay(preset: str, count: int) -> None:
    talk = Talk(wanted(preset, **FAR_OVER), count=quarters)
    talk.append(*turns(1, count), NOW)
    talk.settle()
    assert talk.shown() == [*turns(1, count), NOW]
    assert not [fact for fact in talk.facts if isinstance(fact, HistoryCut | HistoryDigested)]


@CASES.of("O5")
@pytest.mark.parametrize("preset", WITHOUT_LLM)
def test_a_call_leaves_with_its_result_and_with_the_question_that_it_was_for(preset: str) -> None:
    looked = [user("Question?"), assistant(None, "a", "b"), result("b", "x" * 800), result("a"), assistant("Answer.")]
    talk = pruned(preset, 1300, *looked, *turns(1, 3), NOW)
    assert talk.shown() == [*turns(1, 3), NOW]


@CASES.of("O5")
def test_within_the_newest_block_batches_of_calls_leave_alone() -> None:
    run = [m for at in range(20) for m in (assistant(None, f"c{at}"), result(f"c{at}", "x" * 800))]
    talk = pruned("octopus-fifo", 1500, user("Mend it."), *run)
    shown = talk.shown()
    assert shown == [user("Mend it."), *run[-len(shown) + 1 :]]
    assert 1500 - 215 < talk.view().tokens <= 1500


INJECTED = system("Knowledge: orders are kept for 90 days.")


@CASES.of("O6")
@pytest.mark.parametrize("preset", EVERY)
def test_instructions_and_injected_context_survive_every_strategy_in_their_place(preset: str) -> None:
    head = system("You are careful.")
    talk = pruned(preset, 8000, head, *turns(1, 10), INJECTED, *turns(11, 50), NOW, squeeze={"model": "m"})
    shown = talk.shown()
    assert shown[0] == head
    assert shown.count(INJECTED) == 1
    numbers = talk.view().numbers
    assert (numbers[0], 22 in numbers, list(numbers)) == (1, True, sorted(numbers))


@CASES.of("O7")
def test_the_window_leaves_the_last_ten_turns() -> None:
    talk = pruned("octopus-window", 8000, *turns(1, 50), NOW)
    assert talk.shown() == [*turns(41, 50), NOW]


@CASES.of("O7")
@pytest.mark.parametrize(("count", "first"), [(9, 2), (10, 2), (11, 2), (12, 3)])
def test_the_window_counts_whole_turns(count: int, first: int) -> None:
    """How fewer turns than the window come out is undefined in the document; here the budget decides alone."""
    said = [*turns(1, count), NOW]
    talk = pruned("octopus-window", 4 + len(turns(1, count)) * 200, *said)
    assert talk.shown() == [*turns(first, count), NOW]


@CASES.of("O8")
@pytest.mark.parametrize("preset", EVERY)
@pytest.mark.parametrize("budget", [8000, 3000, 1300, 600])
def test_what_the_floor_keeps_stands_in_its_original_order(preset: str, budget: int) -> None:
    """O8 of 5.2: their EnsureMinHistory puts back two missing turns in reverse, and those of the middle in front."""
    talk = pruned(preset, budget, *turns(1, 50), NOW)
    for message in (*turns(51, 53), user("Then?")):
        talk.play(message)
        numbers = talk.view().numbers
        assert list(numbers) == sorted(set(numbers))
        said = [one["content"][:12] for one in talk.shown() if one["content"].startswith("Question")]
        assert said == sorted(said)
        assert len(said) >= 3


@CASES.of("O8")
def test_the_floor_holds_in_the_middle_of_a_history_that_lost_its_large_messages() -> None:
    """5.2: what is missing of the last turns is never put back, for it never leaves; a call goes with its result."""
    looked = [user("Question x?"), assistant(None, "a"), result("a", "x" * 4000), assistant("Answer x.")]
    talk = pruned("octopus-fifo", 700, *turns(1, 20), *turns(21, 21), *looked, *turns(22, 22), NOW)
    assert [message["role"] for message in talk.shown()] == [
        "user", "assistant", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip
    assert talk.view().tokens <= 700


@CASES.of("O9")
def test_the_oldest_thirty_percent_become_one_summary_and_the_rest_is_cut_down_to_the_budget() -> None:
    talk = Talk(wanted("octopus-summarize", squeeze={"model": "m"}), count=quarters)
    asked: list[Ask] = []

    def model(ask: Ask) -> str:
        asked.append(ask)
        return "Intent: fifteen questions were asked and answered."

    talk.answer = model
    talk.append(*turns(1, 50), NOW)
    talk.say(CompactionRequested(budget=8000))
    talk.settle()
    kinds = [type(fact) for fact in talk.facts]
    assert kinds == [HistoryDigested, HistorySummarized, HistoryCut]
    digested = talk.facts[0]
    assert isinstance(digested, HistoryDigested)
    # 30 of 101 messages, rounded down, and no pair is parted
    assert (digested.through, digested.kept) == (30, ())
    assert len(asked) == 1
    assert asked[0].user.count(", user]") == 15
    shown = talk.shown()
    assert "Intent: fifteen questions were asked and answered." in shown[0]["content"]
    assert shown[1:] == [*turns(32, 50), NOW]
    assert talk.view().tokens <= 8000


@CASES.of("O9")
def test_without_an_answer_of_the_model_a_summary_by_rules_stands_there() -> None:
    talk = pruned("octopus-summarize", 8000, *turns(1, 50), NOW)
    assert [type(fact) for fact in talk.facts] == [HistoryDigested, CompactionDeclined, HistoryCut]
    assert talk.shown()[1:] == [*turns(32, 50), NOW]
    assert talk.view().tokens <= 8000


@CASES.of("O9")
def test_a_summary_that_is_enough_is_followed_by_no_cut() -> None:
    talk = pruned("octopus-summarize", 15_000, *turns(1, 50), NOW)
    assert [type(fact) for fact in talk.facts] == [HistoryDigested, CompactionDeclined]
    assert talk.shown()[1:] == [*turns(16, 50), NOW]


@CASES.of("O3", "O9")
def test_a_summary_does_not_take_in_the_last_three_turns() -> None:
    """30 % of three turns by count would be one of them."""
    talk = pruned("octopus-summarize", 1200, *turns(1, 3), NOW)
    assert not [fact for fact in talk.facts if isinstance(fact, HistoryDigested)]
    assert [message["role"] for message in talk.shown()] == [message["role"] for message in (*turns(1, 3), NOW)]


@pytest.mark.parametrize(("tokens", "spilled"), [(2000, False), (2001, True)])
def test_a_tools_result_has_at_most_two_thousand_tokens(tokens: int, spilled: bool) -> None:
    talk = Talk(wanted("octopus-fifo"))
    talk.play(user("Look."), assistant(None, "c"), result("c", words(tokens)))
    facts = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]
    assert len(facts) == spilled
    assert all(fact.text_tokens <= 2000 for fact in facts)
    assert talk.state.live[-1].tokens <= 2000 + 4


def test_what_a_user_says_has_no_cap_of_its_own() -> None:
    talk = Talk(wanted("octopus-fifo"))
    talk.play(user(words(30_000)))
    assert talk.shown() == [user(words(30_000))]


@pytest.mark.parametrize("preset", EVERY)
def test_every_view_of_the_recorded_run_keeps_the_invariants(preset: str) -> None:
    lightened_sample(wanted(preset, 12_000, squeeze={"model": "m"}), answer=extractive)


def test_every_case_is_accounted_for() -> None:
    assert NOT_OURS.keys().isdisjoint(CASES.covered)
    assert CASES.covered | NOT_OURS.keys() == CASES.expected
