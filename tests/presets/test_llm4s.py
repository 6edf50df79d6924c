"""llm4s: its pipeline, its window and its counter, under the preset `llm4s` (M, W, C, E, P; L3-L7 and L16-L18).

Tool results are in `test_llm4s_tools`, blocks, digests and squeezes in `test_llm4s_history`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from actors.core.pressure import begins, pressure, trigger_tokens
from actors.core.view import view
from actors.cut.decide import cut
from actors.model_info.tokens import tokenizer_for
from protocol.errors import BadPolicy, BudgetRefused
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
    StageFailed,
    ToolOutputSpilled,
)
from protocol.formats.validate import problems
from protocol.policy import resolve
from tests.builders import COUNT, Talk, assistant, result, system, user
from tests.presets import test_llm4s_history, test_llm4s_tools
from tests.presets.cases import lightened_sample
from tests.presets.llm4s_cases import CASES, NOT_OURS, chat, managed, quarters, said_so_far, wanted
from tests.squeeze.summarizers import extractive

PARTS = (test_llm4s_history, test_llm4s_tools)
BIG = "".join(f"row {number} of the table; " for number in range(500))
LOOKED = [user("Look."), assistant(None, "c"), result("c", BIG), assistant("Seen.")]


@CASES.of("M1", "M12")
def test_the_preset_has_their_defaults() -> None:
    found = resolve([{"preset": "llm4s"}])
    assert found.budget.headroom == 0.08
    assert (found.spill.bytes, found.spill.medium_bytes) == (8192, 2048)
    assert (found.digest.keep_blocks, found.digest.cap_tokens) == (5, 400)
    assert (found.squeeze.mode, found.cut.down_to) == ("squeeze", "usable")
    assert (found.trigger.ratio, found.trigger.comparator) == (1.0, "above")


@CASES.of("M2", "W5", "W6", "W7", "W8")
@pytest.mark.parametrize(
    ("budget", "key"),
    [
        ({"headroom": 1.5}, "budget.headroom"),
        ({"headroom": 1.0}, "budget"),
        ({"headroom": -0.1}, "budget.headroom"),
        ({"window": 0}, "budget.window"),
        ({"window": -5}, "budget.window"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_by_its_key(budget: dict[str, Any], key: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        resolve([{"preset": "llm4s", "budget": budget}])
    assert refused.value.fields["key"] == key


@CASES.of("W5", "W6")
@pytest.mark.parametrize("budget", [0, -5])
def test_a_view_of_no_tokens_is_refused(budget: int) -> None:
    with pytest.raises(BudgetRefused):
        view(said_so_far(1000, *chat(1)).state, budget=budget, count=quarters)


@CASES.of("M14", "W9")
def test_a_conversation_without_messages_is_no_error() -> None:
    """Theirs refuses it; here nothing was said yet."""
    talk = managed(100)
    assert (talk.shown(), talk.facts) == ([], [])


@CASES.of("M3", "E1")
def test_a_chat_that_fits_is_touched_by_no_step() -> None:
    said = [user("Hi there, how are you today?"), assistant("Fine, thank you. What may I do for you, today? Say.")]
    talk = managed(1000, *said)
    assert talk.state.live_tokens == 28
    assert (talk.shown(), talk.facts) == (said, [])


@CASES.of("M15")
def test_a_single_message_stays() -> None:
    assert managed(100, user("Hello")).shown() == [user("Hello")]


@CASES.of("M4", "E1")
def test_the_steps_act_in_their_order_and_each_says_what_it_did() -> None:
    talk = managed(150, *LOOKED, *chat(20), squeeze={"model": "m"}, answer="Nothing of worth.")
    assert [(type(fact), getattr(fact, "stage", "")) for fact in talk.facts] == [
        (ToolOutputSpilled, ""),
        (HistoryDigested, ""),
        (CompactionDeclined, "squeeze"),
        (HistoryCut, ""),
    ]


@CASES.of("M5", "M9", "E1", "E6")
@pytest.mark.parametrize("budget", [92, 130, 184, 200, 400, 700])
def test_the_result_is_within_the_budget_and_the_figures_add_up(budget: int) -> None:
    talk = managed(budget, *chat(20))
    changes = [fact for fact in talk.facts if isinstance(fact, HistoryDigested | HistoryCut | DigestSqueezed)]
    assert changes[0].before_tokens == 40 * 18
    assert all(one.after_tokens == other.before_tokens for one, other in pairwise(changes))
    assert all(one.after_tokens < one.before_tokens for one in changes)
    assert changes[-1].after_tokens == talk.state.live_tokens == talk.view().tokens <= budget


@CASES.of("M6")
def test_where_no_result_may_be_moved_none_is() -> None:
    off = {"bytes": 10**9, "medium_bytes": None}
    assert managed(4000, *LOOKED, spill=off).shown() == LOOKED
    assert managed(4000, *LOOKED).shown() != LOOKED


@CASES.of("M7", "M8")
@pytest.mark.parametrize(
    ("squeeze", "stages"),
    [({"mode": "off", "model": "m"}, []), ({}, ["neither policy nor agent named a model"])],
)
def test_without_an_llm_the_squeeze_is_left_out_and_the_cut_acts(squeeze: dict[str, Any], stages: list[str]) -> None:
    talk = managed(150, *chat(20), answer="asked", squeeze=squeeze)
    said = [fact.reason for fact in talk.facts if isinstance(fact, CompactionDeclined) and fact.stage == "squeeze"]
    assert said == stages
    assert isinstance(talk.facts[-1], HistoryCut)
    assert talk.view().tokens <= 150


@CASES.of("M16", "W3")
def test_a_digest_stays_before_everything_else_when_the_window_shrinks() -> None:
    talk = managed(400, *chat(20))
    digest = talk.shown()[0]
    for budget in (400, 300, 250, 200, 170):
        shown = talk.shown(budget)
        assert shown[0] == digest
        assert shown[1:] == chat(20)[-len(shown) + 1 :]
        assert talk.view(budget).tokens <= budget


@CASES.of("W1")
def test_what_fits_is_untouched() -> None:
    assert said_so_far(1000, *chat(20)).shown() == chat(20)


@CASES.of("W2", "W4", "W15", "L3", "L4", "E6")
@pytest.mark.parametrize(
    ("window", "headroom", "usable", "messages"),
    [
        (100, 0.08, 92, 5),
        (200, 0.08, 184, 10),
        (100, 0.2, 80, 4),
        (30, 0.08, 27, 1),
        (20, 0.08, 18, 1),
        (783, 0.08, 720, 40),
        (782, 0.08, 719, 39),
    ],
)
def test_the_newest_messages_that_fit_stay_and_every_overhead_is_counted(
    window: int, headroom: float, usable: int, messages: int
) -> None:
    """L4: theirs does not count its own overhead: 190 of 184 tokens, and 29 of 27."""
    said = [*chat(19), user("Filler.".ljust(56, ".")), *chat(1, first=20)[:1]]
    said = [assistant("Hello.".ljust(56, ".")), *said[:38], said[-1]]
    talk = said_so_far(window, *said, budget={"window": window, "reserve": 0, "headroom": headroom})
    assert talk.state.usable_tokens == usable
    assert talk.shown() == said[-messages:]
    assert talk.view().tokens == 18 * messages <= usable


RUN = [*chat(3), assistant(None, "c"), result("c", "r" * 60)]
"""Of its last question, the call and its result, 51 tokens must stay."""


@CASES.of("W15", "L3")
@pytest.mark.parametrize("window", [2, 10, 30, 55])
def test_a_view_is_never_empty_or_without_the_question_but_refused_by_name(window: int) -> None:
    """L3: theirs returns nothing where the newest message is too large."""
    talk = said_so_far(window, *RUN)
    with pytest.raises(BudgetRefused) as refused:
        talk.view()
    assert (refused.value.fields["tokens"], refused.value.fields["budget"]) == (51, talk.state.usable_tokens)


@CASES.of("L3")
@pytest.mark.parametrize(
    ("window", "kept"), [(56, [4, 6, 7]), (75, [4, 5, 6, 7]), (94, [4, 5, 6, 7]), (95, [3, 4, 5, 6, 7])]
)
def test_the_question_the_call_and_its_result_stay_together(window: int, kept: list[int]) -> None:
    """L3: theirs cuts by message, and leaves a result without its call."""
    talk = said_so_far(window, *RUN)
    assert talk.shown() == [RUN[at] for at in kept]
    assert problems(talk.shown()) == []


@CASES.of("W10", "W11", "W12", "W13", "W14")
@pytest.mark.parametrize(
    ("window", "headroom", "fits", "share"),
    [(144, 0.0, True, 1.0), (143, 0.0, False, 144 / 143), (288, 0.5, True, 1.0), (286, 0.5, False, 144 / 143),
     (288, 0.0, True, 0.5)],
)  # fmt: skip
def test_a_conversation_fits_up_to_its_usable_tokens(window: int, headroom: float, fits: bool, share: float) -> None:
    talk = said_so_far(window, *chat(4), budget={"window": window, "reserve": 0, "headroom": headroom})
    assert talk.state.live_tokens == 144
    assert pressure(talk.state) == pytest.approx(share)
    assert begins(talk.state) is not fits
    assert (talk.state.episode is None) is fits


@CASES.of("L5", "L17")
def test_the_headroom_is_taken_once_and_every_step_compares_with_the_same_number() -> None:
    """L5: between 92 % and 100 % theirs only cuts; L17: its helper takes the 8 % twice."""
    policy = resolve([{"preset": "llm4s", "budget": {"window": 1000, "reserve": 100}}])
    assert policy.usable_tokens == 828
    talk = said_so_far(1000)
    assert (talk.state.usable_tokens, trigger_tokens(talk.state)) == (920, 920)
    talk.play(*chat(26))
    assert 920 < 26 * 2 * 18 < 1000
    assert [type(fact) for fact in talk.facts] == [HistoryDigested]


@CASES.of("L7")
def test_a_model_that_fails_hands_on_to_the_cut() -> None:
    """L7: in theirs the last resort never runs after an error."""
    talk = Talk(wanted(squeeze={"model": "m"}), count=quarters)
    talk.append(*chat(20))
    talk.say(CompactionRequested(budget=150))
    talk.until("squeeze")
    assert talk.state.episode is not None
    failed = StageFailed(boundary=talk.state.episode.boundary, stage="squeeze", error="timeout", attempts=3)
    talk.land(talk.sealed((failed,)))
    assert [type(fact) for fact in cut(talk.state, count=quarters)] == [HistoryCut]
    talk.settle()
    assert talk.view().tokens <= 150


@CASES.of("L16")
def test_a_setting_that_would_be_ignored_is_refused() -> None:
    """L16: theirs takes `enableSubjectiveEdits` and does nothing with it."""
    with pytest.raises(BadPolicy) as refused:
        resolve([{"preset": "llm4s", "digest": {"enableSubjectiveEdits": True}}])
    assert refused.value.fields["key"] == "digest.enableSubjectiveEdits"


@CASES.of("L18", "P5", "P6")
def test_a_window_of_turns_a_budget_and_a_floor_hold_together_and_system_messages_keep_their_place() -> None:
    """L18: theirs cuts by one limit and decides by the other, never reads its floor, and moves system messages."""
    note = system("Answer briefly.")
    said = [system("You are careful."), *chat(8), note, *chat(8, first=9)]
    sections = {"window": 10, "floor": {"blocks": 3, "mode": "hard"}, "pins": ["system", "last_user"]}

    def shown(window: int) -> list[dict[str, Any]]:
        return said_so_far(
            window, *said, cut=sections, budget={"window": window, "reserve": 0, "headroom": 0.0}
        ).shown()

    head, last = said[:1], chat(16)
    assert shown(1000) == said
    assert shown(500) == [*head, *last[12:16], note, *last[16:]]
    assert shown(250) == [*head, note, *last[-13:]]
    assert shown(130) == [*head, note, *last[-6:]]


@CASES.of("C1")
@pytest.mark.parametrize(
    ("model", "counted"),
    [
        ("gpt-4o", ("o200k_base", False)),
        ("o1-mini", ("o200k_base", False)),
        ("gpt-4", ("cl100k_base", False)),
        ("gpt-3.5-turbo", ("cl100k_base", False)),
        ("claude-sonnet-4", ("o200k_base", True)),
        ("nobody-knows-it", ("o200k_base", True)),
    ],
)
def test_a_model_names_its_tokenizer_and_an_unknown_one_is_an_estimate(model: str, counted: tuple[str, bool]) -> None:
    found = tokenizer_for(model)
    assert (found.encoding, found.estimate) == counted


@CASES.of("C3")
def test_a_call_costs_its_name_its_arguments_and_its_frame() -> None:
    silent, calling = (said_so_far(1000, assistant("x", *ids)).state.live_tokens for ids in ((), ("c",)))
    assert calling - silent == 8 + quarters("look") + quarters("{}")


@CASES.of("C4")
def test_a_conversation_costs_the_sum_of_its_messages_and_nothing_costs_nothing() -> None:
    """Their 10 for each conversation is in none of their own budgets (L4)."""
    assert said_so_far(1000).state.live_tokens == 0
    assert said_so_far(1000, *chat(3)).state.live_tokens == 6 * (4 + 14)


@CASES.of("C5")
def test_a_view_tells_its_tokens_by_what_they_are() -> None:
    said = [system("s" * 40), *chat(1), user("u"), assistant(None, "c"), result("c", "r" * 80)]
    assert said_so_far(1000, *said).view().categories == {
        "system": 14,
        "user": 18 + 5,
        "assistant": 18 + 4 + 8 + 1,
        "tool_calls": 1,
        "tool_results": 20 + 4,
        "digest": 0,
    }


@CASES.of("C6", "E3")
@pytest.mark.parametrize("keep", [0, 1, 3, 5, 10])
@pytest.mark.parametrize("share", [0.9, 0.6, 0.4, 0.25])
def test_the_same_conversation_gives_the_same_bytes_whatever_cap_and_kept_blocks(keep: int, share: float) -> None:
    digest = {"keep_blocks": keep, "cap_tokens": int(720 * share)}
    one, two = (managed(500, *chat(20), digest=digest) for _ in range(2))
    assert one.view().body == two.view().body
    assert one.facts == two.facts
    assert one.view().tokens <= 500


@CASES.of("E1")
@pytest.mark.parametrize("budget", [5000, 10_000, 20_000])
@pytest.mark.parametrize("kind", ["realistic", "tool-heavy"])
def test_their_two_fixtures_come_within_each_of_their_budgets(kind: str, budget: int) -> None:
    if kind == "realistic":
        said = [message | {"content": message["content"] * 4} for message in chat(75)]
    else:
        table = [f"call {at}: " + BIG * 2 for at in range(40)]
        said = [
            m
            for at, rows in enumerate(table)
            for m in (user(f"Q{at}"), assistant(None, f"c{at}"), result(f"c{at}", rows))
        ]
    before = sum(quarters(message["content"] or "") for message in said)
    talk = managed(budget, *said)
    assert talk.view().tokens <= budget
    assert (before > 200_000) is (kind == "tool-heavy")
    assert problems(talk.shown()) == []
    assert talk.shown()[-1]["role"] == said[-1]["role"]


def test_every_view_of_the_recorded_run_keeps_the_invariants() -> None:
    talk = lightened_sample(wanted(8000, squeeze={"model": "m"}), answer=extractive)
    assert any(isinstance(fact, ToolOutputSpilled) for fact in talk.facts)


def test_a_real_tokenizer_counts_what_is_shown() -> None:
    talk = Talk(wanted(4000))
    talk.play(*LOOKED, *chat(80))
    assert sum(COUNT(message["content"] or "") for message in talk.shown()) < talk.view().tokens <= 3680


def test_every_case_is_accounted_for() -> None:
    assert all(part.__doc__ for part in PARTS)
    assert NOT_OURS.keys().isdisjoint(CASES.covered)
    assert CASES.covered | NOT_OURS.keys() == CASES.expected
