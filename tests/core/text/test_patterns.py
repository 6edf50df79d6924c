"""Scan: the loop over RE2 finds what the library's own `finditer` finds, empty matches and groups too."""

from __future__ import annotations

from typing import Any

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.core.text import patterns, secrets
from actors.core.text.values import PATTERNS

TEXTS = st.text(alphabet="aZ09_-./:=@ \nké必", max_size=60)


@settings(deadline=None)
@given(text=TEXTS)
@pytest.mark.parametrize(
    "pattern", ["", "a*", r"\b", "(?m)^", r"(\w+)=(\d+)?", "必|k", *(one.pattern for _, one, _ in PATTERNS)]
)
def test_places_are_those_of_finditer(pattern: str, text: str) -> None:
    compiled, data = re2.compile(pattern), text.encode()
    groups = range(compiled.groups + 1)
    wanted = [[match.span(group) for group in groups] for match in compiled.finditer(data)]
    assert patterns.places(compiled, data, most=1_000) == wanted
    assert patterns.places(compiled, data, most=2) == wanted[:2]


def test_a_group_that_took_no_part_is_empty() -> None:
    assert list(patterns.groups(re2.compile("(a)|(b)"), b"ba", most=9)) == [(b"b", b"", b"b"), (b"a", b"a", b"")]


SHAPES = [pattern for _, pattern, _ in PATTERNS]
SECRETS = [pattern for pattern, _ in (*secrets._KNOWN, *secrets._WRITTEN, *secrets._ASSIGNED)]
PIECES = 'password paſſwd Token: = : " sk- ghp_ AKIA Bearer curl -u :// @ 0000000 - _ / . é C:\\ v1.2 12:30'
LONG = (" ", "\n", "x" * 41, "A1" * 30)


@settings(deadline=None)
@given(text=st.lists(st.sampled_from((*PIECES.split(), *LONG)), max_size=14).map("".join))
@pytest.mark.parametrize(
    ("gate", "those"), [(patterns.gate_of_words(SECRETS), SECRETS), (patterns.gate_of_shapes(SHAPES), SHAPES)]
)
def test_a_gate_holds_no_pattern_back_that_stands(gate: patterns.Gate, those: list[Any], text: str) -> None:
    data = text.encode()
    through = gate(data)
    assert [pattern.pattern for pattern in those if patterns.stands(pattern, data) and pattern not in through] == []
