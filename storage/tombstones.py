"""Tombstones: the one commit that an erased conversation leaves."""

from __future__ import annotations

from protocol import codec
from protocol.errors import BadEnvelope

from .ports import Record


def is_erasure(record: Record) -> bool:
    """Tell whether *record* is that commit; one that is not readable is not."""
    # most have not even the word, and are not decoded
    if record.side != "done" or b"ConversationErased" not in record.body:
        return False
    try:
        return codec.decode_commit(record.body).is_tombstone
    except BadEnvelope:
        return False
