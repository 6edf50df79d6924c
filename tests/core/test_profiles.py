"""Profiles: a view of any conversation is what its provider takes, whatever the format it was said in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.entry import measure
from actors.core.units import units
from actors.core.view import View, least_budget, view
from actors.core.written_words import ABORTED, ORPHAN
from protocol.errors import BudgetRefused
from protocol.facts import ConversationOpened, MessageRepaired, SaidMessage
from protocol.formats import messages
from protocol.formats.messages import PROFILES, Profile
from protocol.formats.validate import problems
from protocol.policy import Policy
from tests.builders import COUNT, Talk, assistant, policy, sample, system, user, words
from tests.core.conversations import ANSWERS, policies
from tests.core.judges import refusals
from tests.core.providers import any_conversations, broken_conversations
from tests.laws import LAWS


def view_or_refusal(talk: Talk, profile: Profile, budget: int | None = None) -> View | None:
    try:
        return view(talk.state, budget=budget or talk.state.usable_tokens, count=COUNT, profile=profile)
    except BudgetRefused:
        return None


def shown(found: View) -> list[dict[str, Any]]:
    return [json.loads(raw) for raw in found.messages]


def cost_of(found: View) -> int:
    """Return what the messages of a view cost, measured anew."""
    entries = [measure(SaidMessage(raw=raw), number=1, count=COUNT, declared=found.profile) for raw in found.messages]
    return sum(entry.tokens + entry.apart_tokens for entry in entries)


@given(said=any_conversations(), wanted=policies(), answer=ANSWERS, budget=st.integers(60, 20_000))
@LAWS
def test_every_view_of_every_profile_is_legal_and_within_its_budget(
    said: list[dict[str, Any]], wanted: Policy, answer: str, budget: int
) -> None:
    talk = Talk(wanted)
    talk.answer = answer
    for message in said:
        talk.play(message)
        allowed = min(budget, talk.state.usable_tokens)
        for profile in PROFILES:
            found = view_or_refusal(talk, profile, allowed)
            if found is not None:
                assert problems(shown(found), profile) == []
                assert found.tokens <= allowed


@pytest.mark.parametrize("blank", ["\n" * 61, " "])
def test_blank_words_beside_results_cost_what_stands_for_them(blank: str) -> None:
    talk = Talk(Policy())
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": "found"}
    talk.play({"role": "assistant", "content": [call]})
    talk.play({"role": "user", "content": [answer, {"type": "text", "text": blank}]})
    for profile in PROFILES:
        found = view(talk.state, budget=talk.state.usable_tokens, count=COUNT, profile=profile)
        assert cost_of(found) <= found.tokens


@given(said=any_conversations(), wanted=policies(), profile=st.sampled_from(PROFILES))
@LAWS
def test_what_a_view_says_it_costs_covers_what_it_shows(
    said: list[dict[str, Any]], wanted: Policy, profile: Profile
) -> None:
    talk = Talk(wanted)
    talk.play(*said)
    found = view_or_refusal(talk, profile)
    if found is not None:
        assert cost_of(found) <= found.tokens
        assert sum(found.categories.values()) == found.tokens


@given(said=any_conversations(), wanted=policies(), profile=st.sampled_from(PROFILES))
@LAWS
def test_the_providers_own_types_take_every_view(said: list[dict[str, Any]], wanted: Policy, profile: Profile) -> None:
    talk = Talk(wanted)
    talk.play(*said)
    found = view_or_refusal(talk, profile)
    if found is not None:
        assert refusals(shown(found), profile) == []


@given(said=broken_conversations(), wanted=policies())
@LAWS
def test_no_shape_of_a_message_makes_a_rule_raise(said: list[dict[str, Any]], wanted: Policy) -> None:
    talk = Talk(wanted)
    talk.play(*said)
    for profile in PROFILES:
        found = view_or_refusal(talk, profile)
        if found is not None:
            assert problems(shown(found), profile) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_the_recorded_conversation_is_legal_in_every_profile(profile: Profile) -> None:
    talk = Talk(Policy())
    talk.play(*sample())
    found = view_or_refusal(talk, profile)
    assert found is not None
    assert problems(shown(found), profile) == []
    assert refusals(shown(found), profile) == []
    texts = [part.text for message in shown(found) for part in messages.parse(message).parts]
    assert {message["content"] for message in sample() if message["role"] == "user"} <= set(texts)


def use(*idents: str) -> dict[str, Any]:
    calls = [{"type": "tool_use", "id": ident, "name": "look", "input": {}} for ident in idents]
    return {"role": "assistant", "content": calls}


def told(ident: str, text: str = "found") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": ident, "content": text}


def test_a_user_who_speaks_beside_results_keeps_their_call() -> None:
    talk = Talk(policy(1000, shape={"profile": "anthropic-messages"}))
    spoken = user([told("a"), {"type": "text", "text": "the task"}])
    talk.play(user("u"), use("a"), spoken, *(assistant(words(90)) for _ in range(14)))
    assert talk.state.digest is not None
    found = talk.shown()
    place = found.index(spoken)
    assert found[place - 1] == use("a")
    assert [message for message in found if message == spoken] == [spoken]


def test_the_digest_is_never_a_later_system_message_for_anthropic() -> None:
    for role in ("user", "system", "developer"):
        talk = Talk(policy(1000, shape={"profile": "anthropic-messages", "summary_role": role}))
        talk.play(system("s"), *(user(words(100)) for _ in range(12)))
        first, second, *_ = talk.shown()
        noted = json.dumps(first if role != "user" else second)
        assert "[Notes on messages 1-" in noted
        assert [message["role"] for message in talk.shown()] == ["system", "user"]


def test_a_message_with_one_orphan_is_repaired_result_by_result() -> None:
    talk = Talk(policy(9000, shape={"profile": "anthropic-messages"}))
    talk.play(user("u"), use("a", "b"), user([told("nobody", "late"), told("a")]))
    assert [(fact.kind, fact.detail) for fact in talk.facts if isinstance(fact, MessageRepaired)] == [
        ("unanswered_calls", "b"),
        ("orphan_result", "nobody"),
    ]
    *_, last = talk.shown()
    orphan = {"type": "text", "text": f"{ORPHAN}\nlate"}
    assert last == user([told("b", ABORTED), told("a"), orphan])


def test_items_of_one_answer_leave_together() -> None:
    def answer(number: int) -> list[dict[str, Any]]:
        call = {"type": "function_call", "call_id": f"c{number}", "name": "look", "arguments": "{}"}
        reasoning = {"type": "reasoning", "id": f"rs{number}", "summary": []}
        return [reasoning, call, {"type": "function_call_output", "call_id": f"c{number}", "output": words(100)}]

    talk = Talk(policy(1000, shape={"profile": "openai-responses"}))
    talk.play(user("u"), *(item for number in range(12) for item in answer(number)))
    assert talk.state.digest is not None
    for message in talk.shown():
        if message.get("type") == "function_call":
            before = talk.shown()[talk.shown().index(message) - 1]
            assert before["id"] == message["call_id"].replace("c", "rs")
    assert [len(unit.entries) for unit in units(talk.state.live)[-2:]] == [3, 3]


def test_an_end_of_an_unknown_type_keeps_its_white_space() -> None:
    """The model goes on from a text; what another block holds is nobody's to trim, and no provider's to refuse."""
    talk = Talk(policy(1000, shape={"profile": "anthropic-messages"}))
    unknown = {"type": "", "text": "x\n"}
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    talk.play(user("q"), {"role": "assistant", "content": [thinking, unknown]})
    assert shown(talk.view())[-1]["content"] == [thinking, unknown]
    assert problems(shown(talk.view()), "anthropic-messages") == []


def test_a_block_of_another_provider_goes_where_anthropics_own_stand_beside_it() -> None:
    talk = Talk(policy(1000))
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}}
    foreign = {"type": "input_text", "text": "look"}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [foreign, {"type": "text", "text": "found"}]}
    talk.play(user([own, foreign]), use("t"), user([result]))
    found = view(talk.state, budget=1000, count=COUNT, profile="anthropic-messages")
    assert problems(shown(found), "anthropic-messages") == []
    assert shown(found)[0] == user([own])
    assert shown(found)[2]["content"][0]["content"] == [{"type": "text", "text": "found"}]


INPUT_TEXT = {"type": "input_text", "text": "look"}
NO_SOURCE = {"type": "image", "source": {}}
INSIDE: list[dict[str, Any]] = [
    {"type": "file", "file": {"file_id": "file-1"}},
    {"type": "file"},
    NO_SOURCE,
    {"type": "document", "source": {"type": "text"}},
    {"type": "document", "source": {"type": "content", "content": [NO_SOURCE, {"type": "tomorrow", "x": "y " * 90}]}},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "tool_reference", "tool_name": "f"}]},
    {"type": "tomorrow", "x": "y " * 90},
    {"type": "input_image"},
    {"type": "input_file", "file_id": "file-1"},
]
OUTPUTS: list[Any] = ["", "no screen", [], {"type": "computer_screenshot"}, *([one, INPUT_TEXT] for one in INSIDE)]


def around(inside: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Return conversations that show *inside*, twice, wherever a format has blocks."""
    both = [inside, inside]
    return [
        [user(both)],
        [user("u"), {"role": "assistant", "content": both}, user("v")],
        [{"role": "system", "content": both}, user("u")],
        [user("u"), assistant(None, "c"), {"role": "tool", "tool_call_id": "c", "content": both}],
        [user("u"), use("c"), user([told("c") | {"content": both}])],
        [user("u"), user([told("nobody") | {"content": both}])],
    ]


