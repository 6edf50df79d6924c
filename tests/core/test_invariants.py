"""The twelve invariants, on generated conversations in all formats and on the recorded run, for every preset."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit.replay import replay
from actors.core.extract import found_in
from actors.core.flow import next_actor
from actors.spill.without_store import degraded
from actors.squeeze.answer_checks import cleaned
from actors.squeeze.decide import Ask, Completion
from protocol import codec
from protocol.errors import BadMessage
from protocol.facts import (
    CompactionRequested,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    OverflowReported,
    ReminderInjected,
    SaidFact,
    StageFailed,
    UsageReported,
)
from protocol.formats import messages
from protocol.formats.messages import PROFILES
from protocol.formats.validate import problems
from protocol.policy import Policy
from protocol.presets import PRESETS
from tests.builders import COUNT, Talk, appended, sample
from tests.core.providers import broken_conversations
from tests.core.runs import (
    ANSWERS,
    CONVERSATIONS,
    FEW,
    any_policies,
    events,
    judged,
    preset_policy,
    recorded,
    refolded,
    view_or_none,
)
from tests.laws import LAWS

Messages = list[dict[str, Any]]
Model = Callable[[Ask], str]
KEY = re.compile(r'read_artifact\(\\*"([0-9a-f]{16})')
REFUSING = ("holmes", "octopus-fifo", "octopus-window", "octopus-summarize")
"""Presets that refuse rather than drop more: there is a floor, or nothing is cut."""
COMPACTING = HistoryDigested | DigestSqueezed | HistorySummarized | HistoryCut


def talk_of(wanted: Policy, model: Model) -> Talk:
    talk = Talk(wanted)
    talk.answer = model
    return talk


def role_of(message: dict[str, Any]) -> str:
    """Return who says a message, as the rules read it where no format is declared; empty if nobody can."""
    try:
        messages.check_known(message)
        return messages.parse(messages.decode(messages.encode(message))).role
    except BadMessage:
        return ""


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_no_view_at_any_event_has_an_orphan(said: Messages, wanted: Policy, model: Model) -> None:
    """1, with all else that a provider would refuse; every intermediate view, those over a step under way too."""
    talk = talk_of(wanted, model)
    for _ in events(talk, said):
        shown = view_or_none(talk)
        assert shown is None or problems([json.loads(raw) for raw in shown.messages]) == []


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_the_last_user_message_is_there_once_and_the_order_is_the_original(
    said: Messages, wanted: Policy, model: Model
) -> None:
    """2 and 12, at every event."""
    talk = talk_of(wanted, model)
    for state in events(talk, said):
        shown = view_or_none(talk)
        if shown is None:
            continue
        asked = [entry.number for entry in state.entries if entry.role == "user"]
        spoken = [number for number, one in enumerate(said[: state.messages], 1) if role_of(one) == "user"]
        assert asked[-1:] == spoken[-1:]
        assert [number for number in shown.numbers if number in asked][-1:] == asked[-1:]
        assert list(shown.numbers) == sorted(set(shown.numbers))


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_a_step_makes_the_view_smaller_by_what_it_says_and_none_is_over_the_budget(
    said: Messages, wanted: Policy, model: Model
) -> None:
    """3, and the fold's own sums."""
    talk = talk_of(wanted, model)
    for state in events(talk, said):
        shown = view_or_none(talk)
        assert shown is None or shown.tokens <= state.usable_tokens
        assert state.live_tokens == sum(entry.tokens for entry in state.live) + (
            state.digest.tokens if state.digest else 0
        )
    for fact in talk.facts:
        if isinstance(fact, COMPACTING):
            assert 0 <= fact.after_tokens < fact.before_tokens


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_a_reminder_costs_less_than_its_compaction_won(said: Messages, wanted: Policy, model: Model) -> None:
    """3, of a whole compaction."""
    talk = talk_of(wanted, model)
    list(events(talk, said))
    won = 0
    for fact in talk.facts:
        if isinstance(fact, COMPACTING):
            won += fact.before_tokens - fact.after_tokens
        elif isinstance(fact, ReminderInjected) and not fact.name:
            assert fact.tokens < won
            won = 0


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_the_same_input_gives_the_same_commits_and_heard_twice_changes_nothing(
    said: Messages, wanted: Policy, model: Model
) -> None:
    """4: two workers, one of which hears every envelope twice, as after a retry."""
    one, two = talk_of(wanted, model), talk_of(wanted, model)
    for message in said:
        one.play(message)
        two.append(message)
        before = two.state
        two.hear(two.records[-1].body)
        two.records.pop()
        assert (two.state.live, two.state.waiting, two.state.messages) == (before.live, before.waiting, before.messages)
        two.state = before
        two.settle()
    assert [commit.hash for commit in two.commits] == [commit.hash for commit in one.commits]
    assert next_actor(one.state) is None


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS, data=st.data())
@FEW
def test_any_earlier_view_is_rebuilt_from_the_log_byte_for_byte(
    said: Messages, wanted: Policy, model: Model, data: st.DataObject
) -> None:
    """6: the log is what it was, and enough."""
    talk = talk_of(wanted, model)
    seen = {0: ""}
    for _ in events(talk, said):
        shown = view_or_none(talk)
        seen[len(talk.records)] = shown.hash if shown else ""
    upto = data.draw(st.sampled_from(sorted(seen)[1:] or [0]))
    shown = view_or_none(refolded(talk, upto)) if upto else None
    assert (shown.hash if shown else "") == seen[upto]
    assert replay(talk.at, talk.records).divergence is None
    heard = [codec.decode_said(record.body) for record in talk.records if record.side == "said"]
    raws = [message.raw for one in heard for fact in one.facts for message in getattr(fact, "messages", ())]
    assert raws == [messages.encode(message) for message in said]


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_every_pointer_of_every_view_resolves(said: Messages, wanted: Policy, model: Model) -> None:
    """7: bytes are handed to the store before the fact that points to them, and a pointer names the right ones."""
    talk = talk_of(wanted, model)
    for state in events(talk, said):
        shown = view_or_none(talk)
        for key in KEY.findall((shown.body if shown else b"").decode()):
            assert len([digest for digest in talk.bodies if digest.startswith(key)]) == 1
        assert state.digest is None or state.digest.through <= state.messages


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS)
@FEW
def test_what_must_be_carried_is_in_the_view_or_in_the_ledger(said: Messages, wanted: Policy, model: Model) -> None:
    """8: an order that a user or an assistant named, whatever was digested, summarized, cut or declined since."""
    talk = talk_of(wanted, model)
    named: list[str] = []
    for number, message in enumerate(said):
        order = f"ORD-{70_000 + number}"
        if role_of(message) == "user" and isinstance(message.get("content"), str):
            message = message | {"content": f"It is about {order}. {message['content']}"}
            named.append(order)
        talk.play(message)
        shown = view_or_none(talk)
        if shown is None or talk.state.exchange.open_calls:
            continue  # nobody asks for a view between a call and its results
        if talk.state.live_tokens + sum(one.apart_tokens for one in talk.state.live) > talk.state.usable_tokens:
            continue  # nothing made it fit so far: the view is cut for its call, and says what it leaves out
        known = shown.body.decode() + " ".join(item.value for item in talk.state.ledger)
        assert [one for one in named if one not in known] == []


