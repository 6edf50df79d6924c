"""Trims: an old result is shortened in place to the lines that mattered."""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.caps import is_result
from actors.core.entry import Entry, PartSize
from actors.core.text.count import Count
from actors.core.units import Unit
from protocol.account import Trim
from protocol.formats import messages

from .hindsight import Hindsight

TRIMMED_TOKENS_MIN = 140
"""A result of fewer tokens stays as it is."""

LEAST_KEPT = 0.7
"""Of a result's tokens and the square of what is kept of its characters: so many an outcome has, though JSON loses its
marks. A result that says the same on every line has fewer, and the more so the less is kept."""

GAIN_MIN = 0.25
"""Share of a result that shortening must win."""


def trims_of(entry: Entry, hindsight: Hindsight, *, chars: int, count: Count) -> tuple[Trim, ...]:
    """Return how the results in *entry* are shortened to their outcome; none where that wins too little."""
    shown = {one.pointer: one for one in entry.shown}
    found = []
    for part in entry.parts:
        there = shown.get(part.pointer)
        tokens = there.tokens if there else part.tokens
        if part.kind != "text" or tokens <= TRIMMED_TOKENS_MIN or not is_result(entry, part):
            continue
        text = there.text if there and part.sha256 else _said(entry, part)
        if not text:
            continue
        short = hindsight.excerpt(hindsight.unframed(text), chars=chars, after=entry.number)
        if not (there or part.estimated) and _wins_blanks_alone(part, text, short):
            continue
        short = f'[Shortened; the whole: read_artifact("messages:{entry.number}")]\n{short}'
        cost = count(short)
        if cost <= tokens * (1 - GAIN_MIN):
            found.append(Trim(number=entry.number, pointer=part.pointer, text=short, tokens=cost))
    return tuple(found)


def winnable_tokens(unit: Unit, chars: int) -> int:
    """Return how many tokens shortening the results of *unit* to *chars* characters wins, at most."""
    won = 0
    for entry in unit.entries:
        shown = {one.pointer: one.tokens for one in entry.shown}
        for part in entry.parts:
            tokens = shown.get(part.pointer, part.tokens)
            if part.kind == "text" and tokens > TRIMMED_TOKENS_MIN and is_result(entry, part):
                kept = min(1.0, chars / max(1, part.bytes))
                won += tokens - int(tokens * LEAST_KEPT * kept * kept)
    return won


def shown_tokens(entry: Entry, trims: Sequence[Trim]) -> int:
    """Return what the parts that *trims* replace cost as they are shown now."""
    shown = {one.pointer: one.tokens for one in entry.shown}
    said = {part.pointer: part.tokens for part in entry.parts}
    return sum(shown.get(trim.pointer, said[trim.pointer]) for trim in trims)


def _wins_blanks_alone(part: PartSize, text: str, short: str) -> bool:
    """Tell whether nothing but blanks of *text* is left out in *short*, and too few of them."""
    # each may have been a token, and have kept what stands before it from becoming one with the line end behind it
    fewest = part.tokens - 2 * (len(text) - len(short))
    return fewest > part.tokens * (1 - GAIN_MIN) and "".join(text.split()) == "".join(short.split())


def _said(entry: Entry, part: PartSize) -> str:
    return "" if part.sha256 else messages.leaf(messages.decode(entry.raw), part.pointer)
