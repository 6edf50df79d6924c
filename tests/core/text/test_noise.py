"""What a program prints and nobody needs afterwards."""

from __future__ import annotations

import pytest

from actors.core.text.excerpt import excerpt
from actors.core.text.json_lines import names_columns
from actors.core.text.noise import says_nothing, undrawn

RUN = """============================= test session starts ==============================
cachedir: .pytest_cache
collecting ... collected 4 items

tests/test_cart.py::test_adds_an_item PASSED                             [ 25%]
tests/test_cart.py::test_removes_an_item PASSED                          [ 50%]
tests/test_cart.py::test_discount_applies_once FAILED                    [ 75%]
tests/test_cart.py::test_empty_total_is_zero PASSED                      [100%]

=================================== FAILURES ===================================
__________________________ test_discount_applies_once __________________________

    def test_discount_applies_once(cart, code):
        cart.add("tea", 4.50)
        cart.apply(code)
        cart.apply(code)
>       assert cart.total() == Decimal("4.05")
E       AssertionError: assert Decimal('3.65') == Decimal('4.05')
E        +  where Decimal('3.65') = total()

tests/test_cart.py:41: AssertionError
=========================== short test summary info ============================
FAILED tests/test_cart.py::test_discount_applies_once - AssertionError
========================= 1 failed, 3 passed in 0.84s ==========================
"""


def test_of_a_test_that_failed_the_line_the_reason_and_the_place_stay_longest() -> None:
    short = excerpt(RUN, chars=220, sought=lambda _: 0.0, clauses=True)
    for told in (
        "assert cart.total() ==",
        "'3.65') == Decimal('4.05')",
        "test_cart.py:41",
        "1 failed, 3 passed in 0.84s",
    ):
        assert told in short
    assert "PASSED" not in short
    assert "===" not in short


@pytest.mark.parametrize(
    "line",
    [
        "index e91f5da..60edd0a 100644",
        "     ━━━━━━━━━━━━━━━━━━━━━━ 20.2/20.2 MB 159.5 MB/s eta 0:00:00",
        " 0.0/20.2 MB ? eta -:--:--",
        " 45%|████▌     | 450/1000 [00:12<00:15, 36.2it/s]",
        "========= test session starts =========",
    ],
)
def test_a_line_of_which_nobody_needs_to_know_says_nothing(line: str) -> None:
    assert says_nothing(line)


@pytest.mark.parametrize(
    "line",
    [
        "=== 5 passed in 62.1s (0:01:02) ===",
        "index 3 is out of range",
        "is 45% | 20 MB/s too slow?",
        "disk 20.2/40.0 GB used",
        "What is the eta of the train?",
        "meta: 12 rows",
        "plugins: [search, tags]",
        "index: 5",
        "5%| eta " * 100,
    ],
)
def test_a_line_that_looks_like_it_says_something(line: str) -> None:
    assert not says_nothing(line)


def test_a_title_stands_without_what_is_drawn_around_it() -> None:
    assert undrawn("======= 1 failed in 0.84s =======") == "1 failed in 0.84s"
    assert undrawn("----- BEGIN") == "----- BEGIN"
    assert undrawn("___ a ___") == "___ a ___"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("flights: (origin, destination, price):", True),
        ("(flight_number, origin):", True),
        ("def total_of_everything(cart, code, at_time):", False),
        ("Changes to the renderer (12):", False),
    ],
)
def test_only_what_json_became_names_columns_that_another_step_may_refer_to(line: str, *, names: bool) -> None:
    assert names_columns(line) is names
