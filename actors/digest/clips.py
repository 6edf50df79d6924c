"""Clips: a text in less room, its beginning and its end, cut between words."""

from __future__ import annotations

import re

from actors.core.text.gaps import GAP

_JOINTS = re.compile(r"\s+|(?<=[。、，；！？])|(?=[。、，；！？])")
"""Where a text may be cut: some scripts have no spaces between words."""

_WORD, LONG_WORD_CHARS = re.compile(r"[\w+=]*"), 40
NAME_CHARS = 12
"""Of a word of 40 characters, that names it."""

ENDLESS_CHARS = 120
_ENDLESS = re.compile(r"\b(?=[A-Za-z]{0,40}\d)([A-Za-z0-9]{20})[A-Za-z0-9+=]{100,}")
"""A word with figures in it, of so many characters or more, longer than any name."""

_DIGITS = "0123456789.,"


def clipped(text: str, chars: int, *, head: float = 0.62, names: bool = False) -> str:
    """Return *text* in at most *chars* characters: its beginning (a share, *head*) and its end, cut between words.

    With *names* the beginning of a very long word stays: a key or a hash is known by it.
    """
    if len(text) <= chars:
        return text
    first, last = text[: int(chars * head)], text[len(text) - int(chars * (0.96 - head)) :]
    # from the end on: a search would begin at each of its characters
    start = len(first) - len(_matched(first[::-1])) if names else len(first)
    if names and len(_matched(text[start : start + LONG_WORD_CHARS])) == LONG_WORD_CHARS:
        last = _JOINTS.split(last, maxsplit=1)[-1] if _JOINTS.search(last.rstrip()) else ""
        return f"{first[: start + NAME_CHARS]}{GAP} {last}".rstrip()
    first = _JOINTS.split(first[::-1], maxsplit=1)[-1][::-1] if _JOINTS.search(first) else first.rstrip(_DIGITS)
    last = _JOINTS.split(last, maxsplit=1)[-1] if _JOINTS.search(last.rstrip()) else last.lstrip(_DIGITS)
    return f"{first} {GAP} {last}"


def _matched(text: str) -> str:
    """Return the word with which *text* begins."""
    found = _WORD.match(text)
    return found.group() if found else ""


def without_endless_words(text: str) -> str:
    """Return *text* with nothing but the beginning of each word that nobody can read: keys, images as letters."""
    # most texts have no word so long, and to part them all is sooner done than to look for one
    return text if max(map(len, text.split()), default=0) < ENDLESS_CHARS else _ENDLESS.sub(rf"\1{GAP}", text)


def one_line(text: str) -> str:
    """Return *text* on one line."""
    return " ".join(text.split())
