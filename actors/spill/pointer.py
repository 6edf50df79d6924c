"""Pointers: what a model sees of a part that was moved out: its shortened text, and values of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import islice

from actors.core.extract import values_of
from actors.core.text.count import Count
from actors.core.text.fit import FIT_CHARS_PER_TOKEN, fits
from actors.core.text.kinds import Kind
from actors.core.text.preview import preview
from actors.core.text.shorten.by_kind import WAYS, Shorter, Ways, shortener
from protocol.formats import messages

OPENING_CHARS = 300
"""Of a user's words, kept as they are: what is asked mostly stands first."""

CLOSING_CHARS = 300
"""Of them at the end, where the question stands behind what was pasted."""

GAP_TOKENS = 16
"""What the mark between them costs at most."""

ERROR_SEEN_CHARS = 120
"""Of an error, looked for at the beginning of what is shown anyway."""

VALUES_MAX = 400
"""Looked at for one index; it never has room for more."""

ALSO = "[Also in what is left out: "


def shown_result(text: str, kind: Kind, *, index: float, count: Count, ways: Ways = WAYS) -> Shorter:
    """Return the function that shows a tool's result; up to the share *index* of the room names what else is in it."""
    shorter = shortener(text, kind, count=count, ways=ways)

    @cache
    def values() -> list[str]:
        return values_of(messages.without_surrogates(text))

    def shown(room: int) -> str:
        short = shorter(room)
        index_tokens = int(room * index)
        if not short or not index_tokens or all(value in short for value in values()):
            return short
        short = shorter(room - index_tokens - 1)
        left_out = (value for value in values() if value not in short)
        named = named_values(left_out, tokens_max=index_tokens, count=count)
        return "\n".join(filter(None, (named, short)))

    return shown


def shown_failure(text: str, said: str, kind: Kind, *, index: float, count: Count, ways: Ways = WAYS) -> Shorter:
    """Return the function that shows a failed call's result: the words *said* of its failure stand first."""
    result = shown_result(text, kind, index=index, count=count, ways=ways)

    def shown(room: int) -> str:
        short = result(room)
        if said[:ERROR_SEEN_CHARS] in short[: ERROR_SEEN_CHARS * 2]:
            return short
        first = preview(said, tokens_max=room, count=count)
        rest = room - count(first) - 1
        return "\n".join(filter(None, (first, result(max(0, rest)))))

    return shown


def shown_words(text: str, *, index: float, count: Count, ways: Ways = WAYS) -> Shorter:
    """Return the function that shows a user's text: how it begins and how it ends, word for word if they fit.

    Up to the share *index* of the room names values of what is left out between them.
    """
    text = messages.without_surrogates(text)

    def shown(room: int) -> str:
        return _words_within(text, room=room, index=index, count=count, ways=ways)

    return shown


def _words_within(text: str, *, room: int, index: float, count: Count, ways: Ways) -> str:
    if fits(text, tokens_max=room, count=count):
        return text
    opening, closing = ends_of(text)
    left = room - count(opening) - count(closing) - GAP_TOKENS
    if left < 0:
        closing = ""
        left = room - count(opening) - GAP_TOKENS
    if left < 0:
        return ways["text"](text, count=count)(room)
    middle = text[len(opening) : len(text) - len(closing)]
    index_tokens = min(left, int(room * index))
    short = ways["text"](middle, count=count)(left - index_tokens)
    there = f"{opening}{short}{closing}"
    values = [value for value in values_of(middle) if value not in there] if index_tokens else []
    named = named_values(values, tokens_max=index_tokens - 2, count=count)
    between = "\n".join(filter(None, (short or f"[… {len(middle):,} characters left out …]", named)))
    return f"{opening}{between}\n{closing}" if closing else f"{opening}{between}"


def ends_of(text: str) -> tuple[str, str]:
    """Return the beginning and the end of what a user said: what is asked stands in one of them."""
    tail = text[max(OPENING_CHARS, len(text) - CLOSING_CHARS) :]
    line = tail.find("\n") + 1
    return text[:OPENING_CHARS], tail[line:] if len(tail) - line >= CLOSING_CHARS // 3 else tail


def shown_reading(text: str, *, room: int, count: Count) -> str:
    """Return the beginning of an answer of the read tool within *room* tokens, and how to ask for less."""
    text = messages.without_surrogates(text)
    said = f"one result may have {room:,} tokens. Ask for fewer lines or bytes, or give a pattern.]"
    chars = room * FIT_CHARS_PER_TOKEN
    while chars > 0:
        shown = text[:chars]
        shown = shown[: shown.rfind("\n") + 1] or shown
        left = len(text) - len(shown)
        lines = text.count("\n", len(shown)) + 1
        whole = f"{shown.rstrip()}\n[… {lines:,} more lines ({left:,} characters) of this answer are left out: {said}"
        used = count(whole)
        if used <= room:
            return whole
        chars = min(int(chars * room / used * 0.97), chars - 20)
    return f"[This answer is left out: {said}"


def named_values(values: Iterable[str], *, tokens_max: int, count: Count) -> str:
    """Return the first of *values* on one line within *tokens_max* tokens, an empty text for none."""
    left = tokens_max - count(ALSO) - 2
    chosen: list[str] = []
    for value in islice(values, VALUES_MAX):
        left -= count(value) + 1
        if left < 0:
            break
        chosen.append(value)
    while chosen:
        line = f"{ALSO}{', '.join(chosen)}]"
        if count(line) <= tokens_max:
            return line
        del chosen[-max(1, len(chosen) // 10) :]
    return ""
