"""Foreseen: a question for a view that goes out together with what is said before it, and not after its confirmation.

The service waits for what is coming, so a round trip is saved. Whatever goes wrong, the question is asked again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import msgspec

from .context import Written, has_all, written_of
from .errors import JettisonError
from .service_messages import Answer, ContextAsked, SaidAt

Asking = Callable[[ContextAsked], Coroutine[Any, Any, tuple[Answer, bytes]]]


@dataclass(kw_only=True)
class Foreseen:
    """One question, asked at most once; it is for the view that comes *after* one that its asker has."""

    asking: Asking
    asked: ContextAsked
    after: Written
    _answer: asyncio.Task[tuple[Answer, bytes]] | None = None
    _ends: float = 0.0
    _is_given_up: bool = False

    def begin(self, coming: SaidAt) -> None:
        """Ask for a view with what is *coming*, whose place in the log nobody knows yet."""
        if self._is_given_up:
            return
        self._ends = time.monotonic() + self.asked.wait_seconds
        asked = msgspec.structs.replace(self.asked, have=has_all(self.after), coming=coming)
        self._answer = asyncio.ensure_future(self.asking(asked))
        # where what was coming did not arrive, nobody wants the answer
        self._answer.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def give_up(self) -> None:
        """Want no answer any more."""
        self._is_given_up = True
        if self._answer is not None:
            self._answer.cancel()

    async def written(self) -> Written | None:
        """Return the view; None where it was not asked for, or has to be asked for again. Raises as `context`."""
        answering, self._answer = self._answer, None
        if answering is None:
            return None
        try:
            answer, body = await answering
        except JettisonError:
            if time.monotonic() >= self._ends:
                raise
            return None
        assert answer.context is not None
        return written_of(answer.context, body, self.after)
