"""Ledger: what must outlive every summary, kept outside of it; bounded, and ranked by use and recency.

Each compaction reads the ledger and what leaves now, never older messages again, and records what changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from protocol.facts import DigestItem

from .entry import Entry
from .extract import LINES, ItemKind, alike_order, found_in, joined, kind_of, outranks, still_there, worst_first
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
        self._chars = _chars(self.items.values())
        self._kinds: dict[ItemKind, dict[tuple[str, str], DigestItem]] = {}
        """Items of one weight, by their places: thousands are of a few hundred kinds, and those are weighed."""
        for place, item in self.items.items():
            self._kinds.setdefault(kind_of(item), {})[place] = item

    def copy(self) -> _Weighed:
        """Return the same items, to be changed apart: in a tenth of the time that sorting them anew takes."""
        other = _Weighed(())
        other.items, other._chars = self.items.copy(), self._chars
        other._kinds = {kind: alike.copy() for kind, alike in self._kinds.items()}
        return other

    def change(self, changes: Iterable[DigestItem]) -> None:
        """Put the newer in place of the older."""
        for item in changes:
            place = item.category, item.value
            known = self.items.get(place)
            if known is not None:
                self._leave(place, known)
            if not item.gone:
                self.items[place] = item
                self._chars += len(item.value)
                self._kinds.setdefault(kind_of(item), {})[place] = item

    def bound(self) -> None:
        """Drop the least worthy over the bound."""
        places, chars = len(self.items), self._chars
        if places <= LEDGER_ITEMS_MAX and chars <= LEDGER_CHARS_MAX:
            return
        worst = worst_first(self._kinds, max([number for _, number in self._kinds]))
        over: list[ItemKind] = []
        while places > LEDGER_ITEMS_MAX or chars > LEDGER_CHARS_MAX:
            # all that weigh more stay, and nobody asks in which order: most kinds
            kind = next(worst)
            places -= len(self._kinds[kind])
            chars -= _chars(self._kinds[kind].values())
            over.append(kind)
        places, chars = LEDGER_ITEMS_MAX - places, LEDGER_CHARS_MAX - chars
        for kind in reversed(over):
            group = list(self._kinds[kind].values())
            room, places = places, places - len(group)
            if room <= 0 or min([len(item.value) for item in group]) > chars:
                # none is kept, whichever comes first: most of those that are new
                self._leave_all(kind)
                continue
            for place, item in enumerate(sorted(group, key=alike_order)):
                if place < room and len(item.value) <= chars:
                    chars -= len(item.value)
                else:
                    self._leave((item.category, item.value), item)

    def _leave_all(self, kind: ItemKind) -> None:
        alike = self._kinds.pop(kind)
        self._chars -= _chars(alike.values())
        for place in alike:
            del self.items[place]

    def _leave(self, place: tuple[str, str], item: DigestItem) -> None:
        del self.items[place]
        self._chars -= len(item.value)
        kind = kind_of(item)
        alike = self._kinds[kind]
        del alike[place]
        if not alike:
            del self._kinds[kind]


def _chars(items: Iterable[DigestItem]) -> int:
    return sum([len(item.value) for item in items])


_weighed: Recent[bytes, _Weighed] = Recent(READ_KEPT)
"""By the ledger that they are; who changes one takes it out."""


def _copied(raw: bytes) -> _Weighed:
    """Return the ledger *raw* to be changed apart: the fold changes the one that is kept."""
    weighed = _weighed.taken(raw) or _Weighed(read_items(raw))
    other = weighed.copy()
    _weighed.put(raw, weighed)
    return other


def remembered(raw: bytes, changes: Ledger) -> bytes:
    """Return the ledger *raw* after *changes*, the newer in place of the older; over the bound the least worthy go."""
    weighed = _weighed.taken(raw) or _Weighed(read_items(raw))
    weighed.change(changes)
    weighed.bound()
    raw = write_items(weighed.items.values())
    _weighed.put(raw, weighed)
    return raw


def settled(known: Iterable[DigestItem], found: Iterable[DigestItem], moved: Mapping[str, Move]) -> Ledger:
    """Return *known* and *found* as one: equal values once, without what is superseded or went away since."""
    items = merged(known, found)
    keyed = [item for item in items if item.key]
    newest: dict[tuple[str, str], DigestItem] = {}
    for item in keyed:
        best = newest.get((item.category, item.key))
        if best is None or (item.number, item.value) > (best.number, best.value):
            newest[item.category, item.key] = item
    old = {id(item) for item in keyed if _superseded(item, newest[item.category, item.key])}
    if not old and not moved:
        return items
    return tuple([item for item in items if id(item) not in old and still_there(item, moved)])


def merged(known: Iterable[DigestItem], found: Iterable[DigestItem] = ()) -> Ledger:
    """Return *known* and *found* with equal values once, each in the place of its last."""
    known = tuple(known)
    out = {(item.category, item.value): item for item in known}
    if len(out) < len(known):
        return merged((), (*known, *found))
    for item in found:
        place = (item.category, item.value)
        # most stand once
        out[place] = joined(out.pop(place), item) if place in out else item
    return tuple(out.values())


def changes(raw: bytes, now: Ledger) -> Ledger:
    """Return the changes from the ledger *raw* to what is kept of *now*: new, changed and removed entries."""
    ledger = read_items(raw)
    # most are the very same
    same = frozenset(map(id, ledger)).intersection(map(id, now))
    before = {(item.category, item.value): item for item in ledger if id(item) not in same}
    there = {(item.category, item.value): item for item in now if id(item) not in same}
    left = [
        DigestItem(category=item.category, value=item.value, number=item.number, uses=item.uses, gone=True)
        for place, item in before.items()
        if place not in there
    ]
    weighed = _copied(raw)
    weighed.change((*left, *there.values()))
    weighed.bound()
    new = [item for place, item in there.items() if place in weighed.items and before.get(place) != item]
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
    requests = [item.value for item in known if item.category == "request" and item.number < answered]
    if not requests:
        return known
    before = {item.value for item in known if item.category == "answered"}
    now = tuple([_told_apart(item, answered) for item in known])
    if before.isdisjoint(requests):
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
