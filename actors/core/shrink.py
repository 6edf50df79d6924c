"""Shrink: the longest of several texts are shortened to one height, until all together fit.

Cut asks it, where units alone are not enough; so does a view for a smaller budget, and the list of requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Protocol

import msgspec

from protocol.account import Trim
from protocol.formats import messages

from .caps import is_result
from .entry import Entry
from .message_texts import without_lead
from .text.count import Count
from .text.kinds import kind_of
from .text.preview import preview
from .text.shorten.by_kind import NEWEST, Shorter, shortener
from .text.shorten.odd import odd_lines

RESULT_TOKENS_MIN = 256
"""A tool's result is not shortened below this while nothing else is: it leaves with the next answer, and what the
instructions and the account lose is lost for good."""

ARGUMENTS_TOKENS_MIN = 1024
"""Longer arguments of the newest calls are shortened rather than what the account tells of all others."""


class TextShortener(Protocol):
    """Shows a text in at most so many tokens."""

    def __call__(self, text: str, tokens_max: int, *, is_pointer: bool) -> str:
        """Return *text* in *tokens_max* tokens, below its lead if it is what spill shows of a larger one."""


class Text(NamedTuple):
    """A part of an entry that may be shortened, and what it costs as it is shown."""

    entry: Entry
    pointer: str
    tokens: int


def shrink(
    entries: Sequence[Entry], texts: Sequence[Text], room: int, count: Count, *, least: int, by_kind: bool = False
) -> tuple[tuple[Trim, ...], int]:
    """Shorten the longest *texts* of *entries*, each to the same height, until all fits *room* or none is left.

    *by_kind*: they are shown by the means of their kind, and not just by their ends and errors.
    """
    shorten = shown_by_kind(count) if by_kind else shown_by_ends(count)
    sizes = [text.tokens for text in texts]
    total = sum(entry.tokens for entry in entries)
    trims: tuple[Trim, ...] = ()
    used, spare = total, max(0, room - (total - sum(sizes)))
    for _ in range(6):
        height = max(least, water_level(sizes, spare))
        trims, used = lowered(entries, texts, height, count, shorten)
        if used <= room or height == least:
            break
        spare -= max(8, used - room)
    return trims, used


def shown_by_ends(count: Count) -> TextShortener:
    """Return the function that shows a text by its ends and its errors."""

    def shorten(text: str, tokens_max: int, *, is_pointer: bool) -> str:
        del is_pointer
        return preview(text, tokens_max=tokens_max, count=count)

    return shorten


def shown_by_kind(count: Count) -> TextShortener:
    """Return the function that shows a result by the means of its kind, below its lead where it is a pointer's text.

    A text of no kind is shown by its ends and its errors, but for one that says nearly the same on most lines.
    """

    @cache
    def looked_at(text: str) -> Shorter:
        kind = kind_of(text)
        if kind == "text" and not odd_lines(text.split("\n")):
            return lambda tokens_max: preview(text, tokens_max=tokens_max, count=count)
        return shortener(text, kind, count=count, ways=NEWEST)

    def shorten(text: str, tokens_max: int, *, is_pointer: bool) -> str:
        # only our own lead: a tool may have written one
        shown = without_lead(text) if is_pointer else text
        lead = text[: len(text) - len(shown)]
        return lead + looked_at(shown)(tokens_max - count(lead))

    return shorten


def lowered(
    entries: Sequence[Entry], texts: Sequence[Text], height: int, count: Count, shorten: TextShortener
) -> tuple[tuple[Trim, ...], int]:
    """Shorten those of *texts* that are above *height* tokens to it; return what all *entries* then cost."""
    high = [text for text in texts if text.tokens > height]
    trims = tuple(_trim(text.entry, text.pointer, height, count, shorten) for text in high)
    saved = sum(text.tokens for text in high) - sum(trim.tokens for trim in trims)
    return trims, sum(entry.tokens for entry in entries) - saved


def water_level(sizes: Sequence[int], room: int) -> int:
    """Return the height to which all *sizes* must be cut so that their sum is at most *room*."""
    return max(water_levels(sizes, [1] * len(sizes), room), default=0)


def water_levels(sizes: Sequence[int], weights: Sequence[int], room: int) -> list[int]:
    """Return the heights to which *sizes* must be cut so that their sum is at most *room*.

    Those that are cut have heights in proportion to their *weights*, of at least 1.
    """
    left, weight_left = max(0, room), sum(weights)
    for size, weight in sorted(zip(sizes, weights, strict=True), key=lambda one: one[0] / one[1]):
        if size * weight_left > left * weight:
            return [left * weight // weight_left for weight in weights]
        left -= size
        weight_left -= weight
    return list(sizes)


def texts_in(entries: Sequence[Entry], *, but: int = 0) -> list[Text]:
    """Return the texts and arguments of *entries* that may be shortened, but those of the message numbered *but*."""
    found = []
    for entry in entries:
        shown = {one.pointer: one.tokens for one in entry.shown}
        for part in entry.parts if entry.number != but else ():
            if part.kind in ("text", "arguments") or part.pointer in shown:
                found.append(Text(entry, part.pointer, shown.get(part.pointer, part.tokens)))
    return found


def results_in(entries: Sequence[Entry]) -> list[Text]:
    """Return the texts that tools returned."""
    results = {(entry.number, part.pointer) for entry in entries for part in entry.parts if is_result(entry, part)}
    return [text for text in texts_in(entries) if (text.entry.number, text.pointer) in results]


def _trim(entry: Entry, pointer: str, height: int, count: Count, shorten: TextShortener) -> Trim:
    before = {one.pointer: one.text for one in entry.shown}
    text = before.get(pointer)
    if text is None:
        text = messages.leaf(messages.decode(entry.raw), pointer)
    arguments = any(part.pointer == pointer and part.kind == "arguments" for part in entry.parts)
    # a call's arguments stay JSON, and quoting costs tokens of its own
    short = shorten(text, height * 3 // 4 - 8 if arguments else height, is_pointer=pointer in before)
    short = short or f"[left out: {len(text):,} characters]"
    if arguments:
        short = msgspec.json.encode({"shortened": short}).decode()
    return Trim(number=entry.number, pointer=pointer, text=short, tokens=count(short))


def shrinkable_tokens(entries: Sequence[Entry]) -> int:
    """Return about how many tokens *entries* lose when their results are shortened as far as they can be, and the
    arguments of their calls where these are long."""
    arguments = {(entry.number, part.pointer) for entry in entries for part in entry.parts if part.kind == "arguments"}
    long = [text.tokens for text in texts_in(entries) if (text.entry.number, text.pointer) in arguments]
    results = sum(max(0, text.tokens - RESULT_TOKENS_MIN) for text in results_in(entries))
    return results + sum(max(0, tokens - ARGUMENTS_TOKENS_MIN) for tokens in long)
