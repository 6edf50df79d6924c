"""Streams: what there is to know of one API's streams, so that several turns become one answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from protocol.jsonbytes import encode

from .sse import Event

Json = dict[str, Any]


class Stream(Protocol):
    """What is written differently in each API. Events come with the object that they tell; all of it is understood."""

    turn: Json
    """What the model said in the turn that is heard, with all of its calls."""
    whole: bool
    """The model ended it by itself, and was not cut off."""

    @property
    def has_ours(self) -> bool:
        """Tell whether the turn has calls of `read_artifact`."""
        ...

    def lacks(self, data: Json) -> str:
        """Return the fault of an event behind what was learned, in words; empty where it has none."""
        ...

    def learn(self, data: Json) -> None:
        """Take in what an event says of the turn."""
        ...

    def holds(self, event: Event, data: Json) -> bool:
        """Tell whether an event is to be held back, and all that follow it in its turn."""
        ...

    def told(self, event: Event, data: Json) -> Iterator[bytes]:
        """Yield an event as the agent gets it; in the first turn the bytes that came."""
        ...

    def told_last(self, event: Event, data: Json) -> Iterator[bytes]:
        """Yield an event that was held back, without the gateway's own calls."""
        ...

    def renumbered(self, event: Event, data: Json) -> bytes:
        """Return any event of a later turn, understood or not, with the numbers and ids that the agent knows."""
        ...

    def next_turn(self) -> None:
        """Begin the turn that follows."""
        ...


def rewritten(event: Event, data: Json) -> bytes:
    """Return *event* with other *data*; what else stands in it, its name among it, is left."""
    lines = [line for line in event.raw.splitlines() if line and not line.startswith(b"data:")]
    return b"\n".join([*lines, b"data: " + encode(data)]) + b"\n\n"
