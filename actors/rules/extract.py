"""Extractors: the values that a digest keeps verbatim, found in linear time.

Patterns run on RE2 because they read tool output, which is hostile: Python's `re` needs seconds for some
40 KB lines, RE2 never more than one pass. Matches are values, not sentences around them, except for the
three categories that are sentences by nature (rules, decisions, errors, outcomes).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import re2

from protocol import messages
from protocol.facts import DigestItem

from .entry import Entry, shown_message

CATEGORIES: tuple[str, ...] = (
    "request", "rule", "decision", "error", "outcome", "tool", "path", "url", "id", "setting", "status", "symbol",
)  # fmt: skip
"""In the order in which a digest shows them."""

SCAN_CHARS_MAX = 200_000
"""Of one message; what is larger was spilled, and its preview is what the model knows."""

VALUES_PER_MESSAGE_MAX = 400
SENTENCE_CHARS_MAX = 240
VALUE_CHARS_MAX = 200

SPOKEN = 64
"""Uses that a message of the user or the assistant counts for, against 1 for a tool's.

On recorded runs what somebody said is used again seven to eight times as often as what only a tool printed, and
the chance grows with the square root of the messages that had it; how often one message says it tells little.
"""

_PRINTED = {"setting": 0.125, "url": 0.5, "status": 0.5}
"""Worth of what only a tool printed, against 1 for a path, an id or a symbol: few are ever used (same runs)."""

_LOCATOR_CHARS = 6
"""Letters of a booking code (`XKLMNQ`); words of six capitals (`SELECT`) come in with it."""

# a full stop inside a file name or a version ends no sentence
_SENTENCE = r"(?i)(?:[^\n.!?。！？]|[.!?]\S)*(?:%s)(?:[^\n.!?。！？]|[.!?]\S)*"


def _sentence(*words: str) -> Any:
    return re2.compile(_SENTENCE % "|".join(words))


_SENTENCES: tuple[tuple[str, Any], ...] = (
    ("rule", _sentence(
        r"\bmust\b", r"\bnever\b", r"\balways\b", r"\bshould\b", r"\bcannot\b", r"\bdo not\b", r"\bdon't\b",
        r"\brequired\b", r"\bforbidden\b", r"\bonly\b", r"\bmuss\b", r"\bnie(?:mals)?\b", r"\bimmer\b",
        r"\bdarf nicht\b", r"\bverboten\b", r"\bdoit\b", r"\bjamais\b", r"\btoujours\b", r"\binterdit\b", r"\bdebe\b",
        r"\bnunca\b", r"\bsiempre\b", r"\bprohibido\b", "必须", "不得", "禁止", "务必", "しなければ", "必ず",
    )),
    ("decision", _sentence(
        r"\bdecided?\b", r"\bchosen?\b", r"\bselected\b", r"\bwe(?:'ll| will) use\b", r"\bi(?:'ll| will) use\b",
        r"\binstead of\b", r"\bentschieden\b", r"\bdécidé\b", r"\bdecidido\b", "决定", "選択", "決定",
    )),
    ("outcome", _sentence(
        r"\bfixed\b", r"\bsuccessfully\b", r"\bcompleted\b", r"\bpassed\b", r"\broot cause\b", r"\bconclusion\b",
        r"\bturns out\b", r"\bbehoben\b", r"\bterminé\b", r"\bcompletado\b", "完成", "成功", "完了",
    )),
)  # fmt: skip

_ERROR = re2.compile(
    r"(?m)^.*(?:\b[A-Z]\w*(?:Error|Exception)\b|\b(?:ERROR|FATAL|CRITICAL|FAILED)\b"
    r"|(?i:\bpermission denied\b|\bnot found\b)).*$"
)

_VALUES: tuple[tuple[str, Any], ...] = (
    ("url", re2.compile(r"https?://[^\s\"'<>)\]}\\`]+")),
    ("path", re2.compile(r"(?:~/|\.{1,2}/|/)?(?:[\w.@+-]+/)+[\w.@+-]*\w")),
    ("id", re2.compile(r"\b[0-9a-f]{7,}(?:-[0-9a-f]{4,})*\b")),
    ("id", re2.compile(r"\b[A-Z]{1,12}[-_]?\d{3,}\b|\b[A-Z0-9]{6}\b|\b[a-z]+_[a-z]+_\d{3,}\b|\b\d{6,}\b")),
    ("id", re2.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")),
    ("setting", re2.compile(r"\b[A-Za-z_][\w.-]{1,24}\"?\s?[=:]\s?\d+(?:\.\d+)?\b")),
    ("status", re2.compile(r"(?i)\b(?:status|code|exit code|http)\b[ :=]{1,3}\d{1,4}\b")),
    ("symbol", re2.compile(r"\b[a-z]+_[a-z_0-9]+\b|\b[a-z]+[A-Z]\w+\b|\b[A-Z][a-z]+[A-Z]\w+\b")),
)


def items_of(entries: tuple[Entry, ...]) -> list[DigestItem]:
    """Return what is worth keeping of *entries*, each value once, with its newest message and its weight."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for entry in entries:
        for (category, value), uses in _items(entry).items():
            number, before = found.get((category, value), (0, 0))
            found[category, value] = (max(number, entry.number), before + uses)
    return [
        DigestItem(category=category, value=value, number=number, uses=uses)
        for (category, value), (number, uses) in found.items()
    ]


