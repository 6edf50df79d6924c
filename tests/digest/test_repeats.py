"""What is printed again, or said after the user, is told once."""

from __future__ import annotations

import pytest

from actors.core.message_texts import texts_of
from actors.digest.repeats import Repeats
from tests.builders import user

from .test_account import Message, account, play, said, told
from .test_account_room import report, talk

ASKED = "Which year stands last in the picture on the page behind the first reference of the article on pumps?"
PAGE = "Address: https://example.org/pumps\nPage 1 of 3\n" + "\n".join(
    f"Pump {at} was built in {1700 + at} by the works of valley {at * 7}." for at in range(40)
)


def printed(text: str) -> Message:
    return said(text, name="Terminal")


def test_what_was_printed_again_is_told_where_it_was_printed_last() -> None:
    of = play(talk(4_000), user(ASKED), printed(PAGE), printed("Pages were counted."), printed(PAGE), printed(PAGE))
    for at in range(30):
        play(of, report(at, sentences=14))
        if of.state.digest is not None and account(of).steps[-1].first > 5:
            break
    outcomes = {step.first: act.outcome for step in account(of).steps for act in step.acts}
    assert outcomes[2] == outcomes[4] == "[printed again in #5]"
    assert "was built in" in outcomes[5]


def test_of_an_assistant_s_words_those_give_way_that_the_user_said() -> None:
    rules = "\n".join(
        f"- Rule {at}: the year of pump {at * 31} must be read twice, by two readers." for at in range(24)
    )
    brief = f"# General task\n{ASKED} Take your time.\n\n# Conditions\n{rules}"
    of = play(talk(2_000), user(ASKED), said(brief, name="Manager"))
    for at in range(30):
        play(of, report(at, sentences=12))
        if of.state.digest is not None:
            break
    text = next(step.said for step in account(of).steps if step.first == 2)
    assert "the picture on the page" not in text
    assert "Rule" in text
    assert "…" in text
    assert ASKED in told(of) or any(ASKED in str(one["content"]) for one in of.shown())


ANSWERED = (
    (
        "Is it the leak of memory in the pool of connections of the gateway, or the disk that is full?",
        "The leak of memory in the pool of connections of the gateway.",
    ),
    (
        "Tell me why. The payment service of the european tenants was restarted twice on Monday.",
        "The payment service of the european tenants was restarted twice on Monday.",
    ),
)


@pytest.mark.parametrize(("asked", "answer"), ANSWERED)
def test_an_answer_in_the_words_of_the_question_stays(asked: str, answer: str) -> None:
    of = play(talk(9_000), user(asked), said("I look for it.", name="Expert"), said(answer, name="Expert"))
    knows = Repeats.of(texts_of(of.state.live), (), is_begun=False)
    assert [knows.without_asked(answer, number=number) for number in (2, 3)] == [
        "…" if answer in asked else answer,
        answer,
    ]
    begun = Repeats.of(texts_of(of.state.live), (), is_begun=True)
    assert begun.without_asked(answer, number=2) == answer, "who hands the task on has left before"


def test_a_long_request_is_none_that_may_be_left_out_elsewhere() -> None:
    long = " ".join((ASKED, *(f"Pump {at} stands in hall {at * 7}." for at in range(120))))
    brief = f"{ASKED} " + " ".join(f"Rule {at}: read picture {at * 31} twice." for at in range(60))
    of = play(talk(3_000), user(long), said(brief, name="Manager"))
    for at in range(30):
        play(of, report(at, sentences=12))
        if of.state.digest is not None:
            break
    assert ASKED in next(step.said for step in account(of).steps if step.first == 2)
