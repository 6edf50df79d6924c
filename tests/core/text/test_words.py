"""Of the words of a text: what finds them quickly finds what the pattern finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.line_worths import WORD, words_of, words_of_each
from tests.builders import LAWS

TEXTS = st.text(st.one_of(st.sampled_from("aZ09_.-/ ,:\n\r\x1c"), st.sampled_from("éßİΣς²五\x85"), st.characters()))


@LAWS
@given(TEXTS)
def test_words_are_those_that_the_pattern_finds(text: str) -> None:
    assert words_of(text) == WORD.findall(text.lower())


@LAWS
@given(st.lists(TEXTS, min_size=1))
def test_words_of_lines_at_once_are_those_of_each(lines: list[str]) -> None:
    assert words_of_each(lines) == [WORD.findall(line.lower()) for line in lines]
