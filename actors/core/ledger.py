"""Ledger: what must outlive every summary, kept outside of it; bounded, and ranked by use and recency.

Each compaction reads the ledger and what leaves now, never older messages again, and records what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from heapq import heapify, heappop, heapreplace

import msgspec

from protocol.facts import DigestItem

from .entry import Entry
from .extract import LINES, ItemKind, alike_order, found_in, joined, outranks, still_there, weight_of
from .file_moves import Move
from .packed_items import READ_KEPT, read_items, write_items
from .state import State
from .text.recent import Recent
from .units import answered_through

LEDGER_ITEMS_MAX = 2_000
LEDGER_CHARS_MAX = 100_000
"""A snapshot with a full ledger still fits a message of the log's server."""

Ledger = tuple[DigestItem, ...]


class _Weighed:
    """Items by their places and by their kinds, so that what changes is sorted in, and not all of them anew."""

    def __init__(self, items: Iterable[DigestItem]) -> None:
        self.items = {(item.category, item.value): item for item in items}
        self._chars = sum([len(item.value) for item in self.items.values()])
        self._kinds: dict[ItemKind, dict[int, dict[str, DigestItem]]] = {}
        """By kind, number and value: of one kind, the oldest weighs least."""
        for item in self.items.values():
            self._join(item)

    def change(self, changes: Iterable[DigestItem]) -> None:
        """Put the newer in place of the older."""
        for item in changes:
            known = self.items.get((item.category, item.value))
            if known is not None:
                self._leave(known)
            if not item.gone:
                self.items[item.category, item.value] = item
                self._chars += len(item.value)
                self._join(item)

    def bound(self) -> None:
        """Drop the least worthy over the bound."""
        places, chars = len(self.items), self._chars
        if places <= LEDGER_ITEMS_MAX and chars <= LEDGER_CHARS_MAX:
            return
        over: list[list[DigestItem]] = []
        for group in self._least_worthy():
            if places <= LEDGER_ITEMS_MAX and chars <= LEDGER_CHARS_MAX:
                break
            places -= len(group)
            chars -= sum([len(item.value) for item in group])
            over.append(group)
        places, chars = LEDGER_ITEMS_MAX - places, LEDGER_CHARS_MAX - chars
        for group in reversed(over):
            for place, item in enumerate(sorted(group, key=alike_order)):
                if place < places and len(item.value) <= chars:
                    chars -= len(item.value)
                else:
                    self._leave(item)
            places -= len(group)

    def _least_worthy(self) -> Iterator[list[DigestItem]]:
        """Yield the items in groups of the same weight and number, the least worthy first, of them the oldest."""
        newest = max([max(numbers) for numbers in self._kinds.values()])
        firsts = [(min(numbers), kind) for kind, numbers in self._kinds.items()]
        heap = [(weight_of(kind, first, newest), first, kind) for first, kind in firsts]
        heapify(heap)
        left: dict[ItemKind, list[int]] = {}
        while heap:
            alike = heap[0][:2]
            group: list[DigestItem] = []
            while heap and heap[0][:2] == alike:
                _, number, kind = heap[0]
                group += self._kinds[kind][number].values()
                if kind not in left:
                    left[kind] = sorted(self._kinds[kind], reverse=True)[:-1]
                if left[kind]:
                    first = left[kind].pop()
                    heapreplace(heap, (weight_of(kind, first, newest), first, kind))
                else:
                    heappop(heap)
            yield group

    def _join(self, item: DigestItem) -> None:
        self._kinds.setdefault((item.category, item.uses), {}).setdefault(item.number, {})[item.value] = item

    def _leave(self, item: DigestItem) -> None:
        del self.items[item.category, item.value]
        self._chars -= len(item.value)
        numbers = self._kinds[item.category, item.uses]
        del numbers[item.number][item.value]
        if not numbers[item.number]:
            del numbers[item.number]
            if not numbers:
                del self._kinds[item.category, item.uses]


