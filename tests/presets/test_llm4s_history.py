"""llm4s, steps 2 and 3: blocks, digests and their squeeze (D1-D14, S1-S9, Q1-Q6, defects L1, L2, L6, L14, L15)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors.core.flow import next_actor
from actors.core.units import blocks_first, units
from actors.squeeze.decide import Ask, Completion, answer_tokens_max, deadline_seconds, squeeze
from protocol.facts import (
    CompactionDeclined,
    CompactionRequested,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
)
from protocol.formats.messages import ANTHROPIC, CHAT, RESPONSES
from protocol.formats.validate import problems
from tests.builders import Talk, assistant, result, said_by_model, system, user
from tests.presets.llm4s_cases import CASES, chat, managed, quarters, said_so_far, wanted

NOTES = "[Notes on messages 1-"
SHORT = "Orders ORD-10001 to ORD-10007 were looked at."


def kept(talk: Talk) -> list[dict[str, Any]]:
    """Return what is shown beside the digest."""
    return [message for message in talk.shown() if not str(message["content"]).startswith(NOTES)]


def digest_of(talk: Talk) -> str:
    assert talk.state.digest is not None
    return talk.state.digest.text


def values(talk: Talk, category: str) -> list[str]:
    assert talk.state.digest is not None
    return [item.value for item in talk.state.digest.items if item.category == category]


def told(text: str) -> Talk:
    """Return a conversation of which *text* alone was digested, K = 0."""
    padded = user(f"{text} {'Please look at it again. ' * 40}")
    return managed(250, padded, assistant("Looking."), user("And?"), digest={"keep_blocks": 0})


@CASES.of("D1", "D2", "D14")
def test_the_last_block_stays_verbatim_behind_the_digest_of_all_others() -> None:
    said = [message | {"content": message["content"] * 4} for message in chat(3)]
    talk = managed(300, *said, digest={"keep_blocks": 1})
    assert talk.shown()[1:] == said[-2:]
    assert talk.shown()[0]["content"].startswith(f"{NOTES}4 of this conversation")
    assert {"ORD-10001", "ORD-10002"} <= set(values(talk, "id"))


@CASES.of("D3")
def test_what_fits_after_a_digest_is_not_digested_again() -> None:
    talk = managed(400, *chat(20))
    before = (talk.shown(), len(talk.facts))
    for _ in range(3):
        talk.say(CompactionRequested(budget=400))
        talk.settle()
    assert (talk.shown(), len(talk.facts)) == before


@CASES.of("D4", "D5", "D6", "D7", "L14")
@pytest.mark.parametrize(
    ("text", "category", "value"),
    [
        ("The order has ID: ORD-10042 today.", "id", "ORD-10042"),
        ("See https://shop.example/orders/7?full=1 for it.", "url", "https://shop.example/orders/7?full=1"),
        ("The API said HTTP 503 to us.", "status", "HTTP 503"),
        ("The API said status: 503 to us.", "setting", "status: 503"),
        ("We decided to use sqlite for it.", "decision", "We decided to use sqlite for it"),
        ("You must never delete an order.", "rule", "You must never delete an order"),
        ("Der Server darf niemals neu starten.", "rule", "Der Server darf niemals neu starten"),
    ],
)
def test_values_are_found_again_verbatim(text: str, category: str, value: str) -> None:
    """L14: theirs keeps "ID: ORD-1" for an id, only counts URLs, and knows English alone."""
    talk = told(text)
    assert value in digest_of(talk)
    assert value in values(talk, category)


@CASES.of("D6", "L14")
def test_an_error_that_a_tool_printed_is_kept() -> None:
    run = [assistant(None, "c"), result("c", "ERROR: the disk is gone\n" + "all is well\n" * 120)]
    talk = managed(250, user("Look."), *run, assistant("Seen."), user("And?"), digest={"keep_blocks": 0})
    assert values(talk, "error") == ["ERROR: the disk is gone"]


@CASES.of("L14")
def test_nothing_is_marked_as_cut_that_was_not_cut_and_no_word_is_taken_for_a_call() -> None:
    digest = digest_of(told("I recall that you must check it twice."))
    assert "I recall that you must check it twice" in digest
    assert "check it twice..." not in digest
    assert "Tools used" not in digest


@CASES.of("D8")
@pytest.mark.parametrize("cap", [50, 100, 150])
def test_a_digest_under_a_small_cap_is_still_one(cap: int) -> None:
    """The note at its head says what it is and is not cut: under a smaller cap it stands alone."""
    talk = managed(600, *[m | {"content": m["content"] * 4} for m in chat(10)], digest={"cap_tokens": cap})
    shown = talk.shown()
    assert sum(message["content"].startswith(NOTES) for message in shown) == 1
    assert talk.state.digest is not None
    head = quarters(digest_of(talk).partition("\n")[0]) + 4
    assert talk.state.digest.tokens <= max(cap, head)


@CASES.of("D9", "D10")
@pytest.mark.parametrize("said", [[], [user("Only this.")]])
def test_nothing_and_one_message_are_never_digested(said: list[dict[str, Any]]) -> None:
    talk = managed(1, *said) if not said else managed(6, *said)
    assert not [fact for fact in talk.facts if isinstance(fact, HistoryDigested)]
    assert talk.shown(100) == said


@CASES.of("D11")
def test_of_no_kept_block_the_newest_message_and_the_last_question_stay() -> None:
    """Theirs leaves only digests, and the model no question."""
    said = [message | {"content": message["content"] * 4} for message in chat(10)]
    talk = managed(400, *said, digest={"keep_blocks": 0})
    assert talk.shown()[1:] == said[-2:]


@CASES.of("D12", "L5")
@pytest.mark.parametrize("keep", [3, 4, 10])
def test_with_more_kept_blocks_than_there_are_nothing_is_digested(keep: int) -> None:
    talk = managed(107, *chat(3), digest={"keep_blocks": keep})
    assert [type(fact) for fact in talk.facts] == [CompactionDeclined, HistoryCut]
    assert talk.shown() == chat(3)[1:]


@CASES.of("D13")
def test_what_tools_were_used_is_in_the_digest() -> None:
    run = [m for at in range(9) for m in (user(f"Q{at}"), assistant(None, f"c{at}"), result(f"c{at}", "fine " * 80))]
    talk = managed(500, *run, user("And?"), digest={"keep_blocks": 0})
    assert values(talk, "tool") == ["look"]
    assert len(digest_of(talk)) > 20


@CASES.of("S1", "S6", "S7", "S2", "S3", "S4", "S5", "S8", "S9")
@pytest.mark.parametrize(
    ("said", "blocks", "sizes"),
    [
        pytest.param([*chat(2)], 2, [1, 1, 1, 1], id="S1 two pairs"),
        pytest.param([assistant("a")], 0, [1], id="S2 a lone assistant"),
        pytest.param([user("u"), assistant(None, "c"), result("c"), assistant("a")], 1, [1, 2, 1], id="S3 a tool"),
        pytest.param([system("s"), user("u")], 1, [1, 1], id="S4 a system message"),
        pytest.param([], 0, [], id="S5 nothing"),
        pytest.param([user("u"), user("v")], 2, [1, 1], id="S6 two users"),
        pytest.param([assistant("a"), assistant("b")], 0, [1, 1], id="S7 two assistants"),
        pytest.param([result("nobody", "lost")], 0, [1], id="S8 a lone tool"),
        pytest.param([user("u"), assistant(None, "a", "b"), result("b"), result("a")], 1, [1, 3], id="L2 parallel"),
    ],
)
def test_a_block_is_a_user_message_and_everything_up_to_the_next(
    said: list[dict[str, Any]], blocks: int, sizes: list[int]
) -> None:
    """S9: order and number of the messages stay, whatever they are grouped to."""
    found = units(said_so_far(10_000, *said).state.entries)
    assert sum(unit.opens_block for unit in found) == blocks
    assert [len(unit.entries) for unit in found] == sizes
    assert [entry.number for unit in found for entry in unit.entries] == list(range(1, len(said) + 1))


@CASES.of("S1", "S6")
def test_the_newest_block_begins_with_the_newest_user() -> None:
    found = units(said_so_far(10_000, *chat(2), user("And?")).state.entries)
    assert [blocks_first(found, blocks) for blocks in (1, 2, 3, 4)] == [4, 2, 0, 0]


EXCHANGES = [
    message
    for at in range(8)
    for message in (
        user(f"Q{at} " + "w " * 100),
        assistant(None, f"c{at}"),
        result(f"c{at}", "r " * 100),
        assistant(f"A{at} " + "w " * 100),
    )
]


@CASES.of("L2", "L3")
@pytest.mark.parametrize("keep", range(9))
@pytest.mark.parametrize("budget", [130, 400, 700, 1200])
def test_however_many_blocks_are_kept_no_call_is_without_its_result(keep: int, budget: int) -> None:
    """L2: theirs parts them for K = 2 and for its default, 5; L3: its last step parts them too."""
    talk = managed(budget, *EXCHANGES, digest={"keep_blocks": keep})
    for profile in (CHAT, ANTHROPIC, RESPONSES):
        assert problems([message for message in shown_for(talk, profile)], profile) == []
    assert talk.view().tokens <= budget


def shown_for(talk: Talk, profile: Any) -> list[dict[str, Any]]:
    talk.land(talk.sealed((), adopt=wanted(shape={"profile": profile})))
    return talk.shown()


@CASES.of("L6")
def test_what_is_said_after_a_digest_is_digested_too_and_nothing_known_is_lost() -> None:
    """L6: theirs never digests again, and its last step drops what came later."""
    talk = Talk(wanted(700), count=quarters)
    talk.play(*chat(60))
    digested = [fact for fact in talk.facts if isinstance(fact, HistoryDigested)]
    assert len(digested) >= 3
    assert [fact.through for fact in digested] == sorted({fact.through for fact in digested})
    assert sum(message["content"].startswith(NOTES) for message in talk.shown()) == 1
    known = digest_of(talk) + str(kept(talk)) + str(talk.state.ledger)
    assert {f"ORD-{10_000 + number}" for number in range(1, 61)} <= set(re.findall(r"ORD-\d{5}", known))


def asking(**sections: Any) -> Talk:
    """Return a conversation of one digest that a model is asked to shorten."""
    said = [message | {"content": message["content"] * 2} for message in chat(14)]
    talk = Talk(wanted(1_000_000, squeeze={"model": "m", "restore": 0.5}, **sections), count=quarters)
    talk.append(*said)
    talk.say(CompactionRequested(budget=380))
    talk.until("squeeze")
    return talk


@CASES.of("Q1", "Q2")
@pytest.mark.parametrize(("budget", "asked"), [(10_000, 0), (400, 0), (240, 1)])
def test_no_model_is_asked_without_a_digest_or_where_the_digest_is_enough(budget: int, asked: int) -> None:
    asks: list[Ask] = []

    def model(ask: Ask) -> str:
        asks.append(ask)
        return SHORT

    talk = managed(budget, *chat(20), answer=model, squeeze={"model": "m"})
    assert len(asks) == asked
    assert not asked or talk.view().tokens <= budget


@CASES.of("Q3", "Q4", "L1")
def test_a_squeezed_digest_keeps_its_place_and_all_other_messages_theirs() -> None:
    """L1: theirs puts the squeezed digests behind all other messages."""
    talk = asking()
    before = talk.shown(10_000)
    talk.answer = lambda ask: " ".join(dict.fromkeys(re.findall(r"ORD-\d{5}", ask.user)))
    assert talk.step()
    (fact,) = [fact for fact in talk.facts if isinstance(fact, DigestSqueezed)]
    after = talk.shown(10_000)
    assert len(after) == len(before)
    assert after[1:] == before[1:]
    assert after[0]["content"].startswith(NOTES)
    assert fact.prose in after[0]["content"]


@CASES.of("Q5")
def test_nobody_is_asked_about_nothing() -> None:
    assert squeeze(Talk(wanted()).state, count=quarters) is None


@CASES.of("Q6", "E4")
def test_however_often_it_was_digested_there_is_one_digest_and_one_request() -> None:
    """L15: theirs makes one call for each digest, one after the other, without a deadline."""
    talk = Talk(wanted(280, squeeze={"model": "m", "window": 8000}), count=quarters)
    asks: list[int] = []

    def model(ask: Ask) -> str:
        asks.append(ask.boundary)
        return SHORT

    talk.answer = model
    talk.play(*chat(60))
    assert len(asks) == len(set(asks)) > 1
    assert sum(message["content"].startswith(NOTES) for message in talk.shown()) == 1


@CASES.of("L15")
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (said_by_model(""), "the answer is empty"),
        (said_by_model("ORD-10001", finish_reason="length"), "the answer is not complete: finish reason 'length'"),
        (said_by_model("ORD-10001", tool_calls=True), "the model called a tool instead of answering"),
        (said_by_model(" ".join(f"ORD-{10_000 + at} and note{at}" for at in range(1, 31))), "not smaller by enough"),
    ],
)
def test_an_answer_that_is_empty_cut_off_or_not_smaller_leaves_the_digest_as_it_was(
    answer: Completion, reason: str
) -> None:
    talk = asking()
    before = talk.shown(10_000)
    fact = squeeze(talk.state, (answer,), count=quarters)
    assert isinstance(fact, CompactionDeclined)
    assert fact.reason.startswith(reason)
    talk.land(talk.sealed((fact,)))
    assert talk.shown(10_000) == before
    assert next_actor(talk.state) == "cut"


@CASES.of("L15", "E4")
@pytest.mark.parametrize("cap", [20, 60, 200])
def test_a_squeeze_is_bounded_in_tokens_and_in_time(cap: int) -> None:
    talk = Talk(wanted(squeeze={"model": "m", "cap_tokens": cap}), count=quarters)
    assert answer_tokens_max(talk.state) == cap
    assert deadline_seconds(talk.state) == 60.0
