"""Scan: the loop over RE2 finds what the library's own `finditer` finds, empty matches and groups too."""

from __future__ import annotations

import pytest
import re2
from hypothesis import given
from hypothesis import strategies as st

from actors.rules import scan
from actors.rules.values import PATTERNS

TEXTS = st.text(alphabet="aZ09_-./:=@ \nké必", max_size=60)


@given(text=TEXTS)
@pytest.mark.parametrize(
    "pattern", ["", "a*", r"\b", "(?m)^", r"(\w+)=(\d+)?", "必|k", *(one.pattern for _, one, _ in PATTERNS)]
)
def test_places_are_those_of_finditer(pattern: str, text: str) -> None:
    compiled, data = re2.compile(pattern), text.encode()
    groups = range(compiled.groups + 1)
    wanted = [[match.span(group) for group in groups] for match in compiled.finditer(data)]
    assert scan.places(compiled, data, most=1_000) == wanted
    assert scan.places(compiled, data, most=2) == wanted[:2]


def test_a_group_that_took_no_part_is_empty() -> None:
    assert list(scan.groups(re2.compile("(a)|(b)"), b"ba", most=9)) == [(b"b", b"", b"b"), (b"a", b"a", b"")]
