"""Running hash: the hash of a JSON array that mostly grows at its end; only what is new is hashed."""

from __future__ import annotations

import hashlib


class RunningHash:
    """The SHA-256 of one array after another, each mostly the one before with more behind it.

    The first message of a view keeps it: it is forgotten with the conversation, and begun anew when the view changes.
    """

    def __init__(self) -> None:
        self._last: tuple[tuple[bytes, ...], hashlib._Hash] = ((), hashlib.sha256(b"["))
        self._told: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
        """The last two that differ."""

    def of(self, items: tuple[bytes, ...]) -> str:
        """Return the SHA-256 of *items*, each JSON, as one JSON array; hex."""
        begun, hashed = self._last
        if items[: len(begun)] != begun:
            begun, hashed = (), hashlib.sha256(b"[")
        new = items[len(begun) :]
        hashed = hashed.copy()
        hashed.update(b",".join((b"", *new) if begun else new))
        # both at once: another thread may hash another view of the conversation
        self._last = (items, hashed)
        whole = hashed.copy()
        whole.update(b"]")
        told = whole.hexdigest()
        if not self._told or self._told[-1][0] != told:
            self._told = (*self._told[-1:], (told, items))
        return told

    def begins(self, items: tuple[bytes, ...], told: str) -> int:
        """Return how many of *items* are all those of the array with the hash *told*; 0 if that is not remembered."""
        known = next((known for one, known in self._told if one == told), ())
        return len(known) if items[: len(known)] == known else 0