REFUSED = st.builds(
    Completion,
    text=st.sampled_from(("", " ", "<think>all of it", "short notes", "ORD-10042 waits. " * 400)),
    finish_reason=st.sampled_from(("stop", "stop", "length", "content_filter", "")),
    tool_calls=st.booleans(),
    too_long=st.booleans(),
)


@given(said=CONVERSATIONS, wanted=any_policies(), answers=st.lists(REFUSED, min_size=1, max_size=3))
@LAWS
def test_no_empty_cut_off_or_larger_answer_and_no_tool_call_is_ever_taken(
    said: Messages, wanted: Policy, answers: list[Completion]
) -> None:
    """9."""
    talk = Talk(wanted)
    for message in said:
        talk.append(message)
        while next_actor(talk.state) is not None:
            if next_actor(talk.state) != "squeeze":
                assert talk.step()
                continue
            fact = judged(talk, answers)
            if isinstance(fact, DigestSqueezed | HistorySummarized):
                last = answers[min(len(fact.answers), len(answers)) - 1]
                assert (last.finish_reason, last.tool_calls, last.too_long) == ("stop", False, False)
                assert fact.prose == cleaned(last.text) != ""
                assert fact.after_tokens < fact.before_tokens


@given(said=CONVERSATIONS, wanted=any_policies(), model=ANSWERS, data=st.data())
@FEW
def test_a_crash_at_any_event_leads_to_the_same_end(
    said: Messages, wanted: Policy, model: Model, data: st.DataObject
) -> None:
    """10: what was decided and not appended is decided again; what was appended is not. (Processes: tests/chaos.)"""
    calm, crashing = talk_of(wanted, model), talk_of(wanted, model)
    for message in said:
        calm.play(message)
        crashing.append(message)
        while next_actor(crashing.state) is not None:
            lost = crashing.decided()
            if data.draw(st.booleans()):
                crashing = refolded(crashing)
            commit = crashing.decided()
            assert commit == lost
            assert commit is not None
            crashing.land(commit)
    assert crashing.state == calm.state
    assert [record.body for record in crashing.records] == [record.body for record in calm.records]


