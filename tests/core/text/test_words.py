"""Of the words of a text: what finds them quickly finds what the pattern finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.line_worths import WORD, different_words, words_of, words_of_each
from actors.core.text.shorten.lines import _CHANGING, shapes_of
from actors.core.text.values import inside, within, words_in, words_in_each
from tests.laws import LAWS

TEXTS = st.text(st.one_of(st.sampled_from("aZ09_.-/ ,:\n\r\x1c"), st.sampled_from("éßİΣς²五\x85"), st.characters()))


@LAWS
@given(TEXTS)
def test_words_are_those_that_the_pattern_finds(text: str) -> None:
    assert words_of(text) == WORD.findall(text.lower())


@LAWS
@given(TEXTS)
def test_different_words_are_the_words_once(text: str) -> None:
    assert different_words(text) == different_words(text) == frozenset(WORD.findall(text.lower()))


@LAWS
@given(st.lists(st.text(st.sampled_from("ab1_0fF./:-=\"' @+é五~\\XY")), max_size=6), st.data())
def test_what_stands_inside_values_is_found_without_looking_into_each(others: list[str], data: st.DataObject) -> None:
    every = frozenset[str]().union(*map(within, others))
    parts = [other[data.draw(st.integers(0, len(other))) :] for other in others]
    assert inside([*every, *others, *parts], others) == every


@LAWS
@given(st.lists(TEXTS, min_size=1))
def test_words_of_lines_at_once_are_those_of_each(lines: list[str]) -> None:
    assert words_of_each(lines) == [WORD.findall(line.lower()) for line in lines]


@LAWS
@given(st.lists(TEXTS))
def test_words_of_values_at_once_are_those_of_each(values: list[str]) -> None:
    assert words_in_each(values) == [words_in(value.encode("utf-8", "replace")) for value in values]


@LAWS
@given(
    st.lists(st.text(st.sampled_from("0x1aAfg _#-\0é"), max_size=24).map(lambda text: text.replace("a", "abcdef12")))
)
def test_a_line_has_the_shape_that_the_pattern_gives_it(lines: list[str]) -> None:
    assert shapes_of(lines) == [_CHANGING.sub(b"#", line.encode()).decode().strip() for line in lines]
