"""Bound reasoning: Anthropic refuses a thinking block behind anything else than what its call saw.

A call saw the view that was served for it, and what was said since. A view that begins with those bytes shows its
reasoning; in any other it is left out, as a whole.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

NEVER = "never"
"""In a hash's place: what the call saw is in no view any more."""

_LOOSE = re.compile(r"claude-(?:[a-z]+-)?[1-4](?:[-.@]|$)|claude-(?:instant|v[12])", re.ASCII)
"""Models whose reasoning holds anywhere; some of them refuse their calls of tools without it."""


def binds(model: str) -> bool:
    """Tell whether *model* binds its reasoning to what stands before it; one that is not known may."""
    return _LOOSE.search(model.lower()) is None


class Prefixes:
    """The hashes of the arrays that a request begins with: after its system, and after each of its messages."""

    def __init__(self, system: Iterable[bytes]) -> None:
        first = b",".join(system)
        self._led = bool(first)
        self._hashed = [hashlib.sha256(b"[" + first)]
        self._hashes = [_ended(self._hashed[0])]

    def __len__(self) -> int:
        """Return the number of messages that are hashed."""
        return len(self._hashed) - 1

    def has(self, view_hash: str, new: Iterable[bytes]) -> bool:
        """Tell whether one of the arrays has *view_hash*, with those that end with one of the *new* messages."""
        for raw in new:
            hashed = self._hashed[-1].copy()
            hashed.update((b"," if len(self) or self._led else b"") + raw)
            self._hashed.append(hashed)
            self._hashes.append(_ended(hashed))
        return view_hash == "" or view_hash in self._hashes

    def back_to(self, messages: int) -> None:
        """Forget the hashes of all messages behind the first *messages*: the next one has changed."""
        del self._hashed[messages + 1 :], self._hashes[messages + 1 :]


def _ended(hashed: hashlib._Hash) -> str:
    whole = hashed.copy()
    whole.update(b"]")
    return whole.hexdigest()
