"""The laws, on random conversations: whatever agents say, in whatever pieces, however fast the actors are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit.replay import replay
from actors.core.entry import measure
from actors.core.flow import next_actor
from actors.core.text.notices import is_notice
from actors.core.text.observed import is_observation
from actors.core.view import View
from actors.cut.decide import cut
from actors.digest.decide import digest
from actors.spill.decide import spill
from actors.spill.without_store import degraded
from actors.squeeze.decide import squeeze
from protocol.errors import BadMessage, BudgetRefused
from protocol.facts import CompactionRequested, SaidFact, SaidMessage
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.policy import Policy
from tests.builders import COUNT, Talk, appended, policy, sample
from tests.core.conversations import ANSWERS, conversations, policies
from tests.laws import LAWS

ROOT = Path(__file__).resolve().parent.parent.parent


def view_or_refusal(talk: Talk, budget: int | None = None) -> View | None:
    try:
        return talk.view(budget)
    except BudgetRefused:
        return None


def readable(message: dict[str, Any]) -> bool:
    try:
        messages.parse(messages.decode(messages.encode(message)))
    except BadMessage:
        return False
    return True


def last_user(said: list[dict[str, Any]]) -> int:
    """Return the number of the last message in which a user speaks, and no program in the user's place; 0 for none."""
    speaks = [number for number, one in enumerate(said, 1) if readable(one) and one["role"] == "user"]
    return max((number for number in speaks if not is_programs(said, number)), default=0)


def is_programs(said: list[dict[str, Any]], number: int) -> bool:
    """Tell whether a program speaks in message *number*: what follows the instructions is the user's."""
    text, begun = said[number - 1].get("content"), any(one.get("role") != "system" for one in said[: number - 1])
    return answers(said[number - 2 : number]) or (begun and isinstance(text, str) and is_notice(text))


def answers(two: list[dict[str, Any]]) -> bool:
    """Tell whether the second of *two* messages answers a call that the first has in its text."""
    if len(two) < 2 or two[0].get("role") != "assistant" or two[0].get("tool_calls"):
        return False
    before, text = (one.get("content") for one in two)
    return isinstance(before, str) and isinstance(text, str) and is_observation(text, before)


@given(said=conversations(), wanted=policies(), answer=ANSWERS, budget=st.integers(30, 20_000))
@LAWS
def test_every_view_is_legal_and_within_its_budget(
    said: list[dict[str, Any]], wanted: Policy, answer: str, budget: int
) -> None:
    talk = Talk(wanted)
    talk.answer = answer
    for message in said:
        talk.play(message)
        view = view_or_refusal(talk, min(budget, talk.state.usable_tokens))
        if view is not None:
            assert problems([json.loads(raw) for raw in view.messages]) == []
            assert view.tokens <= min(budget, talk.state.usable_tokens)


@given(said=conversations(), wanted=policies())
@LAWS
def test_what_a_view_says_it_costs_is_what_it_costs(said: list[dict[str, Any]], wanted: Policy) -> None:
    talk = Talk(wanted)
    talk.play(*said)
    view = view_or_refusal(talk)
    if view is not None:
        measured = [measure(SaidMessage(raw=raw), number=1, count=COUNT).tokens for raw in view.messages]
        assert sum(measured) <= view.tokens
        assert sum(view.categories.values()) == view.tokens


@given(said=conversations(), wanted=policies(), answer=ANSWERS)
@LAWS
def test_a_view_keeps_the_order_the_system_and_the_last_user(
    said: list[dict[str, Any]], wanted: Policy, answer: str
) -> None:
    talk = Talk(wanted)
    talk.answer = answer
    talk.play(*said)
    view = view_or_refusal(talk)
    if view is None:
        return
    assert list(view.numbers) == sorted(set(view.numbers))
    assert view.numbers.count(last_user(said)) == bool(last_user(said))
    if said and said[0].get("role") == "system":
        assert view.numbers[0] == 1


@given(said=conversations(), wanted=policies(), answer=ANSWERS, data=st.data())
@LAWS
def test_replay_equals_live(said: list[dict[str, Any]], wanted: Policy, answer: str, data: st.DataObject) -> None:
    talk = Talk(wanted)
    talk.answer = answer
    interleaved(talk, said, data)
    view = view_or_refusal(talk)
    found = replay(talk.at, talk.records)
    assert found.divergence is None
    assert (found.version, found.hash, found.view_hash) == (
        talk.state.version,
        talk.state.hash.hex(),
        view.hash if view else "",
    )


