"""Preview: the ends of a text and its errors, within its tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.core.text.preview import ERROR_LINES_MAX, preview
from tests.builders import COUNT, words
from tests.laws import LAWS

LOG = "\n".join(f"2026-01-01 step {number} went well" for number in range(2000))


def test_a_text_that_fits_is_returned_as_it_is() -> None:
    assert preview(words(10), tokens_max=10, count=COUNT) == words(10)


def test_a_text_one_token_over_is_shortened() -> None:
    assert preview(words(100), tokens_max=99, count=COUNT) != words(100)


@pytest.mark.parametrize("tokens_max", [0, 1, 5])
def test_too_small_a_bound_gives_an_empty_text(tokens_max: int) -> None:
    assert preview(LOG, tokens_max=tokens_max, count=COUNT) == ""


def test_both_ends_stay_and_what_is_left_out_is_said_in_place() -> None:
    shown = preview(LOG, tokens_max=300, count=COUNT)
    assert shown.startswith("2026-01-01 step 0 went well\n")
    assert shown.endswith("\n2026-01-01 step 1999 went well")
    gone = 2000 - sum("step" in line for line in shown.splitlines())
    assert f"[… {gone + 1:,} lines left out …]" in shown or f"[… {gone:,} lines left out …]" in shown


def test_the_errors_between_the_ends_stay() -> None:
    lines = LOG.split("\n")
    lines[1000:1000] = ["ValueError: bad order ORD-7", "ValueError: bad order ORD-7", "job failed"]
    shown = preview("\n".join(lines), tokens_max=300, count=COUNT)
    assert "among them:\nValueError: bad order ORD-7\n" in shown
    assert shown.count("ValueError: bad order ORD-7") == 1


def test_only_so_many_errors_stay() -> None:
    noisy = "\n".join(f"error {number}" for number in range(50_000))
    shown = preview(noisy, tokens_max=4000, count=COUNT)
    between = shown.partition("among them:\n")[2].partition("\n…]")[0]
    assert between.count("\n") + 1 == ERROR_LINES_MAX


def test_a_single_line_says_how_many_characters_are_gone() -> None:
    assert " characters left out …]" in preview("x" * 50_000, tokens_max=200, count=COUNT)


@given(
    piece=st.text(st.characters(), min_size=1, max_size=30),
    times=st.integers(1, 3000),
    tokens_max=st.integers(0, 500),
)
@LAWS
def test_a_preview_is_never_above_its_bound(piece: str, times: int, tokens_max: int) -> None:
    assert COUNT(preview(piece * times, tokens_max=tokens_max, count=COUNT)) <= tokens_max


@pytest.mark.parametrize("text", ["请不要重新启动" * 60, "a3f9c2d1e\n" * 40, "👩‍💻" * 90])
def test_a_dense_text_just_over_its_bound_is_shown_in_part(text: str) -> None:
    tokens = COUNT(text)
    for bound in (tokens - 1, tokens - 5, tokens * 3 // 4):
        assert bound // 2 < COUNT(preview(text, tokens_max=bound, count=COUNT)) <= bound
