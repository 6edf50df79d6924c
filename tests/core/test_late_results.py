"""Late results: a call that others spoke over is running, not aborted, and its result stands where it belongs."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit.replay import replay
from actors.core.flow import next_actor
from actors.core.view import view
from actors.core.written_words import BELOW, LATE, OVERDUE, RUNNING
from actors.runtime.fold import folded
from protocol import codec
from protocol.errors import BudgetRefused, NotReady
from protocol.facts import ConversationOpened
from protocol.formats.messages import ANTHROPIC, PROFILES
from protocol.formats.validate import problems
from protocol.policy import Policy
from tests.builders import COUNT, Talk, appended, assistant, policy, result, user, words
from tests.laws import LAWS

Json = dict[str, Any]


def opened(wanted: Policy | None = None) -> Talk:
    """Return a conversation that an agent of this release opened."""
    talk = Talk(wanted or policy(10_000))
    talk.say(ConversationOpened(name="late", late_results=True))
    return talk


def test_a_call_that_a_user_speaks_over_is_running_and_its_result_takes_its_place() -> None:
    talk = opened()
    talk.play(user("pay it"), assistant(None, "x1"), user("are you there?"))
    assert talk.shown() == [user("pay it"), assistant(None, "x1"), result("x1", RUNNING), user("are you there?")]
    before = talk.view().hash
    talk.play(result("x1", "paid once"))
    assert talk.shown() == [user("pay it"), assistant(None, "x1"), result("x1", "paid once"), user("are you there?")]
    assert talk.view().hash != before
    talk.play(assistant("It is paid."))
    assert talk.shown()[2] == result("x1", "paid once")


def test_after_the_turn_no_result_came_yet() -> None:
    talk = opened()
    talk.play(user("pay it"), assistant(None, "x1"), user("and?"), assistant("I am waiting for the bank."))
    assert talk.shown()[2] == result("x1", OVERDUE)
    talk.play(user("now?"), result("x1", "paid"))
    assert [message["content"] for message in talk.shown()] == [
        "pay it", None, "paid", "and?", "I am waiting for the bank.", "now?"
    ]  # fmt: skip


def said_at(talk: Talk, seconds: float, *new: Json) -> None:
    """Say each message of *new* at that time by its agent's clock, and let the actors act."""
    for message in new:
        count, at_ms = talk.state.messages + 1, int(seconds * 1000)
        said = codec.Said(writer=f"at-{seconds}", count=count, facts=(appended([message]),), at_ms=at_ms)
        talk.hear(codec.encode_said(said))
        talk.settle()


def waited(seconds: float) -> Policy:
    return policy(10_000, shape={"overdue_seconds": seconds})


def test_after_the_policys_time_no_result_came_yet() -> None:
    talk = opened(waited(60))
    said_at(talk, 100, user("pay it"), assistant(None, "x1"))
    said_at(talk, 130, user("and?"), assistant(None, "y"), result("y", "soon"))
    assert talk.shown()[2] == result("x1", RUNNING)
    said_at(talk, 160, user("now?"))
    assert talk.shown()[2] == result("x1", OVERDUE)
    said_at(talk, 500, result("x1", "paid"))
    assert talk.shown()[2] == result("x1", "paid")
    assert replay(talk.at, talk.records).divergence is None


def test_each_call_has_a_time_of_its_own_and_a_clock_that_goes_back_changes_nothing() -> None:
    talk = opened(waited(60))
    said_at(talk, 100, user("q"), assistant(None, "a"), user("hm"))
    said_at(talk, 150, assistant(None, "b"), user("hm"))
    said_at(talk, 170, user("so?"))
    told = {message["tool_call_id"]: message["content"] for message in talk.shown() if message["role"] == "tool"}
    assert told == {"a": OVERDUE, "b": RUNNING}
    said_at(talk, 20, user("from another machine"))
    assert talk.shown()[2] == result("a", OVERDUE)


