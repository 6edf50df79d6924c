"""Gaps: what was left out of a text before stays marked when the text is shortened again."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

GAP = "…"
_BEFORE, _BEHIND = f"{GAP} ", f" {GAP}"


class Gapped(NamedTuple):
    """Lines without the marks of what is left out between them."""

    lines: list[str]
    gaps: frozenset[int]
    """Numbers of the lines before which something is left out; that of a line behind the last one for its end."""


_GAPS = re.compile(rf"{GAP}(?: *{GAP})+|(?<= ) {GAP}$", re.MULTILINE)


def gapped(lines: Sequence[str]) -> Gapped:
    """Return *lines* without marks and blank ones, and where the marks stood.

    A mark that touches a word says that the line itself is cut: it stays.
    """
    bare: list[str] = []
    gaps: list[int] = []
    for line in lines:
        if GAP in line:
            if line.startswith(_BEFORE) or _is_mark(line):
                gaps.append(len(bare))
                line = "" if _is_mark(line) else line.removeprefix(_BEFORE)
            if line.endswith(_BEHIND):
                line = line.removesuffix(_BEHIND).rstrip()
                gaps.append(len(bare) + bool(line))
        if line and not line.isspace():
            bare.append(line)
    return Gapped(bare, frozenset(gaps))


def without_cut_end(text: Gapped) -> Gapped:
    """Return *text* without its last line where that is the beginning of another one: whoever printed it cut it off."""
    *above, last = text.lines or [""]
    words = last.rstrip(GAP).rstrip()
    if not words or not any(line.startswith(words) and _goes_on(line[len(words) :]) for line in above):
        return text
    return Gapped(above, frozenset([number for number in text.gaps if number < len(above)]) | {len(above)})


def _goes_on(rest: str) -> bool:
    """Tell whether a word goes on with *rest*, or another column follows."""
    return rest[:1].isalnum() or (rest.startswith("  ") and not rest.isspace())


def _is_mark(line: str) -> bool:
    """Tell a line that says nothing but that others are left out, however it says so."""
    line = line.strip()
    return line in (GAP, f"{GAP}]") or (line.startswith(f"[{GAP} ") and line.endswith(f"{GAP}]"))


def moved(gaps: frozenset[int], places: Sequence[int]) -> frozenset[int]:
    """Return *gaps* among pieces of the lines; *places* has the first piece of each line, and the number of pieces."""
    return frozenset([places[number] for number in gaps])


def with_gaps_once(text: str) -> str:
    """Return *text* with several marks in a row as one: what was shortened twice has some."""
    return _GAPS.sub(GAP, text)


def rendered(
    lines: Sequence[str],
    chosen: Sequence[int],
    gaps: frozenset[int] = frozenset(),
    *,
    is_header: Callable[[str], bool],
) -> str:
    """Return the *chosen* of *lines*, with marks where others are left out now, or were before: at *gaps*.

    Below a header the mark stands before the next line.
    """
    if not gaps and len(chosen) == len(lines):
        return "\n".join(lines)
    out: list[str] = []
    following = 0
    for number in chosen:
        gap = number > following or number in gaps
        below_header = gap and bool(out) and is_header(out[-1])
        if gap and out and not below_header:
            out[-1] = f"{out[-1].rstrip(GAP)} {GAP}"
        out.append(f"{GAP} {lines[number]}" if below_header or (gap and not out) else lines[number])
        following = number + 1
    if out and (following < len(lines) or following in gaps):
        out[-1] = f"{out[-1].rstrip(GAP)} {GAP}"
    return "\n".join(out)
