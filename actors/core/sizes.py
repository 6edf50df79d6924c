"""Sizes: what messages cost in tokens, recorded with the first view that shows them.

Counting is half of folding. Who folds a log later takes what is recorded; who folds a message before its view is served
counts it, and so does `replay`, which holds the record against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from zlib import crc32

from protocol.facts import MessageSize

from .state import State
from .state_parts import Arrived

MESSAGES_MAX = 500
PARTS_MAX = 20
"""Of a message. What is over is counted by each who folds it: a commit beside a view stays small."""

Sizes = Mapping[int, MessageSize]
"""By the number of the message."""

NO_SIZES: Sizes = {}


def sizes_of(state: State) -> tuple[MessageSize, ...]:
    """Return the sizes of the messages that came since the last view was served, the newest first."""
    served = state.calibration.upto
    newer = (*(one.entry for one in reversed(state.waiting) if isinstance(one, Arrived)), *reversed(state.live))
    found = [entry for entry in takewhile(lambda one: one.number > served, newer) if len(entry.parts) <= PARTS_MAX]
    return tuple(
        MessageSize(
            number=entry.number,
            check=crc32(entry.raw),
            frame_tokens=entry.frame_tokens,
            apart_tokens=entry.apart_tokens,
            parts_tokens=tuple([part.tokens for part in entry.parts]),
        )
        for entry in found[:MESSAGES_MAX]
    )


def size_in(sizes: Sizes, number: int, raw: bytes) -> MessageSize | None:
    """Return the size of the message *raw*; None where it is not recorded, or of another message with its number."""
    found = sizes.get(number)
    return found if found is not None and found.check == crc32(raw) else None