@pytest.mark.parametrize("seconds", [0, 1_000])
def test_without_a_time_or_before_it_a_call_is_running(seconds: float) -> None:
    talk = opened(waited(seconds))
    said_at(talk, 100, user("q"), assistant(None, "a"), user("hm"))
    said_at(talk, 1_000, user("so?"))
    assert talk.shown()[2] == result("a", RUNNING)


def test_who_says_no_times_is_never_late() -> None:
    talk = opened(waited(60))
    talk.play(user("q"), assistant(None, "a"), user("hm"))
    said_at(talk, 1_000, user("so?"))
    assert talk.shown()[2] == result("a", RUNNING)


def test_of_several_calls_each_has_its_own_result() -> None:
    talk = opened()
    talk.play(user("q"), assistant(None, "a", "b", "c"), result("b", "B"), user("hm"), result("c", "C"))
    assert talk.shown()[2:] == [result("b", "B"), result("a", RUNNING), result("c", "C"), user("hm")]
    talk.play(result("a", "A"))
    assert talk.shown()[2:] == [result("b", "B"), result("a", "A"), result("c", "C"), user("hm")]
    talk.play(result("a", "A again"))
    assert "not in this conversation" in talk.shown()[-1]["content"], "a second result of one call is nobody's"


def test_a_late_result_ends_no_call_of_another_agent() -> None:
    talk = opened()
    talk.play(user("q"), assistant(None, "x"), assistant(None, "y"), result("x", "X"), result("y", "Y"))
    assert talk.shown() == [user("q"), assistant(None, "x"), result("x", "X"), assistant(None, "y"), result("y", "Y")]


def test_a_result_with_words_beside_it_stands_where_it_was_said() -> None:
    talk = opened(policy(10_000, shape={"profile": "anthropic-messages"}))
    told = {"type": "tool_result", "tool_use_id": "x", "content": "42"}
    talk.play(user("q"), assistant(None, "x"), user("hm"), user([told, {"type": "text", "text": "so?"}]))
    shown = talk.shown()
    assert problems(shown, ANTHROPIC) == []
    assert BELOW in str(shown[2])
    assert f"{LATE}\\n42" in json.dumps(shown[2])


def test_a_result_whose_call_has_left_says_so() -> None:
    talk = opened(policy(400, digest={"mode": "off"}))
    talk.play(user("q"), assistant(None, "x"), user("hm"))
    for turn in range(6):
        talk.play(user(f"{turn} {words(60)}"), assistant("ok"))
    assert all("tool_calls" not in message for message in talk.shown())
    talk.play(result("x", "42"), user("and?"))
    assert talk.shown()[-2:] == [user(f"{LATE}\n42"), user("and?")]


def test_a_large_late_result_is_spilled_in_its_place() -> None:
    talk = opened(policy(4_000))
    talk.play(user("q"), assistant(None, "x"), user("hm"), result("x", words(9_000, "heavy")))
    shown = talk.shown()
    assert [message["role"] for message in shown] == ["user", "assistant", "tool", "user"]
    assert "kept as an artifact" in shown[2]["content"]
    assert talk.view().tokens <= 4_000


def test_who_did_not_open_it_so_keeps_the_older_words() -> None:
    talk = Talk(policy(1_000))
    talk.play(user("q"), assistant(None, "x"), user("hm"), result("x", "42"))
    assert "aborted" in talk.shown()[2]["content"]
    assert "not in this conversation" in talk.shown()[-1]["content"]


ONE = [assistant("a", "x1", "x2"), result("x2", "X2"), result("x1", "X1"), assistant("done x")]
OTHER = [assistant("b", "y1"), result("y1", "Y1"), user("go on"), assistant("c", "y2"), result("y2", "Y2")]


