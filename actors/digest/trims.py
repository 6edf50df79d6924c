"""Trims: an old result is shortened in place to the lines that mattered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.core.caps import is_result
from actors.core.entry import Entry, PartSize
from actors.core.text.count import Count
from actors.core.text.forms import with_labels
from actors.core.text.opened import opened
from actors.core.units import Unit
from protocol.account import Trim
from protocol.formats import messages

from .calls import is_printed
from .hindsight import Hindsight
from .relayed import is_relayed

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
        if part.kind != "text" or tokens <= TRIMMED_TOKENS_MIN:
            continue
        if not is_result(entry, part) and not (hindsight.rules_3 and is_printed(entry)):
            continue
        text = there.text if there and part.sha256 else _said(entry, part)
        if not text or (hindsight.rules_3 and is_relayed(opened(text, deep=True), entry.tool)):
            continue
        text = hindsight.without_end(with_labels(opened(text, deep=True))) if hindsight.rules_3 else text
        short = hindsight.excerpt(hindsight.unframed(text), chars=chars, after=entry.number)
        if not (there or part.estimated) and _wins_blanks_alone(part, text, short):
            continue
        short = f'[Shortened; the whole: read_artifact("messages:{entry.number}")]\n{short}'
        cost = count(short)
        if cost <= tokens * (1 - GAIN_MIN):
            found.append(Trim(number=entry.number, pointer=part.pointer, text=short, tokens=cost))
    return tuple(found)


@dataclass(kw_only=True)
class Trims:
    """The results that a compaction shortens in place."""

    hindsight: Hindsight
    count: Count
    of: dict[int, tuple[Trim, ...]] = field(default_factory=dict)
    """By the number of their message."""
    chars: dict[int, int] = field(default_factory=dict)
    """The characters that each of a unit's results may have, by the first message of the unit."""
    last: Unit | None = None
    """The unit that was shortened last."""
    saved_tokens: int = 0

    def shorten(self, unit: Unit, chars: int) -> None:
        """Shorten each result of *unit* to its outcome in *chars* characters; one that is hardly longer stays whole."""
        self.chars[unit.first], self.last = chars, unit
        for entry in unit.entries:
            trims = trims_of(entry, self.hindsight, chars=chars, count=self.count)
            # older rules left it as short as it was
            if trims or self.hindsight.rules_3:
                self._put(entry, trims)

    def lengthen(self, unit: Unit, chars: int, spare: int) -> None:
        """Show *chars* characters more of the results of *unit*, if that takes at most *spare* tokens."""
        before = [(entry, self.of.get(entry.number, ())) for entry in unit.entries]
        saved, old = self.saved_tokens, self.chars[unit.first]
        self.shorten(unit, old + chars)
        if saved - self.saved_tokens > spare:
            self.chars[unit.first] = old
            for entry, trims in before:
                self._put(entry, trims)

    def forget(self, entry: Entry) -> None:
        """Let the results in *entry* be whole."""
        self._put(entry, ())

    def _put(self, entry: Entry, trims: tuple[Trim, ...]) -> None:
        before = self.of.pop(entry.number, ())
        self.saved_tokens += sum(trim.tokens for trim in before) - _shown_tokens(entry, before)
        if trims:
            self.of[entry.number] = trims
            self.saved_tokens -= sum(trim.tokens for trim in trims) - _shown_tokens(entry, trims)


def winnable_tokens(unit: Unit, chars: int) -> int:
    """Return how many tokens shortening the results of *unit* to *chars* characters wins, at most."""
    won = 0
    for entry in unit.entries:
        shown = {one.pointer: one.tokens for one in entry.shown}
        for part in entry.parts:
            tokens = shown.get(part.pointer, part.tokens)
            if part.kind == "text" and tokens > TRIMMED_TOKENS_MIN and (is_result(entry, part) or is_printed(entry)):
                kept = min(1.0, chars / max(1, part.bytes))
                won += tokens - int(tokens * LEAST_KEPT * kept * kept)
    return won


def _shown_tokens(entry: Entry, trims: Sequence[Trim]) -> int:
    """Return the tokens of the parts that *trims* replace, as they are shown now."""
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
