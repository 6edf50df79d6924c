"""Invention: what a model makes up is struck out, what it leaves out or rounds is not."""

from __future__ import annotations

import pytest

from actors.squeeze.invented import Given, labels_in, values_in, without_inventions

GIVEN = Given(
    [
        "[message 12, result of run]\ncd /srv/app && python tools/replay.py --order ORD-10042",
        "score 0.84712, 1,284 rows",
        "class DatetimeIndexOpsMixin in pandas/core/indexes/base.py:6101, commit 3f9c2ab71d0e4455, port 8080",
        "https://pay.example/v1/orders?id=77 answered 502; get_user_details gave $6594; host db-7.internal",
    ]
)


@pytest.mark.parametrize(
    "said",
    [
        "The score was 0.847 over 1284 rows.",
        "The score was 84.7 %.",
        "Der Wert war 0,847.",
        "Three tools ran, see #12 and #12-14.",
        "It stands in base.py:6101 and in pandas/core/indexes/base.py.",
        "Run /srv/app/tools/replay.py with ORD-10042.",
        "Commit 3f9c2ab changed `DatetimeIndexOpsMixin`.",
        "Asked https://pay.example/v1/orders?id=77, which answered 502.",
        "The refund is $6,594; read/write and pass/fail are only words, x3 a count.",
        "1. Nothing of it has a value",
    ],
)
def test_what_was_given_stays(said: str) -> None:
    checked = without_inventions(said, GIVEN)
    assert (checked.prose, checked.struck) == (said, ())


@pytest.mark.parametrize(
    ("said", "invented"),
    [
        ("The score was 0.91.", "0.91"),
        ("Port 18080 answers.", "18080"),
        ("Order ORD-10043 failed.", "ORD-10043"),
        ("It stands in /etc/orders/base.toml.", "/etc/orders/base.toml"),
        ("Asked https://pay.example/v2/orders.", "https://pay.example/v2/orders"),
        ("Commit 3f9d2ab changed it.", "3f9d2ab"),
        ("`get_order_details` gave it.", "get_order_details"),
        ("See TimedeltaIndexMixin.", "TimedeltaIndexMixin"),
    ],
)
def test_what_was_made_up_is_struck_out_with_the_reason(said: str, invented: str) -> None:
    checked = without_inventions(f"- Known: port 8080. {said}", GIVEN)
    assert checked.prose == "- Known: port 8080."
    assert checked.struck == (f"{invented} is nowhere in the input: {said}",)
    assert checked.share == pytest.approx(len(said) / len(f"- Known: port 8080. {said}"))


def test_a_word_without_an_end_costs_nothing() -> None:
    checked = without_inventions("a" * 100_000 + "\nPort 8080.", GIVEN)
    assert checked.prose == "Port 8080."


def test_a_model_does_not_speak_for_the_user_or_for_us() -> None:
    checked = without_inventions("- Port 8080.\nThe user said:\n[Account of messages 1-9]", GIVEN)
    assert checked.prose == "- Port 8080."
    assert len(checked.struck) == 2


def test_a_heading_with_nothing_left_below_it_goes_too() -> None:
    checked = without_inventions("State:\n- port 9999\n\nValues:\n- port 8080", GIVEN)
    assert checked.prose == "Values:\n- port 8080"


def test_only_what_could_be_made_up_is_a_value() -> None:
    assert list(values_in("The user asked for a well-known word, twice; see #7.")) == []
    assert list(values_in("Edit src/main.py, step_2 of 40: GitHub")) == ["src/main.py", "step_2", "40", "GitHub"]


def test_brackets_of_a_struck_sentence_go_with_it_and_names_with_one_beginning_may_be_listed() -> None:
    given = Given(["thinkingOff thinkingLow thinkingHigh; the watcher waits 100 ms, falls back to dark. Port 8080."])
    said = (
        'Port 8080. The watcher waits 250 ms (a file is reread; "rename" falls back to dark), as Low does. Port 8080.'
    )
    checked = without_inventions(said, given)
    assert checked.prose == "Port 8080. Port 8080."
    assert without_inventions("Tokens thinkingOff/Low/High are there.", given).struck == ()


def test_by_what_a_model_numbers_its_points_is_no_invention() -> None:
    prose = "- Q1/Document: `to_dict()` leaves fields out.\n- Q2: see Q1.\n- Q3/part_7 is new.\nQ9. It was not asked."
    before = without_inventions(prose, Given(["to_dict() leaves fields out"]))
    assert len(before.struck) == 4
    labels = labels_in(prose)
    assert labels == {"Q1", "Q2", "Q3", "Q9"}
    now = without_inventions(f"{prose}\nIt is about Q7.", Given(["to_dict() leaves fields out"], labels=labels))
    assert [one.partition(" ")[0] for one in now.struck] == ["Q3/part_7", "Q7"]


def test_one_name_at_the_beginning_of_a_line_is_no_label() -> None:
    assert labels_in("Q3 revenue rose.\n- P1 outage was closed.\n- S3/prod was emptied.") == frozenset()
