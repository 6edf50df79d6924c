"""Odd lines: of a text that says nearly the same on most lines, those that say something else."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from .lines import worst_first

LINES_MIN, LINES_MAX = 20, 4_000
"""Of fewer lines none is odd, and more are not looked at one by one."""

LINE_CHARS_MAX = 200
"""A longer line is prose, and its words stand nowhere else in any case."""

RARE_LINES = 2
"""Lines that a rare word stands in, at most."""

ODD_SHARE_MIN, LINES_SHARE_MAX = 0.6, 0.5
"""Of an odd line's words, that are rare; of the lines, that may be odd: where more are, it is no text of that kind."""

WORD = re.compile(r"[^\W\d_]{3,}")


def worst_then_odd(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that speak of errors, then of warnings, then of the odd ones."""
    return list(dict.fromkeys((*worst_first(lines), *odd_lines(lines))))


def odd_lines(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines most of whose words stand hardly anywhere else, short ones first, since more of
    them have room; none where most lines are so.
    """
    if not LINES_MIN <= len(lines) <= LINES_MAX:
        return []
    words = [set(WORD.findall(line[:LINE_CHARS_MAX].lower())) for line in lines]
    often = Counter(word for some in words for word in some)
    odd = [
        number
        for number, some in enumerate(words)
        if some
        and len(lines[number]) <= LINE_CHARS_MAX
        and sum(often[word] <= RARE_LINES for word in some) >= len(some) * ODD_SHARE_MIN
    ]
    if len(odd) > sum(map(bool, words)) * LINES_SHARE_MAX:
        return []
    return sorted(odd, key=lambda number: len(lines[number]))
