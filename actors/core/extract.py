"""Extract: what is worth keeping of old messages, with where it came from and who said it.

Values stand verbatim; sentences are kept where they are what matters: what was asked, the rules of the user,
decisions, outcomes, errors. Secrets are replaced by handles before anything is looked for.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any

import msgspec
import re2

from protocol.facts import DigestItem, Trust
from protocol.formats import messages

from .entry import Entry
from .file_moves import FileNews, Move, file_news, gone, moves
from .message_texts import MessageText, redacted_texts, texts_of
from .text.patterns import encoded, found
from .text.phrases import telling
from .text.secrets import hide, secrets_in
from .text.values import KEYED, VALUE_CHARS_MAX, key_of, values, within

CATEGORIES: tuple[str, ...] = (
    "answered", "request", "rule", "decision", "error", "outcome", "moved", "secret", "tool", "path", "url", "email",
    "host", "id", "commit", "version", "date", "amount", "setting", "status", "symbol",
)  # fmt: skip
"""In the order in which a digest shows them."""

LINES = frozenset(("answered", "request", "rule", "decision", "error", "outcome", "moved"))
"""Categories whose values are sentences, one to a line."""

SCAN_CHARS_MAX = 200_000
"""Of one message; what is larger was spilled, and its preview is what the model knows."""

READ_KEPT = 1_024
"""Messages whose findings stay in memory: reading 8 KB takes two milliseconds, and a compaction asks twice for what a
window holds. Twice as many were never found more often (1 to 16 conversations by turns)."""

SENTENCE_CHARS_MAX = 240
RULE_CHARS_MAX = 1_000
REQUEST_CHARS_MAX = 8_000
"""Of what a user asked; the ledger holds it, the digest shows as much as it has room for."""

_SENTENCES_MAX = {"rule": 40}
_SENTENCES_MAX_ELSE = 8
"""Of one message: a user may give many rules at once."""

STRENGTHS_KEPT = 4_096
"""Of a category and a number of uses."""

SPOKEN = 64
"""Uses that a message of the user or the assistant counts for, against 1 for a tool's.

On recorded runs what somebody said is used again seven to eight times as often as what only a tool printed, and
the chance grows with the square root of the messages that had it; how often one message says it tells little.
"""

_PRINTED = {
    "setting": 0.125, "url": 0.5, "status": 0.5, "date": 0.125, "amount": 0.125, "version": 0.25, "host": 0.5,
}  # fmt: skip
"""Worth of what only a tool printed, against 1 for a path, an id or a symbol: few are ever used (same runs)."""

JOINED_CHARS = 16
"""Added to a value's length when its worth is weighed: the shortest values are seldom the ones that are used."""

_TRUSTED: Mapping[Trust, int] = {"tool": 0, "assistant": 1, "user": 2}

_ERROR = re2.compile(
    r"(?m)^.*(?:\b[A-Z]\w*(?:Error|Exception)\b|\b(?:ERROR|FATAL|CRITICAL|FAILED)\b"
    r"|(?i:\bpermission denied\b|\bnot found\b)).*$"
)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What some messages hold: items, each value once, and the files that they moved."""

    items: tuple[DigestItem, ...]
    moved: dict[str, Move]


class _Read(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What one message holds; most are asked for twice, when they stay behind a digest and when they leave."""

    items: tuple[DigestItem, ...]
    files: FileNews

    @cached_property
    def standing(self) -> frozenset[str]:
        """Return the values that stand in it, and those inside them."""
        values = [item.value for item in self.items if item.category not in LINES]
        return frozenset(chain(values, *map(within, values)))

    @cached_property
    def sentences(self) -> frozenset[str]:
        """Return the sentences that stand in it."""
        return frozenset([item.value for item in self.items if item.category in LINES])


def found_in(entries: tuple[Entry, ...]) -> Found:
    """Return the items worth keeping of *entries*, each value once, of its newest message, and the files that moved."""
    read = [_read(entry) for entry in entries]
    moved = moves([one.files for one in read])
    items: dict[tuple[str, str], DigestItem] = {}
    for one in read:
        for item in one.items:
            known = items.pop((item.category, item.value), None)
            items[item.category, item.value] = joined(known, item)
    for move in moved.values():
        value = f"{move.path} -> {move.now}" if move.now else f"{move.path} deleted"
        items["moved", value] = DigestItem(category="moved", value=value, number=move.number, key=f"moved {move.path}")
    return Found(items=tuple(item for item in items.values() if still_there(item, moved)), moved=moved)


def standing_in(entries: tuple[Entry, ...]) -> frozenset[str]:
    """Return the values that stand verbatim in *entries*, and those inside them; a file that went away is not there."""
    read = [_read(entry) for entry in entries]
    if moves([one.files for one in read]):
        values = [item.value for item in found_in(entries).items if item.category not in LINES]
        return frozenset(chain(values, *map(within, values)))
    return frozenset[str]().union(*(one.standing for one in read))