def answering(output: Any) -> list[list[dict[str, Any]]]:
    """Return conversations in which a call is answered by *output*."""
    kinds = ("function_call", "custom_tool_call", "computer_call", "shell_call")
    call = {"call_id": "c", "name": "f", "arguments": "{}", "input": ""}
    return [
        [user("u"), call | {"type": kind}, {"type": f"{kind}_output", "call_id": "c", "output": output}]
        for kind in kinds
    ]


@pytest.mark.parametrize("declared", ["", *PROFILES])
@pytest.mark.parametrize("said", [*map(around, INSIDE), *map(answering, OUTPUTS)])
def test_whatever_stands_in_a_message_costs_what_is_shown_of_it(said: list[Any], declared: Any) -> None:
    for one in said:
        talk = Talk(policy(20_000))
        talk.say(ConversationOpened(name="x", format=declared))
        talk.play(*one)
        for profile in PROFILES:
            found = view(talk.state, budget=20_000, count=COUNT, profile=profile)
            assert problems(shown(found), profile) == []
            assert cost_of(found) <= found.tokens == sum(found.categories.values())
            less = view_or_refusal(talk, profile, found.tokens - 1)
            assert less is None or less.tokens < found.tokens


def test_old_files_that_a_view_has_no_room_for_leave_it() -> None:
    talk = Talk(policy(2_000))
    for number in range(3):
        talk.play(user([{"type": "file", "file": {"file_id": f"file-{number}"}}]), assistant("seen"))
    talk.play(user("so?"))
    found = talk.view()
    assert (found.level, found.upto) == ("units", 7)
    assert b"file-2" in found.body
    assert b"file-1" not in found.body
    assert cost_of(found) <= found.tokens <= 2_000
    assert least_budget(talk.state, refused=1, count=COUNT) < 200
