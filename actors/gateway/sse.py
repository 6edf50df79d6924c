"""SSE: server-sent events, split as they come, each kept as the bytes that it was."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

EVENT_BYTES_MAX = 32 * 2**20
"""What does not end within so much is no event: it goes on as it is, and nobody reads it."""


ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""The blank line that ends an event."""


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """One event: its bytes, with the blank line that ends it."""

    raw: bytes
    data: bytes
    """The text of its data, line by line."""

    @property
    def is_done(self) -> bool:
        """Tell whether it ends a stream of chat completions."""
        return self.data == b"[DONE]"


def event_of(raw: bytes) -> Event:
    """Return the event in *raw*. It is read once: each of those who listen to an answer asks for its data."""
    lines = [line[5:].removeprefix(b" ") for line in raw.splitlines() if line.startswith(b"data:")]
    return Event(raw=raw, data=lines[0] if len(lines) == 1 else b"\n".join(lines))


class Events:
    """Split a stream that comes in pieces of any size."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._seen = 0
        self._returns = False

    def fed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that *piece* completes."""
        self._kept += piece
        self._returns = self._returns or b"\r" in piece
        while (end := self._end()) >= 0:
            raw = bytes(self._kept[:end])
            del self._kept[:end]
            self._seen = 0
            yield event_of(raw)
        if len(self._kept) > EVENT_BYTES_MAX:
            yield event_of(bytes(self._kept))
            self._kept.clear()
            self._seen = 0

    def rest(self) -> bytes:
        """Return the bytes behind the last whole event."""
        return bytes(self._kept)

    def _end(self) -> int:
        """Return where the first event ends, -1 if it does not yet. What was looked at is not looked at again."""
        start = max(0, self._seen - 3)
        # marks that nobody writes are not looked for: each look would go through all that is left of the piece
        ends = ENDS if self._returns else ENDS[:1]
        found = [at + len(mark) for mark in ends if (at := self._kept.find(mark, start)) >= 0]
        self._seen = len(self._kept)
        return min(found, default=-1)


class WholeEvents:
    """Pass on a stream that nobody listens to, in whole events: what breaks off then does not end within one."""

    def __init__(self) -> None:
        self._held = bytearray()

    def fed(self, piece: bytes) -> bytes:
        """Return the bytes that go on now, the beginning of an event that is not whole yet being held back."""
        if not self._held and piece.endswith(b"\n\n"):
            return piece
        start = max(0, len(self._held) - 3)
        self._held += piece
        end = max(at + len(mark) if (at := self._held.rfind(mark, start)) >= 0 else 0 for mark in ENDS)
        if len(self._held) - end > EVENT_BYTES_MAX:
            end = len(self._held)
        whole = bytes(self._held[:end])
        del self._held[:end]
        return whole

    def rest(self) -> bytes:
        """Return the bytes that are held back."""
        return bytes(self._held)