def values_in(entries: tuple[Entry, ...]) -> frozenset[str]:
    """Return the values that stand verbatim in *entries*, but not those inside them."""
    read = [_read(entry) for entry in entries]
    items = found_in(entries).items if moves([one.files for one in read]) else chain(*[one.items for one in read])
    return frozenset([item.value for item in items if item.category not in LINES])


def sentences_in(entries: Iterable[Entry]) -> frozenset[str]:
    """Return the sentences worth keeping that stand in *entries*."""
    return frozenset[str]().union(*(_read(entry).sentences for entry in entries))


def items_in(entry: Entry) -> tuple[DigestItem, ...]:
    """Return the items of one message, whatever others say of it."""
    return _read(entry).items


@lru_cache(maxsize=READ_KEPT)
def _read(entry: Entry) -> _Read:
    said = texts_of((entry,))
    return _Read(items=tuple(_items(entry, said, redacted_texts((entry,)))), files=file_news(said))


def still_there(item: DigestItem, moved: Mapping[str, Move]) -> bool:
    """Tell whether *item* is not the path of a file that went away after it was last seen."""
    if item.category != "path":
        return True
    move = gone(item.value, moved)
    return move is None or move.number < item.number


def joined(older: DigestItem | None, newer: DigestItem) -> DigestItem:
    """Return two findings of the same value as one: the newest message, all uses, the highest trust."""
    if older is None:
        return newer
    trust = most_trusted(older.trust, newer.trust)
    number = max(older.number, newer.number)
    # said with different values at once it is nobody's value
    key = newer.key if newer.number >= older.number else older.key
    return msgspec.structs.replace(newer, number=number, uses=older.uses + newer.uses, trust=trust, key=key)


def most_trusted(one: Trust, other: Trust) -> Trust:
    """Return the higher of two trusts."""
    return one if _TRUSTED[one] >= _TRUSTED[other] else other


def outranks(newer: DigestItem, older: DigestItem) -> bool:
    """Tell whether who said *newer* may take back what *older* says."""
    return _TRUSTED[newer.trust] >= _TRUSTED[older.trust]


ItemKind = tuple[float, int]
"""Strength and number of an item: all that its weight depends on."""


def kind_of(item: DigestItem) -> ItemKind:
    """Return the strength of an item, which grows with its uses and by its kind, and its number."""
    return _strength(item.category, item.uses), item.number


def score(item: DigestItem, newest: int) -> float:
    """Return the weight of an item: its strength, which shrinks the longer ago it was seen.

    A value halves in worth with every fourfold age in messages, never to nothing.
    """
    return _strength(item.category, item.uses) / _age(item.number, newest)


@lru_cache(maxsize=STRENGTHS_KEPT)
def _strength(category: str, uses: int) -> float:
    # square roots are rounded alike on every machine, powers are not
    return (_PRINTED.get(category, 1.0) if uses < SPOKEN else 1.0) * math.sqrt(uses)


def _age(number: int, newest: int) -> float:
    return math.sqrt(newest - number + 1 if number < newest else 1)


def best_first(kinds: Iterable[ItemKind], newest: int) -> Iterator[ItemKind]:
    """Yield *kinds* by their weight, of the same weight the newer first."""
    return (kind for _, _, kind in heapq.merge(*_weighed(kinds, newest, sign=-1)))


def worst_first(kinds: Iterable[ItemKind], newest: int) -> Iterator[ItemKind]:
    """Yield *kinds* in the other order than `best_first`."""
    return (kind for _, _, kind in heapq.merge(*_weighed(kinds, newest, sign=1)))


def _weighed(kinds: Iterable[ItemKind], newest: int, *, sign: int) -> list[Iterator[tuple[float, int, ItemKind]]]:
    """Return *kinds* with their weights and numbers, both times *sign*, in rising order for each strength.

    Of one strength the newer weighs more: only what comes next of each, a few dozen, has to be weighed.
    """
    numbers: dict[float, list[int]] = {}
    for strength, number in kinds:
        numbers.setdefault(strength, []).append(number)

    def rising(strength: float) -> Iterator[tuple[float, int, ItemKind]]:
        for number in sorted(numbers[strength], reverse=sign < 0):
            yield sign * strength / _age(number, newest), sign * number, (strength, number)

    return [rising(strength) for strength in numbers]


def ranked(items: Iterable[DigestItem], newest: int, *, most: int | None = None) -> list[DigestItem]:
    """Return *items*, those of the highest weight first, and of the same weight the newer; the first *most* of them."""
    # thousands, of a few hundred kinds
    alike: dict[ItemKind, list[DigestItem]] = {}
    for item in items:
        alike.setdefault(kind_of(item), []).append(item)
    out: list[DigestItem] = []
    for kind in best_first(alike, newest):
        if most is not None and len(out) >= most:
            break
        out += sorted(alike[kind], key=alike_order)
    return out[:most]


