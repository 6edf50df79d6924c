"""Figures: one measured ratio each, with the goal it is held against; as a table, as JSON, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure. `least` tells a goal that must be reached from one that must not be passed."""

    goal: str
    what: str
    value: float
    bound: float | None
    least: bool = False
    unit: str = "x"
    detail: str = ""

    @property
    def verdict(self) -> str:
        """Return whether the goal is met; a figure without one is only told."""
        if self.bound is None:
            return "-"
        met = self.value >= self.bound if self.least else self.value <= self.bound
        return "pass" if met else "MISS"

    @property
    def shown_bound(self) -> str:
        """Return the goal for people."""
        return "" if self.bound is None else f"{'>=' if self.least else '<='} {number(self.bound)}"


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A part that could not be measured here, and why."""

    part: str
    reason: str


def number(value: float) -> str:
    """Return *value* with about three digits."""
    if value != value:
        return "?"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def median(samples: Sequence[float]) -> float:
    """Return the median of *samples*."""
    return statistics.median(samples)


def quantile(samples: Sequence[float], share: float) -> float:
    """Return the sample below which *share* of all lie."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(samples: Sequence[float], *, scale: float = 1.0, unit: str = "") -> str:
    """Return median, quartiles and count of *samples* for people."""
    low, mid, high = (number(quantile(samples, share) * scale) for share in (0.25, 0.5, 0.75))
    return f"{mid}{unit} [{low}-{high}] n={len(samples)}"


def table(figures: Sequence[Figure], skipped: Sequence[Skipped]) -> str:
    """Return *figures* for a terminal."""
    rows = [(one.goal, one.what, f"{number(one.value)} {one.unit}", one.shown_bound, one.verdict) for one in figures]
    head = ("goal", "what", "figure", "wanted", "")
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    for index, one in enumerate(figures, 1):
        lines[index] = f"{lines[index]}  {one.detail}".rstrip()
    return "\n".join([*lines, *(f"not measured: {one.part}: {one.reason}" for one in skipped)])


def markdown(figures: Sequence[Figure], skipped: Sequence[Skipped]) -> str:
    """Return *figures* as the table of the document."""
    lines = ["| goal | what | figure | wanted | | medians, quartiles, counts |", "|---|---|---|---|---|---|"]
    lines += [
        f"| {one.goal} | {one.what} | {number(one.value)} {one.unit} | {one.shown_bound} | {one.verdict} "
        f"| {one.detail.replace('|', '/')} |"
        for one in figures
    ]
    lines += [f"\nNot measured: {one.part}: {one.reason}." for one in skipped]
    return "\n".join(lines)


def with_rows(table: str, made: str, *, lead: str) -> str:
    """Return a *table* of the document with the rows of one that was *made* since, in the place of those they replace.

    *lead* says of which run they are: a paragraph of its own, below that of the table.
    """
    lines = table.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("|"))
    end = next((at for at in range(start, len(lines)) if not lines[at].startswith("|")), len(lines))
    newer = {_named(row): row for row in made.splitlines()[2:] if row.startswith("|")}
    kept = [newer.pop(_named(row), row) for row in lines[start:end]]
    return "\n".join([*lines[: start - 1], lead, "", *kept, *newer.values(), *lines[end:]])


def _named(row: str) -> str:
    return row.split("|")[2].strip()
