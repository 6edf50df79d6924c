"""Pointers: what a model sees of a part that was moved out: its shortened text, and values of the rest."""

from __future__ import annotations

from protocol import messages

from .entry import Count
from .extract import values_of
from .kinds import Kind
from .shorten import shorten, shorten_text

OPENING_CHARS = 300
"""Of a user's words, kept as they are: what is asked mostly stands first."""

VALUES_MAX = 400
"""Looked at for one index; it never has room for more."""

ALSO = "[Also in what is left out: "


def shown_result(text: str, kind: Kind, *, room: int, index: float, count: Count) -> str:
    """Return a tool's result within *room* tokens; up to the share *index* of it names what else is in it."""
    short = shorten(text, kind, tokens_max=room, count=count)
    index_tokens = int(room * index)
    if not short or not index_tokens or not _hidden(text, short):
        return short
    short = shorten(text, kind, tokens_max=room - index_tokens - 1, count=count)
    named = named_values(_hidden(text, short), tokens_max=index_tokens, count=count)
    return "\n".join(filter(None, (named, short)))


def shown_words(text: str, *, room: int, most: int, count: Count) -> str:
    """Return what a user said within *room* tokens; its opening is kept if that has at most *most* tokens."""
    text = messages.without_surrogates(text)
    whole = shorten_text(text, tokens_max=room, count=count)
    opening, rest = text[:OPENING_CHARS], text[OPENING_CHARS:]
    used = count(opening)
    if whole.startswith(opening) or used > most:
        return whole
    return opening + shorten_text(rest, tokens_max=max(0, room - used - 2), count=count) if used < room else opening


def named_values(values: list[str], *, tokens_max: int, count: Count) -> str:
    """Return the first of *values* on one line within *tokens_max* tokens, an empty text for none."""
    left = tokens_max - count(ALSO) - 2
    chosen: list[str] = []
    for value in values[:VALUES_MAX]:
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


def _hidden(text: str, shown: str) -> list[str]:
    return [value for value in values_of(messages.without_surrogates(text)) if value not in shown]