def merged(older: tuple[DigestItem, ...], newer: list[DigestItem]) -> list[DigestItem]:
    """Return both lists as one: equal values once, with the newest message and all uses."""
    found = {(item.category, item.value): item for item in older}
    for item in newer:
        known = found.pop((item.category, item.value), None)
        uses = item.uses + (known.uses if known else 0)
        found[item.category, item.value] = DigestItem(
            category=item.category, value=item.value, number=item.number, uses=uses
        )
    return list(found.values())


def score(item: DigestItem, newest: int) -> float:
    """Return how likely an item is to be used again: by its uses and kind, less the longer ago it was seen.

    A value halves in worth with every fourfold age in messages, never to nothing.
    """
    age = max(1, newest - item.number + 1)
    kind = _PRINTED.get(item.category, 1.0) if item.uses < SPOKEN else 1.0
    # square roots are rounded alike on every machine, powers are not
    return kind * math.sqrt(item.uses) / math.sqrt(age)


def within(text: str) -> Iterator[str]:
    """Yield the values that stand verbatim inside *text*: who reads it reads them too."""
    for _, pattern in _VALUES:
        for value in _matches(pattern, text, VALUES_PER_MESSAGE_MAX):
            yield value.rstrip(".,:;")
    steps = text.split("/")
    for at in range(1, len(steps)):
        yield "/".join(steps[:at])
        yield "/".join(steps[at:])
        yield "/" + "/".join(steps[at:])


def values_of(text: str) -> list[str]:
    """Return the different values in *text*, the rare ones first, then in the order in which they stand."""
    found: Counter[str] = Counter()
    for category, pattern in _VALUES:
        for value in _matches(pattern, text[:SCAN_CHARS_MAX], VALUES_PER_MESSAGE_MAX):
            value = value.rstrip(".,:;")
            if len(value) <= VALUE_CHARS_MAX and _telling(category, value):
                found[value] += 1
    return sorted(found, key=lambda value: found[value])


def _items(entry: Entry) -> Mapping[tuple[str, str], int]:
    message = shown_message(entry)
    text = messages_text(message)[:SCAN_CHARS_MAX]
    spoken = entry.role in ("user", "assistant")
    weight = SPOKEN if spoken else 1
    found: dict[tuple[str, str], int] = {}
    if entry.role == "user" and text.strip():
        found["request", _short(text)] = weight
    for name in entry.call_names:
        found["tool", name] = 1
    for category, pattern in _SENTENCES if spoken else ():
        # only the user gives rules: what the assistant "should" do is its own talk
        if category != "rule" or entry.role == "user":
            found |= {(category, _short(sentence)): weight for sentence in _matches(pattern, text, 8)}
    if entry.role == "tool":
        found |= {("error", _short(line)): weight for line in _matches(_ERROR, text, 8)}
    for category, pattern in _VALUES:
        for value in _matches(pattern, text, VALUES_PER_MESSAGE_MAX):
            value = value.rstrip(".,:;")
            if len(value) <= VALUE_CHARS_MAX and _telling(category, value):
                found[category, value] = weight
    return found


def messages_text(message: Mapping[str, Any]) -> str:
    """Return all that a model reads of *message*: its texts, and its calls with their arguments."""
    parsed = messages.parse(message)
    texts = [part.text for part in parsed.parts if part.kind in ("text", "arguments")]
    return "\n".join(texts)


def _matches(pattern: Any, text: str, most: int) -> Iterator[str]:
    for index, match in enumerate(pattern.finditer(text)):
        if index >= most:
            return
        yield match.group()


def _telling(category: str, value: str) -> bool:
    """Tell a real id from a word or a plain number that has its shape."""
    if category != "id" or "@" in value or "_" in value:
        return True
    return any(char.isdigit() for char in value) or (len(value) == _LOCATOR_CHARS and value.isupper())


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SENTENCE_CHARS_MAX else line[: SENTENCE_CHARS_MAX - 1] + "…"
