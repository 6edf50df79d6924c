"""Slices: the asked part of a text, bounded in bytes, with what is left and how to go on."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.slices import (
    ANSWER_BYTES_MIN,
    COMMAS_MAX,
    END,
    FOUND_MAX,
    JSON_CHARS_MAX,
    numbers_of,
    part_of,
    range_of,
)
from protocol.errors import Rejected
from protocol.limits import READ_BYTES_MAX
from protocol.service_messages import ReadAsked
from tests.laws import LAWS

LINES = "\n".join(f"line {number}" for number in range(1, 201))
ORDERS = json.dumps({"orders": [{"id": number, "state": "failed" if number == 7 else "done"} for number in range(40)]})


def part(text: str, **asked: object) -> str:
    return part_of(text, ReadAsked(key="k", **asked))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("written", "meant"), [("20-80", (20, 80)), ("7", (7, 7)), ("7-", (7, END)), (" 3 - 4 ", (3, 4))]
)
def test_a_range_has_two_ends_one_or_none_at_its_end(written: str, meant: tuple[int, int]) -> None:
    assert range_of(written) == meant


@pytest.mark.parametrize(
    ("written", "meant"), [("4-9", (4, 9)), ("#4", (4, 4)), ("#4-9", (4, 9)), (" #4-#9 ", (4, 9)), ("#4-", (4, END))]
)
def test_messages_are_named_as_the_account_numbers_them(written: str, meant: tuple[int, int]) -> None:
    assert numbers_of(written) == meant
    for bad in ("##4", "4#", "#", "#x"):
        with pytest.raises(Rejected, match="a range"):
            numbers_of(bad)


@pytest.mark.parametrize("written", ["", "-", "x", "0-3", "5-4", "-5", "1-2-3", "9" * 5000, "1.5", "\ud800"])
def test_a_bad_range_is_refused(written: str) -> None:
    with pytest.raises(Rejected, match="a range"):
        range_of(written)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"lines": "2-3"}, "line 2\nline 3"),
        ({"lines": "199-"}, "line 199\nline 200"),
        ({"lines": "900-"}, "[there are only 200 lines]"),
        ({"bytes": "1-6"}, "line 1"),
        ({"pattern": "line 10$"}, "8:line 8\n9:line 9\n10:line 10\n11:line 11\n12:line 12"),
        ({"pattern": "line 1$|line 3$", "context": 0}, "1:line 1\n3:line 3"),
        ({"pattern": "line 1$", "context": -9}, "1:line 1"),
        ({"pattern": "line [12]$", "context": 1}, "1:line 1\n2:line 2\n3:line 3"),
        ({"pattern": "line 4$", "lines": "4-5"}, "4:line 4\n5:line 5"),
        ({"pattern": "nowhere"}, "[no line matches]"),
    ],
)
def test_the_part_that_is_asked_for_is_returned(asked: dict[str, object], answer: str) -> None:
    assert part(LINES, **asked) == answer


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("$.orders[0].id", "0"),
        ("$.orders[?@.state=='failed']", '{"id": 7, "state": "failed"}'),
        ("$..id", "\n".join(map(str, range(40)))),
        ("$.orders[-1:].state", '"done"'),
        ("$.nowhere", "[nothing is found at this path]"),
        ("$['a,b,c,d,e,f,g,h,i,j,$']", "[nothing is found at this path]"),
    ],
)
def test_a_json_path_finds_values_one_a_line(path: str, found: str) -> None:
    assert part(ORDERS, json_path=path) == found


def test_lines_and_patterns_are_taken_of_what_a_path_finds() -> None:
    assert part(ORDERS, json_path="$..state", pattern="failed", context=0) == '8:"failed"'
    assert part(ORDERS, json_path="$..id", lines="3-4") == "2\n3"


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        (LINES, "$.a", "is no JSON"),
        ("[1]" + " " * JSON_CHARS_MAX, "$[0]", "too large for a JSON path"),
        (ORDERS, "orders[0]", "cannot be used"),
        (ORDERS, "$[", "cannot be used"),
        (ORDERS, "$.a[" * 100, "one \\$"),
        (ORDERS, "$..a..b", "at most one"),
        (ORDERS, "$[0,0,0,0,0,0,0,0,0,0]", "a few commas"),
        (ORDERS, "$.orders[?search(@.state, '(a+)+$')]", "cannot be used"),
        (ORDERS, "$" + ".a" * 900, "RFC 9535"),
        (ORDERS, "\ud800", "cannot be used"),
    ],
)
def test_a_path_that_cannot_be_used_is_refused_in_words(text: str, path: str, said: str) -> None:
    with pytest.raises(Rejected, match=said) as refused:
        part(text, json_path=path)
    assert len(str(refused.value)) <= 220


def test_the_worst_path_that_is_allowed_ends_soon() -> None:
    nested: object = 1
    for _ in range(60):
        nested = [nested] * 2
        if len(json.dumps(nested)) > 50_000:
            break
    worst = "$..[" + ",".join(["*"] * (COMMAS_MAX + 1)) + "]"
    assert part(json.dumps(nested), json_path=worst, lines=f"{FOUND_MAX + 1}-") == "[… more is found; narrow the path]"


@pytest.mark.parametrize("pattern", ["(", "[z-a]", "(?P<n", "\\"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(Rejected, match="RE2"):
        part(LINES, pattern=pattern)


def test_what_is_left_is_named_and_following_it_reads_everything_once() -> None:
    text = "\n".join(f"line {number} of 日本" for number in range(1, 400))
    found, lines = [], "1-"
    for _ in range(100):
        answer = part(text, lines=lines, bytes_max=1000)
        assert len(answer.encode()) <= 1000
        shown, mark, rest = answer.partition("\n[… ")
        found.append(shown)
        if not mark:
            break
        lines = re.findall(r'lines="(\d+-\d+)"', rest)[0]
    assert "\n".join(found) == text


def test_one_long_line_is_read_by_its_bytes_and_no_character_is_lost() -> None:
    text = "日本語👩‍💻é" * 500
    found, asked = "", {"lines": "1"}
    for _ in range(100):
        answer = part(text, bytes_max=1000, **asked)
        assert len(answer.encode()) <= 1000
        shown, mark, rest = answer.partition("\n[… ")
        found += shown
        if not mark:
            break
        asked = {"bytes": re.findall(r'bytes="(\d+-)"', rest)[0]}
    assert found == text


def test_a_range_of_bytes_is_widened_to_whole_characters() -> None:
    assert [part("日本", bytes=asked) for asked in ("1", "2-2", "3-4", "6-", "7-9")] == ["日", "日", "日本", "本", ""]


def test_matches_that_do_not_fit_are_counted() -> None:
    answer = part("\n".join(f"hit {number} {'x' * 50}" for number in range(1, 101)), pattern="hit", bytes_max=1000)
    shown = answer.count(":hit")
    assert f"{100 - shown} more lines match" in answer
    assert f'lines="{shown + 1}-"' in answer


@given(
    text=st.text(st.characters(), max_size=80).map(lambda piece: piece * 40),
    bytes_max=st.integers(-5, 3000),
    asked=st.sampled_from(
        ({}, {"lines": "2-"}, {"bytes": "3-900"}, {"pattern": "."}, {"pattern": "^", "context": 9}, {"bytes": "5-"})
    ),
)
@LAWS
def test_an_answer_is_never_above_its_bound(text: str, bytes_max: int, asked: dict[str, object]) -> None:
    bound = min(max(bytes_max, ANSWER_BYTES_MIN), READ_BYTES_MAX)
    assert len(part(text, bytes_max=bytes_max, **asked).encode("utf-8", "replace")) <= bound
