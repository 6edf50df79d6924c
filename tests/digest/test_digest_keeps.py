"""What a digest keeps verbatim: the newest units as the policy counts them, the task, and the standing rules."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from actors.core.digest_text import render
from actors.core.state_parts import Agenda, Episode
from actors.digest.decide import digest
from actors.digest.tail import digest_cap_tokens
from protocol.facts import CompactionDeclined, HistoryDigested
from tests.builders import COUNT, Talk, assistant, policy, result, user, words

FREE: dict[str, Any] = {"spill": {"share": 1.0, "medium": 1.0}, "target": {"min_gain": 0.0}}


def users(number: int = 9, **sections: Any) -> Talk:
    """Return a conversation of *number* users with 104 tokens each in a window of 1,000."""
    talk = Talk(policy(1000, **FREE, **sections))
    talk.append(*(user(words(100)) for _ in range(number)))
    assert talk.state.episode is not None
    return talk


def run(batches: int, **sections: Any) -> Talk:
    """Return a single user followed by *batches* of two parallel calls."""
    talk = Talk(policy(1000, **FREE, **sections))
    said = [
        message
        for n in range(batches)
        for message in (assistant(None, f"a{n}", f"b{n}"), result(f"b{n}", words(40)), result(f"a{n}", words(40)))
    ]
    talk.append(user("fix it"), *said)
    assert talk.state.episode is not None
    return talk


def made(talk: Talk) -> HistoryDigested:
    (fact,) = digest(talk.state, count=COUNT)
    assert isinstance(fact, HistoryDigested), fact
    return fact


def text(fact: HistoryDigested) -> str:
    return render(fact.items, prose="", through=fact.through, form=fact.form)


@pytest.mark.parametrize(("kept", "through"), [(0, 8), (1, 8), (2, 7), (5, 4), (7, 2)])
def test_as_many_messages_stay_as_the_policy_says(kept: int, through: int) -> None:
    assert made(users(digest={"keep_messages": kept})).through == through


@pytest.mark.parametrize(("share", "through"), [(0.0, 8), (0.5, 4), (0.7, 2), (0.75, 2)])
def test_the_share_that_leaves_is_rounded_down(share: float, through: int) -> None:
    assert made(users(digest={"keep_share": share})).through == through


@pytest.mark.parametrize(("kept", "through"), [(1, 22), (3, 22), (4, 19), (6, 19), (7, 16)])
def test_a_boundary_moves_to_keep_parallel_calls_with_their_results(kept: int, through: int) -> None:
    fact = made(run(9, digest={"keep_messages": kept}))
    assert (fact.through, fact.kept) == (through, (1,))


def test_the_strictest_of_several_limits_counts() -> None:
    assert made(users(digest={"keep_messages": 5, "keep_blocks": 2, "keep_tokens": 900})).through == 7


def test_what_all_stays_is_declined() -> None:
    reason = "nothing older than the kept units"
    talk = users(digest={"keep_messages": 20})
    assert digest(talk.state, count=COUNT) == (CompactionDeclined(boundary=9, stage="digest", reason=reason),)


def test_one_long_run_under_a_single_user_is_parted_after_a_batch() -> None:
    fact = made(run(9, digest={"keep_blocks": 5}))
    assert (fact.through - 1) % 3 == 0
    assert fact.kept == (1,)


def test_a_mode_of_off_is_declined() -> None:
    talk = users(digest={"mode": "off"})
    assert digest(talk.state, count=COUNT) == (
        CompactionDeclined(boundary=9, stage="digest", reason="digest.mode is off"),
    )


@pytest.mark.parametrize(("units", "through"), [(0, 8), (1, 8), (3, 6)])
def test_after_an_overflow_only_the_newest_units_stay(units: int, through: int) -> None:
    talk = users(digest={"keep_blocks": 7}, emergency={"keep_units": units})
    episode = Episode(boundary=9, stage="digest", cause="overflow", down_to=300)
    talk.state = replace(talk.state, agenda=Agenda(episode=episode))
    assert made(talk).through == through


@pytest.mark.parametrize(("tokens", "cap"), [(None, 250), (400, 250), (100, 100)])
def test_the_cap_is_the_smaller_of_share_and_tokens(tokens: int | None, cap: int) -> None:
    talk = users(digest={"cap": 0.25} | ({"cap_tokens": tokens} if tokens else {}))
    assert digest_cap_tokens(talk.state) == cap
    assert made(talk).digest_tokens <= cap


def test_a_category_has_at_most_as_many_items_as_the_policy_says() -> None:
    said = "ORD-10042 ORD-10043 ORD-10044 /srv/a.py /srv/b.py https://x.example/1"
    talk = Talk(policy(1000, **FREE, digest={"categories": {"id": 2, "path": 0, "request": 0}}))
    talk.append(user(said), *(user(words(100)) for _ in range(9)))
    found = [item.category for item in made(talk).items]
    assert sorted(found) == ["id", "id", "url"]


def test_the_newest_open_request_stands_word_for_word() -> None:
    task = "Please do this:\n  1. read ORD-10042\n  2. " + " ".join(f"step{number}" for number in range(60))
    calls = [[assistant(None, f"c{n}"), result(f"c{n}", words(100))] for n in range(40)]
    talk = Talk(policy(4000, **FREE))
    talk.play(user(task), *(message for call in calls[:10] for message in call), user("and hurry"))
    talk.play(*(message for call in calls[10:] for message in call))
    assert "Asked by the user, still open:\n" + task in str(talk.shown()[0]["content"])


def test_a_long_task_is_kept_whole_in_the_ledger_up_to_a_bound() -> None:
    task = "Repair the shop. " + words(2000) + " Then tell me."
    talk = Talk(policy(4000, **FREE))
    talk.play(user(task), *(user(words(100)) for _ in range(40)))
    (request,) = [one for one in talk.state.ledger if one.value.startswith("Repair")]
    assert request.value == task[:8000]


def test_a_request_that_was_answered_is_shown_as_done() -> None:
    talk = Talk(policy(3000, **FREE))
    talk.append(
        user("Count the orders."), assistant("There are 7."), user("Which of them failed?"), assistant("Which year?"),
        *(user(words(100)) for _ in range(29)),
    )  # fmt: skip
    shown = text(made(talk))
    assert "Answered earlier, done:\nCount the orders.\n" in shown
    assert "Which of them failed?" in shown.partition("still open:\n")[2]
    assert "what was answered is done" in shown


def test_an_open_request_becomes_an_answered_one_when_its_answer_comes() -> None:
    talk = Talk(policy(1000, **FREE))
    talk.play(user("Count the orders."), *(user(words(100)) for _ in range(9)))
    assert ("request", "Count the orders.") in {(one.category, one.value) for one in talk.state.ledger}
    talk.play(assistant("There are 7."), *(user(words(100)) for _ in range(9)))
    found = {(one.category, one.value) for one in talk.state.ledger}
    assert ("answered", "Count the orders.") in found
    assert ("request", "Count the orders.") not in found


def test_a_request_that_was_made_and_answered_twice_is_shown_once() -> None:
    talk = Talk(policy(1000, **FREE))
    for _ in range(2):
        talk.play(user("Count the orders."), assistant("There are 7."), *(user(words(100)) for _ in range(9)))
    found = [one for one in talk.state.ledger if one.value == "Count the orders."]
    assert [(one.category, one.number) for one in found] == [("answered", 12)]


def test_standing_rules_stay_word_for_word_over_many_compactions() -> None:
    rule = "Never, under no circumstances and whoever asks for it, write to the table payments_2024 before noon"
    talk = Talk(policy(1500, **FREE))
    talk.play(user(f"{rule}. Start."))
    for number in range(60):
        talk.play(assistant(f"Step {number} about ORD-{number:05}"), user(words(100)))
    assert sum(isinstance(fact, HistoryDigested) for fact in talk.facts) > 5
    assert any(rule in str(message["content"]) for message in talk.shown())
