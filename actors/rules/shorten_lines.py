"""Lines: the telling ones and both ends of a text stay, and what is left out is said where it was."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import re2

from .entry import Count

LINE_CHARS_MAX = 400
GAP_CHARS = 40
"""What a mark of left-out lines costs, about."""

TELLING_SHARE = 0.5
"""Of the room, for telling lines; the ends have the rest."""

HEAD_SHARE = 0.6
TRIES_MAX = 12

_TELLING = re2.compile(
    rb"(?i)error\b|exception\b|\bfail(?:ed|ure|ing)?\b|\bfatal\b|\bpanic\b|\bdenied\b|\brefused\b|\btimed? ?out\b"
    rb"|\bcritical\b|\bwarn(?:ing)?\b|\bcaused by\b|\bTraceback\b|OOMKilled|CrashLoop"
)
_CHANGING = re2.compile(rb"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")


def shorten_lines(text: str, *, tokens_max: int, count: Count, telling: Iterable[int] = ()) -> str:
    """Return the lines *telling* (best first), the head and the tail of *text* within *tokens_max* tokens.

    An empty text says that so little room is left that no line fits.
    """
    lines = text.split("\n")
    first = list(dict.fromkeys(telling))
    ends = _from_the_ends(len(lines))
    costs = [min(len(line), LINE_CHARS_MAX + 30) + 1 for line in lines]
    chars = tokens_max * 4
    for _ in range(TRIES_MAX):
        if chars < GAP_CHARS:
            return ""
        shown = _rendered(lines, _chosen(costs, first, ends, chars))
        used = count(shown)
        if used <= tokens_max:
            return shown
        chars = min(int(chars * tokens_max / used * 0.97), chars - 20)
    return ""


def different(lines: Sequence[str], numbers: Iterable[int]) -> list[int]:
    """Return *numbers* of lines that differ in more than digits: the first of each sort, then the others."""
    seen: set[str] = set()
    first: list[int] = []
    later: list[int] = []
    numbers = list(numbers)
    for number, shape in zip(numbers, shapes_of([lines[number] for number in numbers]), strict=True):
        (later if shape in seen else first).append(number)
        seen.add(shape)
    return first + later


def shapes_of(lines: Sequence[str]) -> list[str]:
    """Return *lines* without what changes from one repetition to the next: numbers, times, hashes."""
    if not lines:
        return []
    # all at once and as bytes: a tenth of the time of one substitution for each line
    body = "\n".join(line[:LINE_CHARS_MAX] for line in lines).encode()
    pieces: list[bytes] = []
    following = 0
    for match in _CHANGING.finditer(body):
        start, end = match.span()
        pieces.append(body[following:start])
        following = end
    pieces.append(body[following:])
    return [shape.strip() for shape in b"#".join(pieces).decode().split("\n")]


def is_telling(text: str) -> bool:
    """Tell whether *text* speaks of an error or a warning."""
    return _TELLING.search(text.encode()) is not None


def telling_lines(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that speak of errors and warnings."""
    return different(lines, (number for number, line in enumerate(lines) if is_telling(line[:2000])))


def short_line(line: str) -> str:
    """Return *line*, a very long one cut with a count."""
    if len(line) <= LINE_CHARS_MAX + 30:
        return line
    return f"{line[:LINE_CHARS_MAX]}[… {len(line) - LINE_CHARS_MAX:,} characters …]"


def gap(lines: int, what: str = "lines") -> str:
    """Return the mark of *lines* left out."""
    return f"[… {lines:,} {what if lines != 1 else what.removesuffix('s')} left out …]"


def _from_the_ends(lines: int) -> list[int]:
    """Return all numbers, from both ends inwards, the head by `HEAD_SHARE`."""
    order: list[int] = []
    head, tail = 0, lines - 1
    while head <= tail:
        if head * (1 - HEAD_SHARE) <= (lines - 1 - tail) * HEAD_SHARE:
            order.append(head)
            head += 1
        else:
            order.append(tail)
            tail -= 1
    return order


def _chosen(costs: Sequence[int], first: Sequence[int], ends: Sequence[int], chars: int) -> list[int]:
    chosen: set[int] = set()
    left = int(chars * TELLING_SHARE)
    spent = 0
    for number in first:
        cost = costs[number] + (0 if number - 1 in chosen else GAP_CHARS)
        if spent + cost > left:
            break
        spent += cost
        chosen.add(number)
    spent += GAP_CHARS
    for number in ends:
        if number in chosen:
            continue
        if spent + costs[number] > chars:
            break
        spent += costs[number]
        chosen.add(number)
    return sorted(chosen)


def _rendered(lines: Sequence[str], chosen: Sequence[int]) -> str:
    out: list[str] = []
    following = 0
    for number in (*chosen, len(lines)):
        if number > following:
            gone = number - following
            # a mark costs more than one short line does
            alone = gone == 1 and len(lines[following]) < GAP_CHARS
            out.append(lines[following] if alone else gap(gone))
        if number < len(lines):
            out.append(short_line(lines[number]))
        following = number + 1
    return "\n".join(out)
