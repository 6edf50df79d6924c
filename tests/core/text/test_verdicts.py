"""Verdicts: how a build or a run of tests says that it came out."""

from __future__ import annotations

import pytest

from actors.core.text.excerpt import excerpt
from actors.core.text.verdicts import LAST_LINES, verdicts

PLAIN = [f"Compiling part {number} of the shop" for number in range(40)]


@pytest.mark.parametrize(
    "line",
    [
        "[INFO] BUILD SUCCESS",
        "BUILD FAILED in 3s",
        "BUILD SUCCESSFUL in 12s",
        "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out",
        "======= 263 passed, 1 skipped in 5.84s =======",
        "12 passed, 1 warning in 0.31s",
        "Tests:       1 failed, 19 passed, 20 total",
        "Test Suites: 1 failed, 1 passed, 2 total",
        " Tests  12 passed (12)",
        "OK",
        "FAILED (failures=2)",
        "Ran 3 tests in 0.001s",
        "  17 passing (5s)",
        "[INFO] Tests run: 2, Failures: 0, Errors: 0, Skipped: 0",
        "ok  \tshop/stock\t0.012s",
        "FAIL    shop/stock 0.012s",
        "3 examples, 0 failures",
        "Passed!  - Failed:     0, Passed:    12, Skipped:     0",
        "Successfully built shop-1.0.tar.gz",
        "✓ built in 1.2s",
        "    Finished `dev` profile target(s) in 0.5s",
    ],
)
def test_how_a_run_came_out_stays_when_little_does(line: str) -> None:
    lines = [*PLAIN, line, *PLAIN[:9]]
    assert verdicts(lines) == [len(PLAIN)]
    short = excerpt("\n".join(lines), chars=160, sought=lambda word: 0.0, clauses=True)
    assert " ".join(line.split()).strip("= ") in " ".join(short.split())


@pytest.mark.parametrize("line", ["", "It is OK", "we passed 12 of them", "class Test: passed", "Tests are run in CI"])
def test_other_lines_are_none(line: str) -> None:
    assert verdicts([line]) == []


def test_of_many_the_last_ones_count() -> None:
    lines = [f"ok  shop/part{number} 0.1s" for number in range(LAST_LINES * 2)]
    assert verdicts(lines) == [len(lines) - 3, len(lines) - 2, len(lines) - 1]
