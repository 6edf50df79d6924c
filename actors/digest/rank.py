"""Rank: which items a digest shows in the room it has: by worth per token, never by position."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from actors.core.extract import LINES, SENTENCE_CHARS_MAX, score, shortened
from actors.core.text.count import Count
from actors.core.text.preview import preview
from actors.core.text.values import within
from protocol.facts import DigestItem

from .needles import needles

TASK_SHARE = 0.25
"""Of the digest, for the newest request that is still open: word for word, before anything else."""

RULES_SHARE = 0.2
"""Of the digest, for what the user said must always hold, word for word, and for other open requests."""

LINES_SHARE = 0.08
"""Of the digest, for other sentences: one costs as much as ten values, and later steps use values
(on recorded runs a larger share kept fewer of the values that were used next)."""

_ASKED = frozenset(("rule", "request"))

Priced = tuple[DigestItem, int]


def chosen(
    found: Iterable[DigestItem], room: int, *, newest: int, most: Mapping[str, int], count: Count, told: float = 0.0
) -> list[DigestItem]:
    """Return the items that say most in *room* tokens, the most important first; *most* of a category."""
    found = list(found)
    task = max((item for item in found if item.category == "request"), key=lambda item: item.number, default=None)
    first: list[DigestItem] = []
    if task is not None and most.get("request") != 0:
        whole = preview(task.value, tokens_max=int(room * TASK_SHARE), count=count)
        first = [msgspec.structs.replace(task, value=whole)] if whole else []
        room -= count(whole) + 1
    asked = [item for item in found if item.category in ("request", "answered") and item is not task]
    plain = needles(asked, int(room * told), count=count) if told else []
    room -= sum(count(f" {item.value}") + 1 for item in plain)
    priced = _within_categories(_ranked((item for item in found if item is not task), newest, count), most)
    lines, room = _sentences(priced, room)
    there = {item.value for item in (*first, *lines)}
    return [*first, *lines, *(item for item in plain if item.value not in there), *_values(priced, room)]


def _ranked(items: Iterable[DigestItem], newest: int, count: Count) -> list[Priced]:
    """Return *items* with their tokens, those first that are worth most for them."""
    ranked = []
    for place, item in enumerate(map(_on_one_line, items)):
        # a value brings the space before it, a sentence its line end
        tokens = max(1, count(f" {item.value}") + (item.category in LINES))
        # tuples, since there are ten thousand: a key function takes twice as long
        ranked.append((-score(item, newest) / tokens, -item.number, item.category, item.value, place, item, tokens))
    ranked.sort()
    return [(one[5], one[6]) for one in ranked]


def _on_one_line(item: DigestItem) -> DigestItem:
    """Return an earlier or answered request as one line; the newest alone is shown in full."""
    if item.category not in ("request", "answered"):
        return item
    return msgspec.structs.replace(item, value=shortened(item.value, SENTENCE_CHARS_MAX))


def _within_categories(priced: list[Priced], most: Mapping[str, int]) -> list[Priced]:
    if not most:
        return priced
    left = dict(most)
    kept = []
    for one in priced:
        category = one[0].category
        if category in left:
            if not left[category]:
                continue
            left[category] -= 1
        kept.append(one)
    return kept


def _sentences(priced: list[Priced], room: int) -> tuple[list[DigestItem], int]:
    lines: list[DigestItem] = []
    rules = [one for one in priced if one[0].category in _ASKED]
    others = [one for one in priced if one[0].category in LINES - _ASKED]
    for sentences, left in ((rules, int(room * RULES_SHARE)), (others, int(room * LINES_SHARE))):
        for item, tokens in sentences:
            if tokens <= left:
                lines.append(item)
                left -= tokens
                room -= tokens
    return lines, room


def _values(priced: list[Priced], room: int) -> list[DigestItem]:
    # a value inside a sentence keeps a place of its own: the sentence may leave before it
    covered: set[str] = set()
    values: dict[str, Priced] = {}
    for item, tokens in priced:
        if item.category in LINES or item.value in covered or item.value in values or tokens > room:
            continue
        room -= tokens
        inside = within(item.value)
        shorter = [values.pop(value) for value in inside if value in values]
        if shorter:
            room += sum([freed for _, freed in shorter])
            item = _heir(item, [one for one, _ in shorter])
        values[item.value] = (item, tokens)
        covered.update(inside)
    return [item for item, _ in values.values()]


def _heir(item: DigestItem, inside: list[DigestItem]) -> DigestItem:
    """Return *item* with the best of what the values *inside* it had: it stands for them now."""
    number = max(one.number for one in (item, *inside))
    uses = max(one.uses for one in (item, *inside))
    return msgspec.structs.replace(item, number=number, uses=uses)
