"""Newest: a dict within a bound; what was put in first is forgotten first."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Newest(OrderedDict[Key, Value]):
    """At most *most* entries, in the order in which they were put in; one that is put in again is the newest.

    Not a plain dict: to find its first entry walks over all that were forgotten since it last grew.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
