"""Lines: the telling ones and both ends of a text stay, and what is left out is said where it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import re2

from actors.core.text.count import Count
from actors.core.text.fit import fitted
from actors.core.text.patterns import ERROR_WORDS, places, stands

Shorter = Callable[[int], str]
"""Gives a text that was looked at once in at most so many tokens; an empty one where nothing of it fits."""

Telling = Callable[[Sequence[str]], list[int]]
"""Says which lines speak of errors and warnings, the first to be shown first."""

LINE_CHARS_MAX = 400
GAP_CHARS = 40
"""What a mark of left-out lines costs, about."""

TELLING_SHARE = 0.5
"""Of the room, for telling lines; the ends have the rest."""

HEAD_SHARE = 0.6
TRIES_MAX = 12

_TELLING = re2.compile(
    b"(?i)"
    + ERROR_WORDS
    + rb"|\bfailing\b|\brefused\b|\btimed? ?out\b|\bcritical\b|\bwarn(?:ing)?\b|OOMKilled|CrashLoop"
)
_WORSE = re2.compile(b"(?i)" + ERROR_WORDS + rb"|\bcritical\b")
"""What is more than a warning: hundreds of these may stand before the one error."""

_CHANGING = re.compile(rb"0x[0-9a-fA-F]+|\b[0-9a-f]{8,}\b|\d+")
"""Python's own engine, which replaces a hundred numbers in the time that RE2's wrapper finds ten. Hostile text does
not slow it down: a run of digits can begin at one place only, so that none is read more than twice."""

_HEX = re.compile(rb"0(?<!\d.)x[0-9a-fA-F]+|[0-9a-f](?<!\w.)[0-9a-f]{7,}\b")
"""What `_CHANGING` finds but for runs of digits: those are found without a pattern."""

_HASHES = re2.compile(rb"\b[0-9a-f]{8,}\b")
"""The same where nothing has the prefix `0x`: few among many characters, which RE2 passes over sooner."""

_CHANGED = b"\0"
_DIGITS = bytes(0 if chr(byte).isdecimal() and byte < 128 else byte for byte in range(256))

LINES_AT_ONCE = 500
"""It holds the interpreter for a few milliseconds meanwhile."""

TELLING_CHARS_MAX = 2000
"""Of a line, looked at for errors."""


def shorten_lines(lines: Sequence[str], *, count: Count, telling: Iterable[int] = ()) -> Shorter:
    """Return the function that shows those of *lines* that are *telling* (best first), their head and their tail."""
    first = list(dict.fromkeys(telling))
    ends = _from_the_ends(len(lines))
    costs = [min(len(line), LINE_CHARS_MAX + 30) + 1 for line in lines]

    def shown(chars: int) -> str:
        return _rendered(lines, _chosen(costs, first, ends, chars))

    def shorter(tokens_max: int) -> str:
        chars = tokens_max * 4
        return fitted(shown, chars=chars, tokens_max=tokens_max, count=count, least=GAP_CHARS, tries=TRIES_MAX)

    return shorter


def different(numbers: Sequence[int], shapes: Iterable[str]) -> list[int]:
    """Return *numbers* of lines whose *shapes* differ: the first of each sort, then the others."""
    seen: set[str] = set()
    first: list[int] = []
    later: list[int] = []
    for number, shape in zip(numbers, shapes, strict=True):
        (later if shape in seen else first).append(number)
        seen.add(shape)
    return first + later


def shapes_of(lines: Sequence[str]) -> list[str]:
    """Return *lines* without what changes from one repetition to the next: numbers, times, hashes."""
    shapes: list[str] = []
    for start in range(0, len(lines), LINES_AT_ONCE):
        some = [line[:LINE_CHARS_MAX] for line in lines[start : start + LINES_AT_ONCE]]
        changed = _changed("\n".join(some).encode()).decode().split("\n")
        assert len(changed) == len(some), "a line has line ends"
        shapes += map(str.strip, changed)
    return shapes


def _changed(body: bytes) -> bytes:
    """Return *body* with a mark for each number and hash, as `_CHANGING` finds them: in a third of the time."""
    if _CHANGED in body:
        return _CHANGING.sub(b"#", body)
    body = _HEX.sub(_CHANGED, body) if b"0x" in body else _without_hashes(body)
    body = body.translate(_DIGITS)
    while _CHANGED * 2 in body:
        body = body.replace(_CHANGED * 2, _CHANGED)
    return body.replace(_CHANGED, b"#")


def _without_hashes(body: bytes) -> bytes:
    kept, following = [], 0
    for ((start, end),) in places(_HASHES, body, most=len(body)):
        kept.append(body[following:start])
        following = end
    return _CHANGED.join((*kept, body[following:])) if kept else body


def lines_with(pattern: Any, lines: Sequence[str], body: bytes | None = None) -> Iterator[int]:
    """Yield the numbers of the lines in which *pattern* stands, which knows no line ends; of lines that have some, all.

    It is looked for in all of them at once: most have nothing, and a search in each costs more than one through all.
    *body* is the lines joined, if somebody has done that.
    """
    if body is None:
        body = "\n".join(lines).encode()
    if body.count(b"\n") != len(lines) - 1:
        yield from range(len(lines))
        return
    number = following = 0
    while following < len(body) and (found := places(pattern, body, start=following, most=1)):
        hit = found[0][0][0]
        number += body.count(b"\n", following, hit)
        yield number
        following = body.find(b"\n", hit) + 1
        if not following:
            return
        number += 1


def is_telling(text: str) -> bool:
    """Tell whether *text* speaks of an error or a warning."""
    return stands(_TELLING, text.encode())


def telling_lines(lines: Sequence[str], shapes: Sequence[str] | None = None, body: bytes | None = None) -> list[int]:
    """Return the numbers of the lines that speak of errors and warnings.

    *shapes* are theirs, and *body* is the lines joined, if they are known.
    """
    short = max(map(len, lines), default=0) <= TELLING_CHARS_MAX
    looked_at = lines if short else [line[:TELLING_CHARS_MAX] for line in lines]
    found = list(lines_with(_TELLING, looked_at, body if short else None))
    return different(found, [shapes[number] for number in found] if shapes else shapes_of([lines[at] for at in found]))


def worst_first(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that speak of errors, then of those that speak of warnings."""
    telling = telling_lines(lines)
    worse = [number for number in telling if stands(_WORSE, lines[number][:TELLING_CHARS_MAX].encode())]
    return list(dict.fromkeys((*worse, *telling)))


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
