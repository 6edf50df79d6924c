"""Envelopes: what an agent says at once, within what one may hold and what its readers can take."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

from . import codec
from .errors import BadEnvelope, Rejected
from .facts import SaidMessage
from .limits import ENVELOPE_BYTES_MAX

T = TypeVar("T")


class Repeatable(Generic[T]):
    """What calls were not told the end of, so that the same call as the next one of its task is known for a repeat.

    Of a task that ended, it is any task's next call: some agents begin one for each call. Who says something else
    gives the repeat up, and may say the same later as something new.
    """

    def __init__(self) -> None:
        self._of: dict[asyncio.Task[object] | None, T] = {}

    def keep(self, what: T) -> None:
        """Remember what the calling task may repeat."""
        self._of[asyncio.current_task()] = what

    def taken(self) -> list[T]:
        """Return the items that the calling task may repeat, and forget them."""
        caller = asyncio.current_task()
        ours = [task for task in self._of if task is None or task is caller or task.done()]
        return [self._of.pop(task) for task in ours]

    def forget(self, what: T) -> None:
        """Forget *what*, whoever might repeat it."""
        self._of = {task: one for task, one in self._of.items() if one is not what}


def check_readable(said: codec.Said) -> None:
    """Raise `Rejected` where a value is not of its field's type, or too large for any."""
    try:
        codec.decode_said(codec.encode_said(said))
    except (OverflowError, TypeError, ValueError, BadEnvelope) as error:
        raise Rejected(f"a value cannot be sent: {error}"[:200]) from None


def batches_of(said: list[SaidMessage]) -> Iterator[tuple[SaidMessage, ...]]:
    """Group messages so that each envelope stays within its limit; order is kept."""
    batch: list[SaidMessage] = []
    size = 0
    for message in said:
        length = len(message.raw) + 64 + 96 * len(message.claims)
        if batch and size + length > ENVELOPE_BYTES_MAX:
            yield tuple(batch)
            batch, size = [], 0
        batch.append(message)
        size += length
    if batch:
        yield tuple(batch)
