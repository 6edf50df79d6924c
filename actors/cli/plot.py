"""A plot for the terminal: the tokens of each call as they were said, and as they were served."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from actors.audit.sums import Course

ROWS = 8
COLUMNS_MAX = 64
_EIGHTHS = " ▁▂▃▄▅▆▇█"
SAVED = "░"


def course_text(course: Sequence[Course]) -> str:
    """Return the plot, an empty text where there are too few calls to tell anything.

    A column is one call, or the mean of neighbours where there are more calls than columns.
    """
    means = list(_means(course))
    if len(means) < 2:
        return ""
    most = max(max(said, served) for said, served in means)
    width = len(f"{most:,.0f}")
    lines = [f"tokens of a call by its number: {_EIGHTHS[-1]} served, {SAVED} would have come on top"]
    for row in range(ROWS, 0, -1):
        label = f"{most * row / ROWS:,.0f}"
        lines.append(f"{label:>{width}} ┤" + "".join(_cell(one, row, most) for one in means).rstrip())
    lines.append(f"{0:>{width}} └" + "─" * len(means))
    last = f"{len(course):,}"
    lines.append(f"{'':>{width}}  1{last:>{max(len(means) - 1, len(last) + 1)}}")
    return "\n".join(lines) + "\n"


def _means(course: Sequence[Course]) -> Iterator[tuple[float, float]]:
    columns = min(COLUMNS_MAX, len(course))
    for column in range(columns):
        some = course[column * len(course) // columns : (column + 1) * len(course) // columns]
        calls = sum(one.calls for one in some) or 1
        yield sum(one.said_tokens for one in some) / calls, sum(one.served_tokens for one in some) / calls


def _cell(means: tuple[float, float], row: int, most: float) -> str:
    said, served = (round(one * ROWS * 8 / most) if most else 0 for one in means)
    below = (row - 1) * 8
    if served > below:
        return _EIGHTHS[min(8, served - below)]
    return SAVED if said > below else " "
