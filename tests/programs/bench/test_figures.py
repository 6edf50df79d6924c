"""The table says pass or miss as the goals are written, and the document can be rewritten from it."""

import json

import msgspec
import pytest

from tests.programs.bench.__main__ import BEGIN, DOCUMENT, END
from tests.programs.bench.figures import Figure, Skipped, markdown, median, quantile, spread, table, with_rows
from tests.programs.bench.histories import SIZES, history, turns


@pytest.mark.parametrize(
    ("value", "bound", "least", "verdict"),
    [(1.0, 1.0, False, "pass"), (1.01, 1.0, False, "MISS"), (1.0, 1.0, True, "pass"), (0.99, 1.0, True, "MISS")],
)
def test_a_figure_at_its_bound_passes(value: float, bound: float, least: bool, verdict: str) -> None:
    assert Figure(goal="P1", what="a", value=value, bound=bound, least=least).verdict == verdict


def test_a_figure_that_is_no_number_misses_its_goal() -> None:
    assert Figure(goal="P1", what="a", value=float("nan"), bound=1.0).verdict == "MISS"


def test_a_figure_without_a_goal_is_only_told() -> None:
    assert Figure(goal="", what="a", value=2.0, bound=None).verdict == "-"


def test_what_could_not_be_measured_stands_in_the_table() -> None:
    figures = [Figure(goal="P3", what="flat", value=1.04, bound=1.2, detail="n=7")]
    skipped = [Skipped(part="headroom", reason="not installed")]
    assert table(figures, skipped).splitlines() == [
        "goal  what  figure  wanted      ",
        "P3    flat  1.04 x  <= 1.2  pass  n=7",
        "not measured: headroom: not installed",
    ]
    assert markdown(figures, skipped).splitlines()[2:] == [
        "| P3 | flat | 1.04 x | <= 1.2 | pass | n=7 |",
        "",
        "Not measured: headroom: not installed.",
    ]


def test_rows_that_are_measured_alone_replace_their_own() -> None:
    figures = [Figure(goal="P3", what=what, value=1.04, bound=1.2) for what in ("a", "b", "c")]
    old = f"Measured long ago.\n\n{markdown(figures[:2], [Skipped(part='d', reason='not installed')])}"
    made = markdown([msgspec.structs.replace(one, value=2.0) for one in figures[1:]], [])
    assert with_rows(old, made, lead="Measured now.").splitlines() == [
        "Measured long ago.",
        "Measured now.",
        "",
        *markdown(figures[:1], []).splitlines(),
        *made.splitlines()[2:],
        "",
        "Not measured: d: not installed.",
    ]


def test_samples_are_told_by_their_median_quartiles_and_count() -> None:
    samples = [4.0, 1.0, 3.0, 2.0]
    assert (median(samples), quantile(samples, 0.99)) == (2.5, 4.0)
    assert spread(samples, unit=" ms") == "3 ms [2-4] n=4"


def test_histories_are_the_same_on_every_run_and_of_the_size_they_claim() -> None:
    said = history(SIZES["50 KB"])
    assert said == history(SIZES["50 KB"])
    assert 50_000 <= sum(len(json.dumps(message)) for message in said) < 60_000
    assert [message["role"] for message in said[:5]] == ["system", "user", "assistant", "tool", "assistant"]


def test_no_two_turns_are_alike_so_that_nothing_is_counted_from_memory() -> None:
    results = [new[2]["content"] for new in turns(50, result_bytes=2_000)]
    assert len(set(results)) == 50


def test_the_document_has_the_place_for_the_table() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.count(BEGIN) == 1
    assert text.index(BEGIN) < text.index(END)