@pytest.mark.parametrize("places", list(combinations(range(len(ONE) + len(OTHER)), len(ONE))))
def test_two_agents_in_any_order_lose_no_result_and_part_no_pair(places: tuple[int, ...]) -> None:
    """Each of the 126 orders: every result stands behind its own call in the end, and no view is refused."""
    one, other = iter(ONE), iter(OTHER)
    said = [next(one) if place in places else next(other) for place in range(len(ONE) + len(OTHER))]
    talk = opened()
    talk.play(user("begin"))
    for message in said:
        talk.play(message)
        for profile in PROFILES:
            shown = [json.loads(raw) for raw in view(talk.state, budget=10_000, count=COUNT, profile=profile).messages]
            assert problems(shown, profile) == []
    told = {message["tool_call_id"]: message["content"] for message in talk.shown() if message["role"] == "tool"}
    assert told == {"x1": "X1", "x2": "X2", "y1": "Y1", "y2": "Y2"}
    assert "earlier tool call" not in json.dumps(talk.shown())
    assert replay(talk.at, talk.records).divergence is None


CALLS = ("a", "b", "c", "d")
SAYINGS = st.lists(
    st.one_of(
        st.sampled_from(CALLS).map(lambda call: assistant(words(30), call)),
        st.lists(st.sampled_from(CALLS), min_size=2, max_size=3, unique=True).map(lambda some: assistant(None, *some)),
        st.builds(result, st.sampled_from(CALLS), st.sampled_from(("done", words(90), words(700, "heavy")))),
        st.builds(
            lambda call, text: user([{"type": "tool_result", "tool_use_id": call, "content": "r"}, *text]),
            st.sampled_from(CALLS),
            st.lists(st.just({"type": "text", "text": "and"}), max_size=1),
        ),
        st.builds(user, st.sampled_from(("hm", words(60)))),
        st.just(assistant("done")),
        st.sampled_from(CALLS).map(
            lambda call: {"type": "function_call", "call_id": call, "name": "f", "arguments": "{}"}
        ),
        st.sampled_from(CALLS).map(lambda call: {"type": "function_call_output", "call_id": call, "output": "o"}),
    ),
    max_size=25,
)


@given(said=SAYINGS, pauses=st.lists(st.sampled_from((-50, 0, 1, 40, 300)), min_size=1, max_size=9))
@LAWS
def test_what_is_overdue_is_told_by_the_times_in_the_log_alone(said: list[Json], pauses: list[int]) -> None:
    """Each view is the one that the log gives when it is folded again, and only the words for no result differ."""
    timed, timeless = opened(waited(60)), opened()
    now = 1_000
    for number, message in enumerate(said):
        now += pauses[number % len(pauses)]
        for talk in (timed, timeless):
            said_at(talk, now, message)
        assert json.dumps(timed.shown()).replace(OVERDUE, RUNNING) == json.dumps(timeless.shown()).replace(
            OVERDUE, RUNNING
        )
    assert view(folded(timed.at, timed.records), budget=10_000, count=COUNT).hash == timed.view().hash
    assert replay(timed.at, timed.records).divergence is None


@given(said=SAYINGS, window=st.sampled_from((300, 1_000, 20_000)), lazy=st.lists(st.booleans(), min_size=1, max_size=7))
@LAWS
def test_whatever_comes_late_every_view_is_legal_and_who_was_slow_decides_the_same(
    said: list[Json], window: int, lazy: list[bool]
) -> None:
    """Two workers: one acts after every message, one when it comes to it; they end with the same view."""
    eager, slow = opened(policy(window)), opened(policy(window))
    for number, message in enumerate(said):
        eager.play(message)
        slow.append(message)
        if not lazy[number % len(lazy)] and next_actor(slow.state):
            slow.step()
        for profile in PROFILES:
            try:
                shown = view(eager.state, budget=eager.state.usable_tokens, count=COUNT, profile=profile)
            except (BudgetRefused, NotReady):
                continue
            assert problems([json.loads(raw) for raw in shown.messages], profile) == []
            assert shown.tokens <= eager.state.usable_tokens
    slow.settle()
    assert (slow.state.live, slow.state.digest) == (eager.state.live, eager.state.digest)
    assert replay(slow.at, slow.records).divergence is None
    assert replay(eager.at, eager.records).divergence is None
