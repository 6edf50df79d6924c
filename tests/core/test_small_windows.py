"""Windows that are small for what must stay in them: instructions, a long request, one huge message."""

from __future__ import annotations

from actors.core.extract import values_of
from actors.core.pressure import target_tokens
from actors.digest.tail import digest_cap_tokens
from protocol.facts import HistoryCut, ToolOutputSpilled
from tests.builders import COUNT, Talk, assistant, policy, system, user, words

FRAME = 4


def test_target_and_digest_are_shares_of_what_the_instructions_leave() -> None:
    talk = Talk(policy(1000, target={"low_water": 0.3}, digest={"cap": 0.25}))
    assert (target_tokens(talk.state), digest_cap_tokens(talk.state)) == (300, 250)
    talk.play(system(words(600 - FRAME)))
    assert (target_tokens(talk.state), digest_cap_tokens(talk.state)) == (600 + 120, 100)


def test_instructions_larger_than_the_budget_leave_the_digest_nothing() -> None:
    talk = Talk(policy(1000))
    talk.append(system(words(2000)))
    assert (target_tokens(talk.state), digest_cap_tokens(talk.state)) == (1000, 0)


def test_instructions_that_must_be_shortened_are_shortened_once_and_leave_a_quarter_free() -> None:
    talk = Talk(policy(4000))
    talk.play(system("\n".join(f"Rule {number}: look twice." for number in range(800))), user("Go on."))
    for number in range(4):
        talk.play(assistant(f"step {number}"), user("Go on."))
    cuts = [fact for fact in talk.facts if isinstance(fact, HistoryCut)]
    assert [(fact.level, len(fact.trimmed), 2000 < fact.after_tokens <= 3000) for fact in cuts] == [("shrink", 1, True)]


def test_of_a_long_request_the_values_between_its_ends_are_named() -> None:
    talk = Talk(policy(8000))
    talk.append(user("Fix it.\n" + "and so on\n" * 700 + "see WEB-000171 there\n" + "and so on\n" * 700 + "Which one?"))
    talk.settle()
    (fact,) = [fact for fact in talk.facts if isinstance(fact, ToolOutputSpilled)]
    assert "WEB-000171" in fact.text
    assert fact.text.endswith("Which one?")
    assert fact.text_tokens == COUNT(fact.text) <= 480


def test_values_are_named_by_worth_for_their_length() -> None:
    text = "size=180 in https://x.example/a/very/long/address/of/something/else then read_parquet and CVE-2024-12345"
    assert values_of(text)[:2] == ["read_parquet", "CVE-2024-12345"]
