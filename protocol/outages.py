"""Outages: a line in the log when a service is away, one a minute while it is, and one when it is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

EVERY_SECONDS = 60.0

FORGOTTEN_AFTER_SECONDS = 90.0
"""Who failed and was not heard of since has found help elsewhere: pauses are shorter."""


class Outage:
    """One thing that is waited for: however many wait and however often they try, the lines that it *tells* are few."""

    def __init__(self, tell: Callable[[str], None], what: str) -> None:
        self._tell = tell
        self._what = what
        self._waiting: dict[Hashable, float] = {}
        self._began = 0.0
        self._told = -EVERY_SECONDS
        self._is_told = False
        self._tries = 0

    def failed(self, reason: str, *, who: Hashable = "") -> None:
        """Take note of a try that failed, and log it where it is the first, or the first for a minute."""
        now = time.monotonic()
        if not self._waiting:
            self._began, self._tries = now, 0
        self._waiting[who] = now
        self._tries += 1
        # one that begins again within the minute was not over
        if now - self._told < EVERY_SECONDS:
            return
        if self._tries == 1:
            self._tell(f"{self._what}: {reason}")
        else:
            self._tell(f"{self._what}: still, for {now - self._began:.0f} s, after {self._tries} tries: {reason}")
        self._told, self._is_told = now, True

    def succeeded(self, *, who: Hashable = "") -> None:
        """Take note that *who* waits no more; the last one ends it."""
        if not self._waiting:
            return
        now = time.monotonic()
        self._waiting.pop(who, None)
        for gone in [one for one, at in self._waiting.items() if now - at > FORGOTTEN_AFTER_SECONDS]:
            del self._waiting[gone]
        if not self._waiting and self._is_told:
            self._is_told = False
            tries = "1 try" if self._tries == 1 else f"{self._tries} tries"
            self._tell(f"{self._what}: well again after {now - self._began:.0f} s and {tries}, work goes on")
