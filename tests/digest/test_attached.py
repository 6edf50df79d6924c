"""Attached: of files that a program put beside a person's words some lines stay below these."""

from __future__ import annotations

from tests.builders import user

from .test_account import looks, play
from .test_account_room import talk
from .test_relayed import requests

RULE = "Never open two valves at once, and write down each one that you close, with its time."


def pumps(count: int) -> str:
    return "\n".join(f" {at} | the pump at place {at} has {at * 7} valves" for at in range(1, count))


def asked(lines: str) -> str:
    return f'Mend pump 41 of the list.\n<file_content path="pumps.txt">\n{lines}\n</file_content>'


def test_lines_with_the_words_stay_below_them_and_other_requests_stay_whole() -> None:
    lines = pumps(60)
    of = play(talk(3_000), user(asked(lines)), user(RULE), *looks(30, 30), user("Go on."), *looks(70, 30))
    said, mark, below = requests(of)[1].partition("\n[attached pumps.txt, ")
    assert (said, bool(mark)) == ("Mend pump 41 of the list.", True)
    assert below.startswith(f'{len(lines):,} characters: read_artifact("messages:1")]\n> ')
    assert "the pump at place 41 has 287 valves" in below
    assert len(below) < len(lines) / 2
    assert requests(of)[2] == RULE


def test_of_a_file_that_was_shortened_before_nobody_is_told_how_long_it_is() -> None:
    of = play(talk(3_000), user(asked(pumps(600))), user(RULE), *looks(30, 30), user("Go on."), *looks(70, 30))
    said, mark, below = requests(of)[1].partition('\n[attached pumps.txt: read_artifact("messages:1")]\n> ')
    assert (said, bool(mark)) == ("Mend pump 41 of the list.", True)
    assert "left out" not in below
    assert requests(of)[2] == RULE
