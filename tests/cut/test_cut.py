"""Cut: whole units leave, oldest first; then texts are shortened; then it is refused by name."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.cut_plan import SHRUNK_TOKENS_MIN, CutPlan, plan_cut
from actors.core.shrink import water_level, water_levels
from actors.cut.decide import cut
from protocol.errors import BudgetRefused
from protocol.facts import CompactionDeclined, HistoryCut
from protocol.policy import Policy, resolve
from tests.builders import COUNT, Talk, assistant, policy, result, system, user, words
from tests.laws import LAWS


@pytest.mark.parametrize(
    ("sizes", "room", "height"),
    [
        ([100, 10], 50, 40),
        ([100, 100], 50, 25),
        ([10, 10], 50, 10),
        ([50], 50, 50),
        ([51], 50, 50),
        ([3, 3, 3], 8, 2),
        ([10], 0, 0),
        ([10], -5, 0),
        ([], 50, 0),
    ],
)
def test_the_water_level_of_known_sizes(sizes: list[int], room: int, height: int) -> None:
    assert water_level(sizes, room) == height


@given(st.lists(st.integers(0, 5000), max_size=12), st.integers(0, 20_000))
@LAWS
def test_sizes_cut_to_the_water_level_fit_and_waste_almost_nothing(sizes: list[int], room: int) -> None:
    height = water_level(sizes, room)
    used = sum(min(size, height) for size in sizes)
    assert used <= room
    assert used == sum(sizes) or room - used < max(1, len(sizes))


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 90)), max_size=12), st.integers(0, 20_000))
@LAWS
def test_sizes_cut_to_levels_of_different_weight_fit_and_waste_almost_nothing(
    weighted: list[tuple[int, int]], room: int
) -> None:
    sizes, weights = [size for size, _ in weighted], [weight for _, weight in weighted]
    heights = water_levels(sizes, weights, room)
    used = sum(map(min, sizes, heights))
    assert used <= room
    assert used == sum(sizes) or room - used < max(1, len(sizes))
    if used < sum(sizes):
        assert all(abs(height - room_of(weights, heights, at)) <= 1 for at, height in enumerate(heights))


def room_of(weights: list[int], heights: list[int], at: int) -> float:
    """Return the height of *at* in proportion to the one with the greatest weight."""
    most = max(range(len(weights)), key=weights.__getitem__)
    return heights[most] * weights[at] / weights[most]


def plan(talk: Talk, within: int, *, down_to: int | None = None) -> CutPlan:
    return plan_cut(
        talk.state, talk.state.live, down_to=within if down_to is None else down_to, within=within, count=COUNT
    )


def live(*said: dict[str, Any], **sections: dict[str, object]) -> Talk:
    """Return a conversation whose messages are all live, under a policy that compacts nothing."""
    talk = Talk(policy(100_000, **sections))
    talk.append(*said)
    return talk


USERS = [user(words(96)) for _ in range(5)]


@pytest.mark.parametrize(
    ("within", "dropped"),
    [(500, ()), (499, (1,)), (400, (1,)), (399, (1, 2)), (100, (1, 2, 3, 4))],
)
def test_just_as_many_of_the_oldest_units_are_dropped_as_needed(within: int, dropped: tuple[int, ...]) -> None:
    expected = CutPlan(level="units" if dropped else "none", dropped=dropped, tokens=500 - 100 * len(dropped))
    assert plan(live(*USERS), within) == expected


def test_a_target_that_cannot_be_met_is_enough_within_the_budget() -> None:
    assert plan(live(*USERS), 200, down_to=50) == CutPlan(level="units", dropped=(1, 2, 3, 4), tokens=100)
    assert plan(live(user(words(96))), 200, down_to=50) == CutPlan(level="none", tokens=100)


def test_instructions_pins_and_the_newest_unit_stay() -> None:
    talk = live(
        system(words(6)), user(words(6)), user(words(96)), user(words(6)), assistant(words(96)), assistant(words(6)),
        cut={"pins": ["first_user", "last_user"]},
    )  # fmt: skip
    assert plan(talk, 60).dropped == (3, 5)


def test_a_batch_is_dropped_as_a_whole() -> None:
    talk = live(user("u"), assistant(None, "a", "b"), result("b", words(50)), result("a", words(50)), user("v"))
    assert plan(talk, 100).dropped == (1, 2, 3, 4)


def test_an_aborted_batch_is_dropped_with_its_written_results() -> None:
    talk = live(assistant(words(50), "a", "b"), result("b", "x"), user("v"))
    assert [message["role"] for message in talk.shown()] == ["assistant", "tool", "tool", "user"]
    assert talk.shown(20) == [user("v")]


def test_long_texts_are_shortened_where_units_are_not_enough() -> None:
    talk = live(system(words(600)), user(words(100)), assistant(words(50)), user(words(600)))
    found = plan(talk, 400)
    assert (found.level, found.dropped, found.digest_dropped) == ("shrink", (2, 3), False)
    assert found.tokens <= 400
    assert [(trim.number, trim.pointer, trim.tokens <= 200) for trim in found.trimmed] == [
        (1, "/content", True),
        (4, "/content", True),
    ]
    assert all(COUNT(trim.text) == trim.tokens for trim in found.trimmed)


def test_the_users_last_words_are_shortened_after_all_others_and_only_if_they_are_most_of_the_budget() -> None:
    talk = live(system(words(600)), user(words(190)), assistant(None, "c"), result("c", words(600)))
    found = plan(talk, 400)
    assert (found.level, [trim.number for trim in found.trimmed]) == ("shrink", [1, 4])
    assert talk.shown(400)[1] == user(words(190))
    larger = plan(live(system(words(600)), user(words(210))), 400)
    assert (larger.level, [trim.number for trim in larger.trimmed]) == ("shrink", [1, 2])


def test_results_are_shortened_before_instructions_which_no_answer_takes_out_of_the_window() -> None:
    talk = live(
        system(words(450)), user(words(50)), assistant(None, "c"), result("c", words(600)), digest={"records": "fields"}
    )
    found = plan(talk, 1000)
    assert (found.level, [trim.number for trim in found.trimmed], found.tokens <= 1000) == ("shrink", [4], True)
    # instructions that are most of the budget pay too
    assert [trim.number for trim in plan(talk, 850).trimmed] == [1, 4]


def test_the_digest_goes_before_the_users_last_words_are_shortened() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.play(*(user(f"{words(90)} ORD-{number:05}") for number in range(12)))
    assert talk.state.digest is not None
    assert talk.state.digest.tokens > 120
    found = plan(talk, 220)
    assert (found.level, found.trimmed, found.digest_dropped) == ("bare", (), True)


def test_short_texts_are_left_alone_while_long_ones_are_shortened() -> None:
    talk = live(system(words(SHRUNK_TOKENS_MIN)), user(words(900)))
    assert [trim.number for trim in plan(talk, 300).trimmed] == [2]


def test_shortened_arguments_stay_json() -> None:
    arguments = json.dumps({"script": 'echo "ä\\n"\n' * 300})
    talk = live(user("u"), assistant(None, "c", arguments=arguments), result("c", words(20)))
    shown = talk.shown(200)
    assert "shortened" in json.loads(shown[1]["tool_calls"][0]["function"]["arguments"])


@pytest.mark.parametrize("text", ["\ud800" * 900, "日本語" * 900, "👩‍💻" * 500, "\n" * 5000, '"\\' * 900])
def test_any_text_can_be_shortened_to_any_budget_that_is_not_refused(text: str) -> None:
    talk = live(user(text), assistant(None, "c", arguments=text))
    for budget in (60, 100, 200, 400):
        assert talk.view(budget).tokens <= budget


def test_without_room_for_the_digest_it_goes_too() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.play(*(user(f"{words(90)} ORD-{number:05}") for number in range(12)))
    assert talk.state.digest is not None
    found = plan(talk, talk.state.digest.tokens + 10)
    assert (found.level, found.digest_dropped) == ("bare", True)
    shown = talk.shown(talk.state.digest.tokens + 10)
    assert [message["role"] for message in shown] == ["user"]
    assert talk.view(talk.state.digest.tokens + 10).categories["digest"] == 0


def test_what_cannot_be_shown_is_refused_with_the_three_largest_messages() -> None:
    talk = live(*(system(words(20 + number)) for number in range(4)), user("u"))
    with pytest.raises(BudgetRefused) as refused:
        plan(talk, 50)
    parts = [(4, "system", 27), (3, "system", 26), (2, "system", 25)]
    assert refused.value.fields == {"tokens": 107, "budget": 50, "parts": parts}


def test_a_result_that_is_shortened_before_all_else_keeps_whole_rows() -> None:
    rows = [{"flight": f"HAT{at}", "status": "available", "price": 100 + at} for at in range(60)]
    talk = live(system(words(450)), assistant(None, "c"), result("c", json.dumps(rows)), digest={"records": "fields"})
    (trim,) = plan(talk, 1000).trimmed
    told = json.loads(trim.text)
    assert told[:3] == rows[:3]
    assert all(isinstance(one, str) or one in rows for one in told)


def test_a_policy_that_does_not_shrink_refuses_at_once() -> None:
    talk = live(*USERS, cut={"on_overflow": "refuse"})
    with pytest.raises(BudgetRefused):
        plan(talk, 99)
    assert plan(talk, 100).level == "units"


def asked(*said: dict[str, Any], **sections: dict[str, object]) -> Talk:
    """Return a conversation of which digest is over and cut is asked."""
    talk = Talk(policy(1000, spill={"share": 1.0}, digest={"mode": "off"}, **sections))
    talk.append(*said)
    boundary = talk.state.live[-1].number
    talk.land(talk.sealed((CompactionDeclined(boundary=boundary, stage="digest", reason=""),)))
    return talk


def test_cut_goes_down_to_the_target_and_says_what_it_won() -> None:
    talk = asked(*(user(words(96)) for _ in range(10)), trigger={"ratio": 0.9}, target={"low_water": 0.6})
    (fact,) = cut(talk.state, count=COUNT)
    assert isinstance(fact, HistoryCut)
    assert msgspec.structs.replace(fact, ledger=(), fates=()) == HistoryCut(
        boundary=10,
        dropped=(1, 2, 3, 4),
        trimmed=(),
        level="units",
        digest_dropped=False,
        before_tokens=1000,
        after_tokens=600,
    )
    assert {(item.category, item.number) for item in fact.ledger} == {("request", 4)}
    talk.land(talk.sealed((fact,)))
    assert (talk.state.live_tokens, cut(talk.state, count=COUNT)) == (600, ())


def test_cut_declines_where_nothing_may_be_dropped_and_the_view_fits() -> None:
    reason = "nothing that may be dropped"
    assert cut(asked(user(words(950))).state, count=COUNT) == (
        CompactionDeclined(boundary=1, stage="cut", reason=reason),
    )


def test_cut_declines_with_the_refusal_where_nothing_helps() -> None:
    talk = asked(system(words(1500)), user("u"), cut={"on_overflow": "refuse"})
    reason = (
        "what must stay needs 1,509 tokens, the budget is 1,000; "
        "largest: message 1 (system, 1,504 tokens), message 2 (user, 5 tokens)"
    )
    assert cut(talk.state, count=COUNT) == (CompactionDeclined(boundary=2, stage="cut", reason=reason),)


def test_cut_shortens_for_good_what_is_above_the_budget() -> None:
    talk = asked(system(words(1500)), user("u"))
    talk.settle()
    assert talk.state.live_tokens <= 1000
    assert talk.view().level == "none"


def test_nothing_is_cut_unasked() -> None:
    assert cut(Talk(Policy()).state, count=COUNT) == ()


TURNS = [message for _ in range(6) for message in (user(words(96)), assistant(words(96)))]


@pytest.mark.parametrize(
    ("floor", "within", "level", "dropped"),
    [
        ({"blocks": 2}, 1000, "units", (1, 2)),
        ({"blocks": 2}, 400, "units", (1, 2, 3, 4, 5, 6, 7, 8)),
        ({"messages": 3}, 300, "units", (1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ({"tokens": 250}, 300, "units", (1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ({"blocks": 1, "messages": 3}, 300, "units", (1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ({"blocks": 2, "mode": "soft"}, 399, "fewer", (1, 2, 3, 4, 5, 6, 7, 8, 9)),
        ({"blocks": 2, "mode": "hard"}, 399, "shrink", (1, 2, 3, 4, 5, 6, 7, 8)),
        ({"blocks": 50, "mode": "hard"}, 1100, "shrink", ()),
    ],
)
def test_the_floor_keeps_the_newest_history(
    floor: dict[str, Any], within: int, level: str, dropped: tuple[int, ...]
) -> None:
    found = plan(live(*TURNS, cut={"floor": floor, "pins": []}), within)
    assert (found.level, found.dropped) == (level, dropped)
    assert found.tokens <= within


def test_long_texts_of_a_soft_floor_are_shortened_before_it_is_lowered() -> None:
    talk = live(*TURNS, user(words(1996)), user("why?"), cut={"floor": {"blocks": 2}, "pins": []}, spill={"share": 1.0})
    found = plan(talk, 600)
    assert (found.level, found.dropped) == ("floor", tuple(range(1, 13)))
    assert [trim.number for trim in found.trimmed] == [13]


def test_a_window_leaves_at_once_what_is_older_than_its_blocks() -> None:
    talk = live(*TURNS, cut={"window": 2, "pins": []})
    assert plan(talk, 1199).dropped == tuple(range(1, 9))
    assert plan(talk, 1200).level == "none"
    assert plan(talk, 250).dropped == tuple(range(1, 11))


def test_the_kinds_that_leave_first_do_and_the_order_stays() -> None:
    said = [user(words(96)), assistant(None, "a"), result("a", words(96)), assistant(words(96)), user(words(96))]
    results, talk_first = (live(*said, cut={"first": [kind], "pins": []}) for kind in ("results", "talk"))
    assert plan(results, 350).dropped == (2, 3)
    assert plan(talk_first, 350).dropped == (1,)
    assert plan(talk_first, 220).dropped == (1, 4)


def test_nothing_is_dropped_where_the_policy_forbids_it() -> None:
    talk = live(*TURNS, cut={"mode": "off"})
    assert plan(talk, 1200, down_to=300) == CutPlan(level="none", tokens=1200)
    with pytest.raises(BudgetRefused, match="largest: message"):
        plan(talk, 1199)


def test_later_instructions_stay_where_they_are_pinned() -> None:
    said = [user(words(96)), system("Answer in French."), *TURNS]
    assert 2 in plan(live(*said), 300).dropped
    assert 2 not in plan(live(*said, cut={"pins": ["system"]}), 300).dropped


def test_a_short_step_is_not_dropped_untold_beside_a_result_that_is_a_little_too_long() -> None:
    """An account of it would cost more than it, and cut dropped it: that a program had timed out, nobody knew."""
    talk = Talk(resolve([{"budget": {"window": 2_000, "reserve": 0}}]))
    talk.append(system(words(700)), user(words(300)))
    for number, text in enumerate(("EXECUTION TIMED OUT", "\n".join(f"line {at} of it" for at in range(160)))):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": '{"run": "./rock"}'}}
        talk.append({"role": "assistant", "content": None, "tool_calls": [call]}, result(f"c{number}", text))
        talk.settle()
    shown = "\n".join(str(message["content"]) for message in talk.shown())
    assert talk.state.live_tokens <= 2_000
    assert "EXECUTION TIMED OUT" in shown
    assert "lines left out" in shown