_weighed: Recent[bytes, _Weighed] = Recent(READ_KEPT)
"""By the ledger that they are; who changes one takes it out."""


def remembered(raw: bytes, changes: Ledger) -> bytes:
    """Return the ledger *raw* after *changes*, the newer in place of the older; over the bound the least worthy go."""
    weighed = _weighed.taken(raw) or _Weighed(read_items(raw))
    weighed.change(changes)
    weighed.bound()
    raw = write_items(weighed.items.values())
    _weighed.put(raw, weighed)
    return raw


def bounded(items: Iterable[DigestItem]) -> Ledger:
    """Return *items*, no two of the same value, in their order, without the least worthy over the bound."""
    weighed = _Weighed(items)
    weighed.bound()
    return tuple(weighed.items.values())


def settled(known: Iterable[DigestItem], found: Iterable[DigestItem], moved: Mapping[str, Move]) -> Ledger:
    """Return *known* and *found* as one: equal values once, without what is superseded or went away since."""
    items = merged((*known, *found))
    newest: dict[tuple[str, str], DigestItem] = {}
    for item in items:
        if item.key:
            best = newest.get((item.category, item.key))
            if best is None or (item.number, item.value) > (best.number, best.value):
                newest[item.category, item.key] = item
    return tuple(
        [
            item
            for item in items
            if (item.category != "path" or still_there(item, moved))
            and not (item.key and _superseded(item, newest[item.category, item.key]))
        ]
    )


def merged(items: Iterable[DigestItem]) -> Ledger:
    """Return *items* with equal values once, each in the place of its last."""
    out: dict[tuple[str, str], DigestItem] = {}
    for item in items:
        place = (item.category, item.value)
        # most stand once
        out[place] = joined(out.pop(place), item) if place in out else item
    return tuple(out.values())


def changes(ledger: Ledger, now: Ledger) -> Ledger:
    """Return the changes from *ledger* to what is kept of *now*: new, changed and removed entries."""
    # most are the very same
    same = frozenset(map(id, ledger)).intersection(map(id, now))
    before = {(item.category, item.value): item for item in ledger if id(item) not in same}
    there = {(item.category, item.value) for item in now if id(item) not in same}
    new = [item for item in bounded(now) if id(item) not in same and before.get((item.category, item.value)) != item]
    left = [
        DigestItem(category=item.category, value=item.value, number=item.number, uses=item.uses, gone=True)
        for place, item in before.items()
        if place not in there
    ]
    return (*left, *new)


def known_after(state: State, leaving: tuple[Entry, ...]) -> Ledger:
    """Return all that is known after *leaving* left: the ledger, what the digest shows, and what is new."""
    assert state.policy is not None
    shown = state.digest.items if state.digest else ()
    # an account shows no items
    there = {(item.category, item.value) for item in state.ledger} if shown else set[tuple[str, str]]()
    # a sentence in the digest may be shortened, in the ledger it is whole
    more = (item for item in shown if item.category not in LINES and (item.category, item.value) not in there)
    found = found_in(leaving)
    known = settled((*state.ledger, *more), found.items, found.moved)
    answered = answered_through(state.live)
    if all(item.category != "request" or item.number >= answered for item in known):
        return known
    before = {item.value for item in known if item.category == "answered"}
    now = tuple([_told_apart(item, answered) for item in known])
    if before.isdisjoint([item.value for item in known if item.category == "request" and item.number < answered]):
        return now
    # a request that was made before, and answered, becomes one with its earlier self
    return merged(now)


def _told_apart(item: DigestItem, answered: int) -> DigestItem:
    """Return a request as answered if an answer to it was followed by the next request."""
    if item.category == "request" and item.number < answered:
        return msgspec.structs.replace(item, category="answered")
    return item


def _superseded(item: DigestItem, newest: DigestItem) -> bool:
    """Tell whether a newer value of the same key takes the place of *item*."""
    return newest.number > item.number and outranks(newest, item)
