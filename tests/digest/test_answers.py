"""Short answers: a `Yes` stands with what it says yes to, also when that left the view long before it."""

from __future__ import annotations

import pytest

from actors.digest.answers import QUESTION_CHARS, answering, asks, question_in
from actors.digest.request_list import ABOVE
from actors.digest.requests import within
from protocol.account import AccountRequest
from protocol.policy import resolve
from tests.builders import COUNT, Talk, user

from .test_account import Message, account, called, looks, play, said
from .test_account_room import report, talk

OFFER = "I found two pumps. The Hauer P7 costs 4,180 with its valve. Shall I order it for delivery on 12 May?"


def requests_after(*messages: Message, behind: tuple[Message, ...] | None = None) -> dict[int, str]:
    filling = [report(at, sentences=8) for at in range(18)]
    of = play(talk(2_500), user("We need a pump."), *messages, *(behind or (*filling, user("Go on."), *filling)))
    return {one.number: one.text for one in account(of).requests}


@pytest.mark.parametrize("answer", ["Yes.", "ja, bitte", "可以,下单", "はい、お願いします。"])
def test_an_answer_stands_with_its_question_and_what_that_is_about(answer: str) -> None:
    assert requests_after(said(OFFER), user(answer))[3] == answering(answer, OFFER)


@pytest.mark.parametrize(
    ("before", "answer"),
    [
        (said("I ordered the Hauer P7."), "Thanks."),
        (said(OFFER), "And what does the other one cost?"),
        (said(OFFER), "Yes, but only when they bring it on the 14th, since nobody is there on the 12th of May."),
        (user("Shall we take the P7?"), "Yes."),
    ],
)
def test_what_is_no_short_answer_stands_alone(before: Message, answer: str) -> None:
    assert requests_after(before, user(answer))[3] == answer


def test_of_a_long_message_the_end_that_asks_is_told_in_whole_sentences() -> None:
    long = " ".join(f"Pump {at} runs dry at depth {at * 7} metres." for at in range(60))
    told = requests_after(said(f"{long} Shall I replace pump 59?"), user("Yes."))[3]
    question = question_in(told)
    assert question.startswith("… Pump ")
    assert question.endswith("depth 413 metres. Shall I replace pump 59?")
    assert QUESTION_CHARS // 2 < len(question) <= QUESTION_CHARS + 2


def test_a_question_that_left_while_its_answer_stayed_is_known_when_that_leaves_too() -> None:
    of = play(talk(2_500), user("We need a pump."), said(OFFER), user("Yes."), *looks(2, 30))
    assert {one.number: one.text for one in account(of).requests}[3] == answering(ABOVE, OFFER)
    assert OFFER not in [message["content"] for message in of.shown()]
    play(of, user("Now the valve."), *looks(40, 30), user("Go on."), *looks(80, 30))
    assert {one.number: one.text for one in account(of).requests}[3] == answering("Yes.", OFFER)


def test_the_same_answer_to_another_question_is_not_the_same() -> None:
    other = "And the valve of Lindner, for 212? Shall I order it as well?"
    told = requests_after(said(OFFER), user("Yes."), said(other), user("Yes."))
    assert told[3] == answering("Yes.", OFFER)
    assert told[5] == answering("Yes.", other)


def test_an_answer_to_a_proposal_outlasts_small_talk() -> None:
    task = AccountRequest(number=2, text="Plan the station. Never spend more than 9,400 Euro.")
    yes = AccountRequest(number=4, text=answering("Yes.", OFFER))
    quiz = [AccountRequest(number=10 + at, text=answering("It rains.", "Rain?")) for at in range(40)]
    last = AccountRequest(number=90, text="What do I have to do next?")
    assert yes in within([task, yes, *quiz, last], 120, count=COUNT)


def test_who_calls_a_tool_asks_nobody() -> None:
    call = called(3, "bash", "done", "Shall I look?", command="ls")
    assert requests_after(call[0], call[1], user("Yes."))[4] == "Yes."


def test_under_older_rules_an_answer_stands_alone() -> None:
    of = Talk(
        resolve([{"budget": {"window": 2_500, "reserve": 0}}, {"digest": {"style": "account", "records": "lines"}}])
    )
    play(of, user("We need a pump."), said(OFFER), user("Yes."), *looks(2, 30), user("Go on."), *looks(40, 30))
    assert "Yes." in [one.text for one in account(of).requests]


@pytest.mark.parametrize(
    ("text", "is_question"),
    [("Shall I?", True), ("どうしますか。", True), ("要下单吗？ ", True), ("I did.", False), ("", False)],
)
def test_a_question_is_known_by_its_end(text: str, is_question: bool) -> None:
    assert asks(text) is is_question
