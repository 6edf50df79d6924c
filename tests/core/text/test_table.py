"""Tables: what differs from most rows is told, and how many are alike."""

from __future__ import annotations

import pytest

from actors.core.text.excerpt import excerpt, sentences_excerpt
from actors.core.text.table import is_summary, table_of

PODS = ["NAME  READY  STATUS", *(f"web-{number}  1/1  Running" for number in range(9)), "pay-7f  0/1  CrashLoopBackOff"]


def nothing(_: str) -> float:
    return 0.0


def test_a_row_that_differs_is_odd_and_the_rest_is_counted() -> None:
    table = table_of(PODS)
    assert table is not None
    assert [PODS[line] for line in table.odd] == [PODS[-1]]
    assert table.summary == "(10 rows: STATUS Running x9, CrashLoopBackOff x1)"
    assert is_summary(table.summary)


@pytest.mark.parametrize(
    "lines",
    [
        PODS[:3],
        ["def add(a, b):", "    return a + b", "", "print(add(1, 2))", "# done", "x = 1"],
        [f"row {number} says  something else" * (number % 3 + 1) for number in range(9)],
        [],
    ],
)
def test_what_is_no_table_is_none(lines: list[str]) -> None:
    table = table_of(lines)
    assert table is None or table.summary == ""


def test_an_excerpt_of_a_table_shows_the_odd_row_and_sums_up_the_others_once() -> None:
    short = excerpt("\n".join(PODS), chars=150, sought=nothing)
    assert "pay-7f  0/1  CrashLoopBackOff" in short
    assert short.endswith("(10 rows: STATUS Running x9, CrashLoopBackOff x1)")
    shorter = excerpt(short, chars=90, sought=nothing)
    assert shorter.count("rows:") == 1
    assert "(10 rows: STATUS Running x9, CrashLoopBackOff x1)" in shorter


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "Let me look. " * 20 + "We decided to use 140 by 90 instead of the bath. " + "I will go on. " * 20,
            "140 by 90",
        ),
        ("好的。" * 40 + "失败的原因是连接池上限只有50。" + "继续。" * 40, "失败的原因是连接池上限只有50。"),
        ("Gerne. " * 40 + "Epoxidfugen sind verboten. " + "Weiter. " * 40, "Epoxidfugen sind verboten."),
    ],
)
def test_of_what_somebody_said_the_sentence_that_tells_something_is_kept_whole(said: str, kept: str) -> None:
    short = sentences_excerpt(said, chars=90, sought=nothing)
    assert len(short) <= 90 + 4
    assert kept in short
