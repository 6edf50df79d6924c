"""View: what the model sees, within its budget, and byte for byte where nothing was changed."""

from __future__ import annotations

import hashlib

import pytest

from actors.core.view import unspilled
from protocol.errors import BudgetRefused, NotReady
from protocol.facts import CompactionRequested, MessagesAppended, SaidMessage
from protocol.policy import Policy
from tests.builders import Talk, assistant, policy, result, system, user, words

RAW = (
    b'{"content":"caf\xc3\xa9 \\u00e9 \\/","role":"user","zz":1.0}',
    b'{ "role" : "assistant", "content" : null, "tool_calls" : [ {"id":"c","type":"function",'
    b'"function":{"name":"f","arguments":"{ }"}} ] }',
    b'{"tool_call_id":"c","role":"tool","content":[{"text":"x","type":"text","extra":null}]}',
)


def test_untouched_messages_come_out_byte_for_byte() -> None:
    talk = Talk(Policy())
    talk.say(MessagesAppended(messages=tuple(SaidMessage(raw=raw) for raw in RAW)))
    talk.settle()
    view = talk.view()
    assert view.messages == RAW
    assert view.body == b"[" + b",".join(RAW) + b"]"
    assert view.hash == hashlib.sha256(view.body).hexdigest()
    assert (view.level, view.upto, view.numbers) == ("none", 3, (1, 2, 3))


def test_untouched_messages_beside_compacted_ones_stay_byte_for_byte() -> None:
    talk = Talk(policy(1000))
    talk.play(*(user(words(100)) for _ in range(12)))
    talk.say(MessagesAppended(messages=tuple(SaidMessage(raw=raw) for raw in RAW)))
    talk.settle()
    assert talk.state.digest is not None
    assert talk.view().messages[-3:] == RAW


def test_nothing_said_is_an_empty_view() -> None:
    view = Talk(Policy()).view()
    assert (view.messages, view.tokens, view.body, view.numbers) == ((), 0, b"[]", ())


def test_the_digest_stands_between_the_instructions_and_the_rest() -> None:
    talk = Talk(policy(1000, shape={"summary_role": "developer"}))
    talk.play(system("s"), *(user(words(100)) for _ in range(12)))
    first, second, third, *_ = talk.shown()
    assert (first, third["content"]) == (system("s"), words(100))
    assert second["role"] == "developer"
    assert second["content"].startswith("[Notes on messages 1-")


def test_the_parts_of_the_cost_add_up() -> None:
    talk = Talk(policy(1000))
    talk.play(system("s"), *(user(words(100)) for _ in range(12)), assistant("a", "c"), result("c"))
    view = talk.view()
    assert sum(view.categories.values()) == view.tokens == talk.state.live_tokens
    assert all(view.categories.values())


def test_a_view_is_refused_while_a_large_part_is_not_spilled() -> None:
    talk = Talk(policy(1000))
    talk.append(user("small"), user(words(500)), user(words(600)))
    assert unspilled(talk.state) == (2, 3)
    with pytest.raises(NotReady) as waiting:
        talk.view()
    assert waiting.value.fields == {"numbers": (2, 3)}


def test_a_view_before_a_policy_is_not_ready() -> None:
    talk = Talk()
    talk.append(user("u"))
    assert unspilled(talk.state) == (1,)


@pytest.mark.parametrize(("budget", "level"), [(28, "none"), (27, "units"), (14, "units")])
def test_a_view_may_cost_exactly_its_budget(budget: int, level: str) -> None:
    talk = Talk(Policy())
    talk.play(user(words(10)), user(words(10)))
    assert (talk.view(budget).level, talk.view(budget).tokens <= budget) == (level, True)


def test_a_smaller_budget_for_one_call_changes_only_that_view() -> None:
    talk = Talk(Policy())
    talk.play(*(user(words(100)) for _ in range(10)))
    whole = talk.view()
    assert talk.view(300).numbers == (9, 10)
    assert talk.view() == whole


def test_a_budget_that_nothing_fits_is_refused_with_the_names_of_what_is_large() -> None:
    talk = Talk(Policy())
    talk.play(system(words(50)), user(words(20)))
    with pytest.raises(BudgetRefused) as refused:
        talk.view(10)
    assert refused.value.fields == {"tokens": 78, "budget": 10, "parts": [(1, "system", 54), (2, "user", 24)]}
    assert "message 1 (system, 54 tokens), message 2 (user, 24 tokens)" in str(refused.value)


def test_a_view_in_the_middle_of_a_compaction_is_whole_and_within_its_budget() -> None:
    talk = Talk(policy(1000, spill={"share": 1.0}))
    talk.append(*(user(words(100)) for _ in range(14)))
    assert talk.state.episode is not None
    assert talk.view().tokens <= 1000
    assert talk.view().numbers[-1] == 14


def test_calls_that_a_waiting_message_ended_are_answered_in_the_view() -> None:
    talk = Talk(policy(1000))
    talk.append(assistant(None, "c"), user(words(500)))
    talk.settle()
    assert [message["role"] for message in talk.shown()] == ["assistant", "tool", "user"]


def test_a_wish_for_a_smaller_budget_begins_a_compaction() -> None:
    talk = Talk(Policy())
    talk.play(*(user(words(100)) for _ in range(10)))
    talk.say(CompactionRequested(budget=500))
    talk.settle()
    assert talk.state.live_tokens <= 500 * 0.6
    assert talk.view().tokens == talk.state.live_tokens
