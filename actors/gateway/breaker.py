"""Breaker: while what the gateway needs is away, no request waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

FAILURES_MAX = 2
"""In a row, of whatever conversations: one may be slow by itself."""

PAUSE_SECONDS = 30.0


@dataclass(kw_only=True)
class Breaker:
    """Closed while all is well; open for a pause after failures in a row, and then one request tries again."""

    clock: Callable[[], float] = time.monotonic
    _failures: int = 0
    _until: float = 0.0

    def lets_through(self) -> bool:
        """Tell whether a request may try; after a pause it is one, and the next pause runs until that one worked."""
        if self._failures < FAILURES_MAX:
            return True
        now = self.clock()
        if now < self._until:
            return False
        self._until = now + PAUSE_SECONDS
        return True

    def worked(self) -> None:
        """Say that a request was managed."""
        self._failures = 0

    def failed(self) -> None:
        """Say that something was away."""
        self._failures += 1
        self._until = self.clock() + PAUSE_SECONDS
