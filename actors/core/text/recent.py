"""Recent: what was found out last, within a bound; the same text is asked about by several rules, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """What came newest, up to a weight of *most*, and as much before that.

    A plain dict forgets all at once; one that forgets in order takes three times the memory. Rules run in threads,
    several at a time: each step here is one of a dict's own, and what two of them weigh wrong is forgotten sooner.
    """

    def __init__(self, most: int, *, weigh: Callable[[Value], int] | None = None) -> None:
        self._most = most
        self._weigh = weigh
        self._weight = 0
        self._newest: dict[Key, Value] = {}
        self._before: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._newest) + len(self._before)

    def get(self, key: Key) -> Value | None:
        """Return the value of *key*, if it is still known."""
        known = self._newest.get(key)
        if known is None:
            known = self._before.get(key)
            if known is not None:
                self.put(key, known)
        return known

    def taken(self, key: Key) -> Value | None:
        """Return the value of *key*, if it is still known, and forget it: of several who ask, one gets it."""
        return self._newest.pop(key, None) or self._before.pop(key, None)

    def found(self, key: Key, find: Callable[[Key], Value]) -> Value:
        """Return the value of *key*, found now by *find* where it is not known."""
        known = self.get(key)
        if known is None:
            known = find(key)
            self.put(key, known)
        return known

    def put(self, key: Key, value: Value) -> None:
        """Remember *value* for *key*; what weighs more than all may is not kept."""
        weight = self._weigh(value) if self._weigh else 1
        if weight > self._most:
            return
        self._weight += weight
        if self._weight > self._most:
            self._before, self._newest, self._weight = self._newest, {}, weight
        self._newest[key] = value
