"""Written words: what stands where a provider wants a call's result and there is none, or a result has no call."""

from __future__ import annotations

import msgspec

from protocol.formats.messages import CHAT
from protocol.formats.render import Piece

ORPHAN = "[Result of a tool call that is not in this conversation]"
ORPHAN_TOKENS = 16
"""Bound on `ORPHAN` with its line end, in both encodings (a test counts it)."""

LATE = "[Result of an earlier tool call, which came late]"
"""No more tokens than `ORPHAN`."""

ABORTED = "[No result was recorded: the call was aborted.]"
RUNNING = "[No result yet: the call is still running.]"
OVERDUE = "[No result came yet; the call may still be running.]"
BELOW = "[The result came later, and stands below.]"
ABORTED_TOKENS = 20
"""Bound on each of these with its frame, in both encodings (a test counts it)."""


def written(call: str, text: str) -> Piece:
    """Return *text* as the result of *call*."""
    answer = {"role": "tool", "tool_call_id": call, "content": text}
    return Piece(raw=msgspec.json.encode(answer), native=(CHAT,))
