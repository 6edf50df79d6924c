"""A trace as a person reads it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from actors.telemetry.trace_view import OVERTAKEN, REFUSED, SpanRow, trace_tree


@pytest.mark.parametrize(("after", "why"), [(None, OVERTAKEN), (14_367, REFUSED)])
def test_a_rejected_step_says_who_rejected_it(after: int | None, why: str) -> None:
    step = SpanRow(
        trace_id="7" * 32,
        span_id="1" * 16,
        parent_id="",
        name="compact squeeze",
        service="worker",
        start_unix_nano=1_795_000_000_000_000_000,
        duration_ms=6.3,
        outcome="rejected",
        before_tokens=14_367,
        after_tokens=after,
    )
    told = io.StringIO()
    Console(file=told, width=200).print(trace_tree([step]))
    assert f"rejected ({why})" in told.getvalue()
