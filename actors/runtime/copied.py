"""Copied: a log that is written as a copy of another one, or was repaired; what was remembered of it may be old."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from protocol import codec
from protocol.facts import ConversationRepaired
from storage.ports import Record

COPIED_HEADER = "Jettison-Copied"
"""On the first record of a log that is written as a copy: how many records the copy has. An agent can forge it, and so
hold up a conversation of its own tenant; who erases that one frees it."""

DIGITS_MAX = 9
"""Of that number; no log has more."""


def still_missing(records: Sequence[Record], before: int, *, fresh: bool) -> int:
    """Return how many records of a copy are to come after *records*; 0 where the log is none, or was repaired since."""
    copied = records[0].headers.get(COPIED_HEADER, "") if fresh else ""
    left = int(copied) if re.fullmatch(rf"[0-9]{{1,{DIGITS_MAX}}}", copied) else before
    return 0 if any(map(is_repair, records)) else max(0, left - len(records))


def repaired_behind(records: Iterable[Record], seq: int) -> bool:
    """Tell whether the log was repaired after *seq*: what was remembered of it is then no longer true."""
    return any(record.seq > seq and is_repair(record) for record in records)


def repaired_since(records: Iterable[Record], seen_ms: int) -> bool:
    """Tell whether the log was repaired after *seen_ms*: a log that lost its end is repaired before where it ended."""
    return any(fact.at_ms > seen_ms for record in records for fact in _repairs(record))


def is_repair(record: Record) -> bool:
    """Tell the commit of a repair. Raises `BadEnvelope`."""
    return bool(_repairs(record))


def _repairs(record: Record) -> list[ConversationRepaired]:
    # most have not even the word, and are not decoded
    if record.side != "done" or b"ConversationRepaired" not in record.body:
        return []
    return [fact for fact in codec.decode_commit(record.body).facts if isinstance(fact, ConversationRepaired)]
