"""What storage promises to who erases, archives and repairs: that what goes is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from protocol.ids import Address

AT_ONCE = 16


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """How much there was of what is kept beside a log and its snapshots."""

    wakes: int = 0
    """Filled slots, and work in progress."""
    dead_letters: int = 0
    gateway: int = 0
    """Documents in which gateways knew of the conversation."""
    keys: int = 0


class Erasure(Protocol):
    """Records and all that is kept beside them, overwritten where they are stored.

    All raise `LogUnavailable`, after which some are left and the same may be asked again, and `NotProvisioned` where
    the store was made so that it forbids it.
    """

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Return a context in which no actor is given work; others may pause meanwhile. Raises `Rejected` too."""
        ...

    async def remove(self, at: Address, seqs: Sequence[int], *, at_once: int = AT_ONCE) -> None:
        """Overwrite the records of *at* at *seqs*, so many *at_once*; harmless where there is none.

        With one at a time what is left never has a hole, also where one fails.
        """
        ...

    async def clear(self, at: Address, *, keep: int = 0) -> int:
        """Overwrite all records of *at* but the one at *keep*, the newest first; return how many there were."""
        ...

    async def forget(self, at: Address) -> Forgotten:
        """Overwrite what is kept of *at* beside its log and its snapshots (`Snapshots.forget`), the key last.

        No other key is made then. Raises `Contended`.
        """
        ...

    async def counts(self) -> Counter[Address]:
        """Return how many records each conversation has."""
        ...

    async def now_ms(self) -> int:
        """Return the store's clock, by which records have their times, in milliseconds since 1970."""
        ...
