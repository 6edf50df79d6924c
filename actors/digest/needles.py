"""Needles: what a user told in plain words, and nobody else said. No pattern knows it: a name, an allergy, a wish.

Told by the words: a sentence whose words stand in no other request says what would be lost with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from actors.core.text.count import Count
from actors.core.text.shorten.odd import WORD
from protocol.facts import DigestItem

SENTENCE_CHARS_MIN = 12
SENTENCE_CHARS_MAX = 240
NEW_SHARE_MIN = 0.4
"""Of a sentence's words, that no other request has."""

_END = re.compile(r"(?<=[.!。！;；])\s+|(?<=[。！])|\n+")
_ASKS = ("?", "？")


def needles(requests: Iterable[DigestItem], room: int, *, count: Count) -> list[DigestItem]:
    """Return the sentences of *requests* that say most of what no other one says, within *room* tokens."""
    requests = list(requests)
    said = Counter(word for item in requests for word in _words(item.value))
    found: list[tuple[float, int, str, DigestItem]] = []
    for item in requests:
        for sentence in _END.split(item.value):
            text = " ".join(sentence.split())
            words = _words(text)
            new = sum(said[word] == 1 for word in words)
            if new < 2 or new < NEW_SHARE_MIN * len(words) or text.endswith(_ASKS):
                continue
            if SENTENCE_CHARS_MIN <= len(text) <= SENTENCE_CHARS_MAX:
                found.append((-new / len(words), item.number, text, item))
    chosen: list[DigestItem] = []
    for _, _, text, item in sorted(found, key=lambda one: one[:3]):
        tokens = count(f" {text}") + 1
        if tokens <= room:
            room -= tokens
            chosen.append(replace(item, value=text))
    return chosen


def _words(text: str) -> frozenset[str]:
    return frozenset(WORD.findall(text.lower()))