@given(said=conversations(), wanted=policies(), answer=ANSWERS, data=st.data())
@LAWS
def test_how_fast_anybody_was_changes_nothing(
    said: list[dict[str, Any]], wanted: Policy, answer: str, data: st.DataObject
) -> None:
    one_by_one, together, mixed = Talk(wanted), Talk(wanted), Talk(wanted)
    for talk in (one_by_one, together, mixed):
        talk.answer = answer
    one_by_one.play(*said)
    together.append(*said)
    together.settle()
    interleaved(mixed, said, data)
    assert settled(together) == settled(one_by_one)
    assert settled(mixed) == settled(one_by_one)


@given(said=conversations(), wanted=policies(), data=st.data())
@LAWS
def test_wishes_for_a_budget_count_from_their_place_however_fast_anybody_was(
    said: list[dict[str, Any]], wanted: Policy, data: st.DataObject
) -> None:
    facts: list[SaidFact] = [appended([message]) for message in said]
    for _ in range(data.draw(st.integers(1, 3))):
        wish = CompactionRequested(budget=data.draw(st.sampled_from((0, 250, 700, 3000, 15_000))))
        facts.insert(data.draw(st.integers(0, len(facts))), wish)
    slow, fast = Talk(wanted), Talk(wanted)
    for fact in facts:
        slow.say(fact)
        slow.settle()
    fast.say(*facts)
    fast.settle()
    assert settled(fast) == settled(slow)


@given(said=conversations(), wanted=policies())
@LAWS
def test_asked_twice_the_rules_have_nothing_more_to_say(said: list[dict[str, Any]], wanted: Policy) -> None:
    talk = Talk(wanted)
    for message in said:
        talk.play(message)
        state = talk.state
        assert next_actor(state) is None
        assert spill(state, uploads={}, count=COUNT) is None
        assert degraded(state, reason="", count=COUNT) is None
        assert digest(state, count=COUNT) == ()
        assert squeeze(state, count=COUNT) is None
        assert cut(state, count=COUNT) == ()


@given(bodies=st.lists(st.binary(max_size=60), max_size=5), said=conversations(turns_max=4))
@LAWS
def test_bytes_of_anybody_stop_nobody(bodies: list[bytes], said: list[dict[str, Any]]) -> None:
    talk = Talk(Policy())
    for body in bodies:
        talk.hear(body)
    talk.settle()
    talk.play(*said)
    assert talk.state.messages == len(said)
    assert next_actor(talk.state) is None


def interleaved(talk: Talk, said: list[dict[str, Any]], data: st.DataObject) -> None:
    """Say *said* in pieces while actors act, each commit perhaps landing after messages that it had not seen."""
    left = list(said)
    while left:
        commit = talk.decided() if data.draw(st.booleans()) else None
        size = data.draw(st.integers(1, 4))
        talk.append(*left[:size])
        del left[:size]
        if commit is not None:
            talk.land(commit)
    talk.settle()


def settled(talk: Talk) -> tuple[object, ...]:
    """Return all of the state that must not depend on time."""
    state = talk.state
    view = view_or_refusal(talk)
    return (
        view.hash if view else "",
        state.live,
        state.live_tokens,
        state.digest,
        state.terms.budget,
        state.agenda.quiet_tokens,
        state.spent,
    )


HASHES = """
import sys
from tests.builders import Talk, policy, sample
talk = Talk(policy(9000))
talk.play(*sample())
print(talk.view().hash, *[commit.hash.hex() for commit in talk.commits])
"""


@pytest.mark.parametrize(
    "environment",
    [
        {"PYTHONHASHSEED": "1", "TZ": "Pacific/Kiritimati", "LC_ALL": "C"},
        {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "1"},
    ],
)
def test_another_hash_seed_time_zone_and_locale_give_the_same_bytes(environment: dict[str, str]) -> None:
    talk = Talk(policy(9000))
    talk.play(*sample())
    here = [talk.view().hash, *(commit.hash.hex() for commit in talk.commits)]
    there = subprocess.run(
        [sys.executable, "-c", HASHES], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    assert there.returncode == 0, there.stderr
    assert there.stdout.split() == here
