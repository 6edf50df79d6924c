"""Odd lines: in a text that says nearly the same on most lines, those that say something else are shown."""

from __future__ import annotations

from actors.core.text.shorten.by_kind import NEWEST, kind_of, shortener
from actors.core.text.shorten.odd import odd_lines
from tests.builders import COUNT

ATTACKS = [f"[*] Performing {name} attack on pub1.pub." for name in ("fermat", "wiener", "lehmer", "pollard", "smallq")]
LOG = [line for at in range(12) for line in (ATTACKS[at % 5], f"[+] Time elapsed: 0.{at}62 sec.")]
FOUND = "utf-8 : HTB{t3h_FuTUr3_15_bR1ghT}"


def test_what_a_log_says_once_is_odd() -> None:
    lines = [*LOG, FOUND, *LOG]
    assert odd_lines(lines) == [len(LOG)]


def test_it_is_shown_where_the_middle_is_left_out() -> None:
    text = "\n".join([*LOG, FOUND, *LOG * 3])
    short = shortener(text, kind_of(text), count=COUNT, ways=NEWEST)(160)
    assert FOUND in short
    assert COUNT(short) <= 160


def test_short_ones_come_first() -> None:
    long = "Nobody expected harbours, gulls, ferries, cranes, ropes and lanterns here tonight."
    assert odd_lines([*LOG, long, FOUND]) == [len(LOG) + 1, len(LOG)]


def test_in_a_story_no_line_is_odd() -> None:
    story = [f"Line{chr(97 + at)} word{chr(98 + at)} other{chr(99 + at)} thing" for at in range(24)]
    assert odd_lines(story) == []


def test_few_lines_and_very_many_are_not_looked_at() -> None:
    assert odd_lines([*LOG[:8], FOUND]) == []
    assert odd_lines([*LOG * 200, FOUND]) == []
    assert odd_lines([]) == []


def test_a_sentence_of_prose_is_not_odd() -> None:
    assert odd_lines([*LOG, "Harbours, gulls, ferries, cranes, ropes and lanterns. " * 5]) == []
