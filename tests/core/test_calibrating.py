"""Calibrating: instructions and tools, which only the provider sees, take what they have, and no more of a budget."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit.replay import replay
from actors.core.calibrating import STEPS, learned, overhead_in
from actors.core.state_parts import Calibration, Counted
from protocol.facts import CompactionRequested, OverflowReported, UsageReported
from tests.builders import Talk, assistant, policy, result, system, user, words
from tests.core.test_control import served

WINDOW = 20_000
BESIDE = 3_000
"""Tokens of instructions and tools that no message has."""


def agent() -> Talk:
    sections: dict[str, dict[str, Any]] = {
        "budget": {"window": WINDOW, "reserve": 0, "calibrate": "apart"},
        "spill": {"share": 1.0},
    }
    talk = Talk(policy(WINDOW, **sections))
    talk.play(system("You are careful."), user("Mend the build."))
    return talk


def turn(talk: Talk, number: int, *, ratio: float = 1.0) -> None:
    """Have the provider count the view, then a call and its result."""
    seen = served(talk)
    talk.say(UsageReported(input_tokens=BESIDE + int(ratio * talk.view().tokens), view_hash=seen))
    talk.play(assistant(None, f"c{number}"), result(f"c{number}", words(600)))
    talk.settle()


def test_what_is_beside_a_small_first_view_takes_no_share_of_the_budget() -> None:
    talk = agent()
    for number in range(12):
        turn(talk, number)
        assert WINDOW - BESIDE - WINDOW // STEPS <= talk.state.usable_tokens <= WINDOW - BESIDE


def test_a_tokenizer_that_counts_more_is_told_from_what_is_beside() -> None:
    talk = agent()
    for number in range(12):
        turn(talk, number, ratio=1.25)
    assert talk.state.calibration.ratio == pytest.approx(1.25, rel=0.01)
    assert talk.state.calibration.overhead == pytest.approx(BESIDE, rel=0.05)
    assert talk.state.usable_tokens == pytest.approx((WINDOW - BESIDE) / 1.25, rel=0.02)


def test_a_view_within_the_budget_is_within_the_window_as_the_provider_counts() -> None:
    talk = agent()
    for number in range(60):
        turn(talk, number, ratio=1.25)
        if number > 2:
            assert BESIDE + 1.25 * talk.view().tokens <= WINDOW * 1.01


def test_a_budget_that_was_asked_for_is_of_the_view_alone() -> None:
    talk = agent()
    turn(talk, 0)
    talk.say(CompactionRequested(budget=5_000))
    talk.settle()
    assert talk.state.usable_tokens == 5_000


def test_tools_that_come_later_are_no_ratio() -> None:
    talk = agent()
    for number in range(4):
        turn(talk, number)
    talk.say(UsageReported(input_tokens=4 * BESIDE + talk.view().tokens, view_hash=served(talk)))
    assert talk.state.calibration.ratio <= 1.0
    assert talk.state.calibration.overhead == pytest.approx(4 * BESIDE, rel=0.01)


def test_a_refusal_counts_what_is_beside_too() -> None:
    talk = agent()
    turn(talk, 0)
    tokens = talk.view().tokens
    refused = OverflowReported(view_hash=served(talk), requested_tokens=BESIDE + tokens, limit_tokens=WINDOW)
    talk.say(refused)
    assert talk.state.calibration.ratio == pytest.approx(1.0, rel=0.01)


def test_the_log_decides_the_same_again() -> None:
    talk = agent()
    for number in range(40):
        turn(talk, number, ratio=1.25)
    again = replay(talk.at, talk.records)
    assert (again.divergence, again.view_hash) == (None, talk.view().hash)


SIZES = st.lists(st.integers(1, 200_000), min_size=1, max_size=8)


@given(sizes=SIZES, ratio=st.floats(0.5, 2.0), beside=st.integers(0, 50_000))
def test_a_line_is_learned_from_two_views_of_different_sizes(sizes: list[int], ratio: float, beside: int) -> None:
    known = Calibration()
    for ours in sizes:
        told = round(beside + ratio * ours)
        known = learned(known, Counted(ratio=told / ours, ours=ours, told=told))
        assert known.overhead >= 0
        assert not known.ratio or 0.5 <= known.ratio <= 2.0
        # what is believed says of this view what the provider said, or more
        assert known.overhead + (known.ratio or 1.0) * ours >= told - 1e-6 * told
    if known.ratio:
        assert known.ratio == pytest.approx(ratio, abs=2 / 256)


@given(usable=st.integers(1, 2_000_000), overhead=st.floats(0, 4_000_000))
def test_what_is_beside_leaves_half_of_the_window(usable: int, overhead: float) -> None:
    taken = overhead_in(usable, Calibration(overhead=overhead))
    assert 0 <= taken <= usable // 2
    assert taken >= min(usable // 2, overhead)
