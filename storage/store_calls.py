"""Store calls: those of one store, made by few threads; who waits for a thread waits while the store answers others.

How long a store may say nothing counts from the turn of a call on. Counted from when it was asked for, a store that is
slow looks like one that is down as soon as many ask at once: each of them waits for all before it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from .daemon_threads import DaemonThreads

T = TypeVar("T")


class Silent(TimeoutError):
    """The store has said nothing for so many *seconds*: to this call or, before its turn, to any."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer in {seconds:.1f} s")
        self.seconds = seconds


class StoreCalls:
    """At most *most* calls at once, in the order in which they are asked for; *refusals* are answers as well."""

    def __init__(self, most: int, *, name: str, refusals: Callable[[], type[Exception]]) -> None:
        self._threads = DaemonThreads(most, name=name)
        self._refusals = refusals
        self._answered = 0.0
        """When the store last said something."""

    async def take(self, call: Callable[[], T], *, seconds: float) -> T:
        """Return the result of *call*, which may take *seconds* from its turn on. Raises `Silent`, and what it raises.

        Its turn comes: with each answer those before it are fewer, and without one for *seconds* it is over.
        """
        asked, turn = time.monotonic(), 0.0

        def called() -> T:
            nonlocal turn
            turn = time.monotonic()
            return self._heard(call)

        given = self._threads.submit(called)
        made = asyncio.wrap_future(given)
        try:
            while not made.done():
                silent = time.monotonic() - (turn or max(asked, self._answered))
                if silent >= seconds:
                    raise Silent(silent)
                await asyncio.wait({made}, timeout=seconds - silent)
            return made.result()
        finally:
            given.cancel()  # at once, and not when the loop comes to it: a thread may be free before
            made.cancel()

    def close(self) -> None:
        """Let the threads end after what they do."""
        self._threads.shutdown()

    def _heard(self, call: Callable[[], T]) -> T:
        """Return what *call* returns, and remember when the store answered."""
        try:
            result = call()
        except Exception as error:
            if isinstance(error, self._refusals()):
                self._answered = time.monotonic()
            raise
        self._answered = time.monotonic()
        return result