COUNTERS: dict[str, Callable[[str], int]] = {
    "nothing": lambda text: 0,
    "one": lambda text: 1,
    "bytes": lambda text: len(text.encode("utf-8", "surrogatepass")),
    "huge": lambda text: 10**9,
    "alternating": lambda text: len(text) % 7,
}


@pytest.mark.parametrize("name", COUNTERS)
@given(said=CONVERSATIONS, wanted=any_policies())
@FEW
def test_a_counter_that_is_wrong_stops_nobody(name: str, said: Messages, wanted: Policy) -> None:
    """11: views may be refused for it, but they stay legal, and the actors come to rest."""
    talk = Talk(wanted, count=COUNTERS[name])
    talk.play(*said)
    shown = view_or_none(talk)
    assert shown is None or problems([json.loads(raw) for raw in shown.messages]) == []


@given(said=CONVERSATIONS, wanted=any_policies(), down=st.lists(st.booleans(), min_size=1, max_size=5))
@FEW
def test_a_store_or_a_model_that_fails_is_recorded_and_the_next_stage_goes_on(
    said: Messages, wanted: Policy, down: list[bool]
) -> None:
    """11: the store is down at some steps, the model at all of them."""
    talk = Talk(wanted)
    steps = 0
    for message in said:
        talk.append(message)
        while (actor := next_actor(talk.state)) is not None:
            steps += 1
            assert steps < 200 + 20 * len(said), "the actors never come to rest"
            if actor == "spill" and down[steps % len(down)]:
                spilled = degraded(talk.state, reason="no store", count=COUNT)
                assert spilled is not None
                assert spilled.bodies == ()
                talk.land(talk.sealed(spilled.facts))
            elif actor == "squeeze":
                assert talk.state.episode is not None
                boundary = talk.state.episode.boundary
                talk.land(talk.sealed((StageFailed(boundary=boundary, stage="squeeze", error="refused"),)))
            else:
                assert talk.step()
        shown = view_or_none(talk)
        assert shown is None or problems([json.loads(raw) for raw in shown.messages]) == []


numbers = st.one_of(st.integers(-5, 5000), st.sampled_from((-(2**63), 2**63 - 1, 10**12)))
wishes: st.SearchStrategy[SaidFact] = st.one_of(
    st.builds(CompactionRequested, budget=numbers),
    st.builds(OverflowReported, requested_tokens=numbers, limit_tokens=numbers, message=st.text(max_size=20)),
    st.builds(UsageReported, input_tokens=numbers, output_tokens=numbers, view_hash=st.just("known")),
)


@given(
    said=broken_conversations(), wanted=any_policies(), model=ANSWERS, told=st.lists(wishes, max_size=4), data=st.data()
)
@LAWS
def test_no_rule_raises_on_anything_that_the_protocol_admits(
    said: Messages, wanted: Policy, model: Model, told: list[SaidFact], data: st.DataObject
) -> None:
    """Messages of all formats with values missing or changed, wishes, and numbers that nobody can mean."""
    talk = talk_of(wanted, model)
    facts: list[SaidFact] = [appended([message]) for message in said]
    for one in told:
        facts.insert(data.draw(st.integers(0, len(facts))), one)
    for fact in facts:
        talk.say(fact)
        talk.settle()
        for profile in PROFILES:
            shown = view_or_none(talk, profile=profile)
            assert shown is None or problems([json.loads(raw) for raw in shown.messages], profile) == []
    assert replay(talk.at, talk.records).divergence is None


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_the_recorded_run_holds_all_of_them(preset: str) -> None:
    said = sample()
    last = None
    for talk in recorded(preset):
        number = talk.state.messages
        last = number if said[number - 1]["role"] == "user" else last
        shown = view_or_none(talk)
        if shown is None:
            assert preset in REFUSING
            continue
        assert problems([json.loads(raw) for raw in shown.messages]) == []
        assert shown.tokens <= talk.state.usable_tokens
        assert list(shown.numbers) == sorted(set(shown.numbers))
        assert last is None or shown.numbers.count(last) == 1
        assert set(KEY.findall(shown.body.decode())) <= {digest[:16] for digest in talk.bodies}
    compactions = [fact for fact in talk.facts if isinstance(fact, COMPACTING)]
    assert len(compactions) >= 3
    assert all(fact.after_tokens < fact.before_tokens for fact in compactions)
    assert replay(talk.at, talk.records).divergence is None
    assert refolded(talk).state == talk.state
    whole = Talk(preset_policy("jettison", 10**6))
    whole.append(*(message for message in said if message["role"] == "user"))
    rules = [item for item in found_in(whole.state.live).items if item.category == "rule" and item.trust == "user"]
    ledger = json.dumps([item.value for item in talk.state.ledger])
    known = b"".join(entry.raw for entry in talk.state.live).decode() + ledger
    assert rules
    assert [item.value for item in rules if json.dumps(item.value)[1:-1] not in known] == []