def alike_order(item: DigestItem) -> tuple[str, str]:
    """Return by what items of the same weight are ordered."""
    return item.category, item.value


def values_of(text: str) -> list[str]:
    """Return the different values in *text* but for secrets, those first that are worth most for their length."""
    data = encoded(text[:SCAN_CHARS_MAX])
    hidden = hide(data, 0)
    kinds: dict[str, str] = {}
    counted: Counter[str] = Counter()
    for category, value in values(hidden[1] if hidden else data):
        kinds.setdefault(value, category)
        counted[value] += 1
    # as `score` does, without an age; a value costs about its characters and what joins it to the next
    worth = {
        value: _PRINTED.get(kinds[value], 1.0) * math.sqrt(times) / (len(value) + JOINED_CHARS)
        for value, times in counted.items()
    }
    return sorted(worth, key=lambda value: -worth[value])


def messages_text(message: Mapping[str, Any]) -> str:
    """Return all that a model reads of *message*: its texts, and its calls with their arguments."""
    return "\n".join(part.text for part in messages.parse(message).parts if part.kind in ("text", "arguments"))


def shortened(text: str, most: int) -> str:
    """Return *text* on one line, at most *most* characters of it."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _items(entry: Entry, parts: list[MessageText], redacted: list[MessageText]) -> Iterator[DigestItem]:
    """Yield the items of one message: each value once, with the highest trust of those who said it in there.

    *redacted* are the *parts* without secrets: the very same where there is none.
    """
    items: dict[tuple[str, str], DigestItem] = {}
    left = SCAN_CHARS_MAX
    request = False
    for part, safe in zip(parts, redacted, strict=True):
        data = encoded(part.text[:left])
        clean = safe is part and not part.open and len(part.text) <= left
        left -= min(left, len(part.text))
        hidden = None if clean else hide(data, part.number)
        named, bare, handles = (data, data, []) if hidden is None or part.open else hidden
        uses = 1 if part.trust == "tool" else SPOKEN
        asked = part.trust == "user" and not part.instructs and not request
        sentences = list(_sentences(named, part))
        if asked and named.strip():
            request = True
            sentences.append(("request", named.decode("utf-8", "replace").strip()[:REQUEST_CHARS_MAX]))
        found_values = [(category, value, key) for (category, value), key in _keyed(bare, part).items()]
        secrets = [("secret", handle, " ".join(handle.split()[:2])) for handle in handles]
        secrets += [("setting", one, "") for one in secrets_in(data)] if hidden and part.open else []
        for category, value, key in (*((*one, "") for one in sentences), *secrets, *found_values):
            known = items.get((category, value))
            trust = part.trust if known is None else most_trusted(known.trust, part.trust)
            items[category, value] = DigestItem(
                category=category, value=value, number=part.number, trust=trust, key=key,
                uses=uses if known is None else max(known.uses, uses),
            )  # fmt: skip
    for name in (name for name in entry.call_names if len(name) <= VALUE_CHARS_MAX):
        items["tool", name] = DigestItem(category="tool", value=name, number=entry.number, trust="assistant")
    yield from items.values()


def _keyed(data: bytes, part: MessageText) -> dict[tuple[str, str], str]:
    """Return the values in *data* with what they are values of."""
    found_values = dict.fromkeys(values(data), "")
    if part.tool:
        # what stands in a call's arguments is a parameter of that call, and of nothing else
        return found_values
    keys = {one: key_of(*one, printed=part.trust == "tool") for one in found_values if one[0] in KEYED}
    often = Counter(keys.values())
    # of what has two values at once, neither takes the place of another
    return found_values | {one: key for one, key in keys.items() if often[key] == 1}


def _sentences(data: bytes, part: MessageText) -> Iterator[tuple[str, str]]:
    """Yield the sentences worth keeping of a part; tools print words, they do not say them."""
    if part.trust == "tool":
        for line in found(_ERROR, data, most=_SENTENCES_MAX_ELSE):
            yield "error", shortened(line, SENTENCE_CHARS_MAX)
        return
    taken: Counter[str] = Counter()
    for kind, sentence in telling(data):
        # only the user gives rules: what the assistant "should" do is its own talk
        if kind == "rule" and part.trust != "user":
            continue
        taken[kind] += 1
        if taken[kind] <= _SENTENCES_MAX.get(kind, _SENTENCES_MAX_ELSE):
            yield kind, shortened(sentence, RULE_CHARS_MAX if kind == "rule" else SENTENCE_CHARS_MAX)
