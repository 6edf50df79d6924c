"""Logs: runs of lines that differ in numbers only are told once, with a count; errors and warnings stay."""

from __future__ import annotations

from actors.core.text.count import Count

from .lines import Shorter, Telling, shapes_of, shorten_lines, worst_first

RUN_MIN = 3


def shorten_log(text: str, *, count: Count, telling: Telling = worst_first) -> Shorter:
    """Return the function that shows *text* with its runs collapsed, then its errors and both ends."""
    lines = collapsed(text.split("\n"))
    return shorten_lines(lines, count=count, telling=telling(lines))


def collapsed(lines: list[str]) -> list[str]:
    """Return *lines* with each run of near-equal neighbours as its first, a count, and its last."""
    out: list[str] = []
    start = 0
    shapes = shapes_of(lines)
    for end in range(1, len(lines) + 1):
        if end < len(lines) and shapes[end] == shapes[start]:
            continue
        run = lines[start:end]
        if len(run) > RUN_MIN or (len(run) == RUN_MIN and run[0] == run[-1]):
            what = "equal" if len(set(run)) == 1 else "like it but for numbers"
            out += [run[0], f"[… {len(run) - 2:,} more {what} …]", run[-1]]
        else:
            out += run
        start = end
    return out
