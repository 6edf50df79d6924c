"""Hear: whatever agents say is heard once, and shown in a form that a provider takes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.core.flow import next_actor
from actors.core.state_parts import RECENT_CALLS_MAX
from actors.core.text.count import Count
from actors.core.view import view
from actors.core.written_words import ABORTED, ABORTED_TOKENS, ORPHAN
from protocol import codec
from protocol.facts import (
    Claim,
    CompactionRequested,
    ConversationOpened,
    MessageRepaired,
    MessagesAppended,
    SaidMessage,
    UsageReported,
)
from protocol.formats.messages import PROFILES, Profile
from protocol.formats.validate import problems
from protocol.limits import WRITERS_REMEMBERED_MAX
from protocol.policy import Policy
from tests.builders import COUNT, Talk, appended, assistant, policy, result, system, user


def heard(*said: dict[str, Any]) -> Talk:
    """Return a conversation in which *said* was said and every repair recorded."""
    talk = Talk(Policy())
    talk.play(*said)
    assert problems(talk.shown()) == []
    return talk


def test_good_messages_need_no_repair_and_come_out_as_they_went_in() -> None:
    said = [system("s"), user("u"), assistant("a", "c1", "c2"), result("c2"), result("c1"), assistant("b")]
    talk = heard(*said)
    assert talk.facts == []
    assert talk.shown() == said


@pytest.mark.parametrize(
    ("bad", "detail"),
    [
        ({"role": "robot"}, "role must be one of assistant, developer, system, tool, user, not 'robot' at /role"),
        ({"role": []}, "role must be one of assistant, developer, system, tool, user, not [] at /role"),
        ({"role": "tool"}, "a tool message needs the tool_call_id that it answers at /tool_call_id"),
    ],
)
def test_a_message_that_cannot_be_read_is_left_out_and_keeps_its_number(bad: dict[str, Any], detail: str) -> None:
    talk = heard(user("before"), bad, user("after"))
    assert talk.facts == [MessageRepaired(number=2, kind="refused", detail=detail)]
    assert talk.shown() == [user("before"), user("after")]
    assert talk.view().numbers == (1, 3)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"role":"user","content":NaN}', b'{"k":' + b"[" * 9000])
def test_bytes_that_are_no_message_are_left_out(raw: bytes) -> None:
    talk = Talk(Policy())
    talk.say(MessagesAppended(messages=(SaidMessage(raw=raw),)))
    talk.play(user("after"))
    assert [(fact.number, fact.kind) for fact in talk.facts if isinstance(fact, MessageRepaired)] == [(1, "refused")]
    assert talk.shown() == [user("after")]


@pytest.mark.parametrize(
    "body", [b"", b"\xc1", b"garbage", b"\x91" * 100_000, codec.encode_commit(Talk(Policy()).commits[0])]
)
def test_an_envelope_that_cannot_be_read_is_noted_and_skipped(body: bytes) -> None:
    talk = Talk(Policy())
    talk.hear(body)
    talk.play(user("after"))
    (fact,) = talk.facts
    assert isinstance(fact, MessageRepaired)
    assert (fact.number, fact.kind, fact.detail[:7]) == (0, "refused", "seq 2: ")
    assert talk.shown() == [user("after")]


@pytest.mark.parametrize(
    "claim",
    [
        Claim(pointer="/content", sha256="../other/secret", bytes=9),
        Claim(pointer="/content", sha256="", bytes=9),
        Claim(pointer="/content", sha256="A" * 64, bytes=9),
        Claim(pointer="/content", sha256="a" * 64, bytes=-9),
    ],
)
def test_a_claim_that_cannot_name_an_upload_is_refused(claim: Claim) -> None:
    talk = Talk(Policy())
    talk.say(MessagesAppended(messages=(SaidMessage(raw=b'{"role":"user","content":""}', claims=(claim,)),)))
    talk.settle()
    refused = "a claim needs the SHA-256 and the size of its upload at /content"
    assert talk.facts == [MessageRepaired(number=1, kind="refused", detail=refused)]


def test_a_result_without_its_call_is_shown_as_a_user_message() -> None:
    talk = heard(user("u"), result("nobody", "found it"))
    assert talk.facts == [MessageRepaired(number=2, kind="orphan_result", detail="nobody")]
    assert talk.shown() == [user("u"), user(f"{ORPHAN}\nfound it")]


def test_a_call_without_a_result_gets_a_written_one() -> None:
    talk = heard(user("u"), assistant(None, "c1", "c2"), result("c2"), user("never mind"))
    assert talk.facts == [MessageRepaired(number=2, kind="unanswered_calls", detail="c1")]
    assert talk.shown() == [
        user("u"),
        assistant(None, "c1", "c2"),
        result("c2"),
        result("c1", ABORTED),
        user("never mind"),
    ]


def test_a_written_result_is_counted_when_the_message_that_ended_the_call_is_admitted() -> None:
    talk = heard(user("u"), assistant(None, "c1", "c2"))
    before = talk.state.live_tokens
    talk.play(user("never mind"))
    assert talk.state.live_tokens == before + 2 * ABORTED_TOKENS + talk.state.live[-1].tokens


def test_a_result_that_comes_after_the_abort_is_an_orphan() -> None:
    talk = heard(assistant(None, "c1"), user("never mind"), result("c1", "late"))
    assert talk.facts == [
        MessageRepaired(number=1, kind="unanswered_calls", detail="c1"),
        MessageRepaired(number=3, kind="orphan_result", detail="c1"),
    ]
    assert talk.shown() == [
        assistant(None, "c1"),
        result("c1", ABORTED),
        user("never mind"),
        user(f"{ORPHAN}\nlate"),
    ]


def test_an_orphan_inside_a_batch_ends_it() -> None:
    talk = heard(assistant(None, "c1", "c2"), result("c1"), result("nobody"), result("c2"))
    kinds = [(fact.number, fact.kind, fact.detail) for fact in talk.facts if isinstance(fact, MessageRepaired)]
    assert kinds == [(1, "unanswered_calls", "c2"), (3, "orphan_result", "nobody"), (4, "orphan_result", "c2")]
    assert [message["role"] for message in talk.shown()] == ["assistant", "tool", "tool", "user", "user"]


def test_the_second_result_of_one_call_is_an_orphan() -> None:
    talk = heard(assistant(None, "c1"), result("c1", "one"), result("c1", "two"))
    assert talk.shown()[1:] == [result("c1", "one"), user(f"{ORPHAN}\ntwo")]


def test_an_id_twice_in_one_message_is_made_distinct_with_its_result() -> None:
    talk = heard(assistant(None, "c1", "c1"), result("c1", "one"), result("c1", "two"))
    assert talk.facts == [MessageRepaired(number=1, kind="duplicate_call_id")]
    assert talk.shown() == [assistant(None, "c1", "c1-1-1"), result("c1", "one"), result("c1-1-1", "two")]


def test_an_id_of_an_earlier_message_is_made_distinct_with_its_result() -> None:
    talk = heard(assistant(None, "c1"), result("c1", "one"), assistant(None, "c1"), result("c1", "two"))
    assert talk.facts == [MessageRepaired(number=3, kind="duplicate_call_id")]
    assert talk.shown()[2:] == [assistant(None, "c1-3-0"), result("c1-3-0", "two")]


def test_an_id_that_looks_like_a_distinct_one_does_not_clash() -> None:
    talk = heard(assistant(None, "c1-2-0", "c1"), assistant(None, "c1"), result("c1", "two"))
    assert talk.shown()[-2:] == [assistant(None, "c1-2-0x"), result("c1-2-0x", "two")]


def test_only_recent_ids_are_remembered() -> None:
    talk = Talk(Policy())
    talk.append(
        *(message for n in range(RECENT_CALLS_MAX + 5) for message in (assistant(None, f"c{n}"), result(f"c{n}")))
    )
    first, *others = talk.state.heard.recent_calls.split()
    assert (first, len(others)) == (b'"c5"', RECENT_CALLS_MAX - 1)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (user("a\ud800b"), user("a\ufffdb")),
        (user("a") | {"name": "\udc00"}, user("a") | {"name": "\ufffd"}),
        (user("a") | {"unknown": {"\ud800": 1}}, user("a") | {"unknown": {"\ufffd": 1}}),
    ],
)
def test_lone_surrogates_are_replaced_wherever_they_are(said: dict[str, Any], shown: dict[str, Any]) -> None:
    talk = heard(said)
    assert talk.facts == [MessageRepaired(number=1, kind="lone_surrogates")]
    assert talk.shown() == [shown]


def test_a_call_whose_id_is_a_lone_surrogate_keeps_its_result() -> None:
    talk = heard(assistant("\ud800", "\ud800"), result("\ud800", "\udfff"), result("\udc00"))
    assert talk.shown()[:2] == [assistant("\ufffd", "\ufffd"), result("\ufffd", "\ufffd")]
    assert [fact.kind for fact in talk.facts if isinstance(fact, MessageRepaired)] == [
        "lone_surrogates",
        "lone_surrogates",
        "lone_surrogates",
        "orphan_result",
    ]


def test_a_pair_of_surrogates_is_a_character_and_stays_verbatim() -> None:
    raw = b'{"role":"user","content":"\\ud83d\\ude00"}'
    talk = Talk(Policy())
    talk.say(MessagesAppended(messages=(SaidMessage(raw=raw),)))
    assert talk.view().messages == (raw,)


def test_an_empty_list_of_calls_is_left_out() -> None:
    talk = heard(assistant("a") | {"tool_calls": []})
    assert talk.facts == [MessageRepaired(number=1, kind="empty_tool_calls")]
    assert talk.shown() == [assistant("a")]


def test_an_empty_result_is_shown_as_an_empty_text() -> None:
    assert heard(assistant(None, "c"), result("c", None)).shown()[1] == result("c", "")


def test_a_repeated_envelope_changes_nothing_but_the_position() -> None:
    talk = Talk(Policy())
    body = talk.say(appended([user("once")]))
    before = talk.state
    talk.hear(body)
    assert (talk.state.messages, talk.state.live, talk.state.waiting) == (1, before.live, before.waiting)
    assert (talk.state.seq, talk.state.position.said_seq) == (before.seq + 1, before.position.said_seq + 1)
    assert talk.state.position.said_hash == codec.roll(before.position.said_hash, body)


def test_an_older_count_of_a_writer_is_a_repeat_and_other_writers_are_not() -> None:
    talk = Talk(Policy())
    first = talk.say(appended([user("1")]), writer="a")
    talk.say(appended([user("2")]), writer="a")
    talk.say(appended([user("3")]), writer="b")
    talk.hear(first)
    assert talk.shown() == [user("1"), user("2"), user("3")]


def test_the_least_recent_writer_is_forgotten() -> None:
    talk = Talk(Policy())
    for index in range(WRITERS_REMEMBERED_MAX + 1):
        talk.say(UsageReported(input_tokens=1), writer=f"w{index}")
    assert (len(talk.state.heard.writers), talk.state.heard.writers[0]) == (WRITERS_REMEMBERED_MAX, ("w1", 1))


def test_the_first_opening_counts() -> None:
    talk = Talk()
    talk.say(ConversationOpened(name="n", model="m", policy=b'{"a":1}'), ConversationOpened(name="o", model="p"))
    talk.say(ConversationOpened(name="q"))
    assert (talk.state.terms.name, talk.state.terms.model, talk.state.terms.layer) == ("n", "m", b'{"a":1}')
    assert next_actor(talk.state) == "spill"


def test_a_wish_for_a_budget_counts_from_its_place() -> None:
    talk = Talk(Policy())
    talk.say(CompactionRequested(budget=500))
    assert talk.state.usable_tokens == 500
    talk.say(CompactionRequested(budget=-5))
    assert talk.state.usable_tokens == Policy().usable_tokens


def test_a_view_may_be_asked_for_wherever_no_call_is_open() -> None:
    talk = heard(system("s"), user("u"), assistant("a", "c1", "c2"), result("c1"), result("c2"), assistant("b"))
    assert [entry.boundary for entry in talk.state.live] == [False, True, False, False, True, True]


CALLED: list[Any] = [{"type": "tool_use", "id": ident, "name": "f", "input": {}} for ident in ("a", "b")]


def told(ident: str, *beside: str) -> dict[str, Any]:
    """Return a result as Anthropic has it, with texts beside it in the same message."""
    texts = [{"type": "text", "text": text} for text in beside]
    return user([{"type": "tool_result", "tool_use_id": ident, "content": "r"}, *texts])


@pytest.mark.parametrize(("blank", "count"), [(" ", COUNT), ("\n" * 900, COUNT), ("\n" * 900, len)])
@pytest.mark.parametrize("late_results", [False, True])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "behind",
    [[user("so?")], [], [told("b")], [told("b", " ")], [user("so?"), told("b", " ")], [user("so?"), told("b")]],
)
def test_a_result_with_blank_words_beside_it_parts_no_batch(
    blank: str, late_results: bool, profile: Profile, count: Count, behind: list[dict[str, Any]]
) -> None:
    """Anthropic's agents say both in one message; elsewhere the words are one of their own, behind all answers.

    Who counts wrongly has blank words spilled, and words are left.
    """
    talk = Talk(policy(1_000), count=count)
    talk.say(ConversationOpened(name="blank", late_results=late_results))
    talk.play({"role": "assistant", "content": CALLED}, told("a", blank), *behind)
    found = view(talk.state, budget=1_000, count=count, profile=profile)
    assert problems([json.loads(raw) for raw in found.messages], profile) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_late_results_with_blank_words_beside_them_part_no_batch(profile: Profile) -> None:
    talk = Talk(policy(1_000))
    talk.say(ConversationOpened(name="late", late_results=True))
    talk.play({"role": "assistant", "content": CALLED}, user("so?"), told("a", " "))
    for new in (user("and b?"), told("b", "\n"), user("both?")):
        found = view(talk.state, budget=1_000, count=COUNT, profile=profile)
        assert problems([json.loads(raw) for raw in found.messages], profile) == []
        talk.play(new)
