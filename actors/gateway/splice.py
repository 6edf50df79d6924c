"""Splice: the streams of several turns as the one that an agent asked for.

Words and thoughts go on at once. Calls are held back until it is known whose they are: those of `read_artifact` are the
gateway's, and their agent never sees them; then the model's next turn follows in the same stream. From an event on that
its API does not have, all goes on as it came: nobody knows what such a turn said.
"""

from __future__ import annotations

from collections.abc import Iterator

from .apis import Api
from .chat_stream import ChatStream
from .messages_stream import MessagesStream
from .responses_stream import ResponsesStream
from .sse import Event
from .streams import Json, Stream
from .understood import event_understood


class Splice:
    """One answer to an agent, of one turn or several."""

    def __init__(self, api: Api, stream: Stream) -> None:
        self.strange = ""
        """What was not understood, since when all goes on as it came; empty where everything was."""
        self._api, self._stream = api, stream
        self._held: list[tuple[Event, Json]] = []
        self._first = True

    @property
    def turn(self) -> Json:
        """Return the turn that is heard, with all of its calls."""
        return self._stream.turn

    @property
    def whole(self) -> bool:
        """Tell whether the model ended it by itself, and was not cut off; and whether all of it was understood."""
        return self._stream.whole and not self.strange

    def heard(self, event: Event) -> Iterator[bytes]:
        """Yield the bytes of the next *event* that go on at once."""
        data, why = event_understood(self._api.name, event)
        if not self.strange and (why := why or self._stream.lacks(data)):
            self.strange = why
            yield from (self._as_it_came(*one) for one in self._held)
            self._held = []
        if self.strange:
            yield self._as_it_came(event, data)
            return
        self._stream.learn(data)
        if (not event.data and event.raw.endswith((b"\n", b"\r"))) or data.get("type") == "ping":
            # a sign of life is for now; bytes that end without a line are no comment
            yield event.raw
        elif self._held or self._stream.holds(event, data):
            self._held.append((event, data))
        else:
            yield from self._stream.told(event, data)

    def next_turn(self) -> None:
        """Drop what is held back, and begin to hear the turn that follows."""
        self._stream.next_turn()
        self._held, self._first = [], False

    def ended(self) -> Iterator[bytes]:
        """Yield the bytes that were held back, without the gateway's own calls: the end of the answer."""
        for event, data in self._held:
            if self._first and not self._stream.has_ours:
                yield event.raw
            else:
                yield from self._stream.told_last(event, data)

    def _as_it_came(self, event: Event, data: Json) -> bytes:
        """Return an event whole; behind other turns, with the numbers and ids that its agent knows."""
        return event.raw if self._first else self._stream.renumbered(event, data)


def splice_of(api: Api) -> Splice:
    """Return a new splice for an answer of *api*."""
    streams: dict[str, type[Stream]] = {"chat": ChatStream, "messages": MessagesStream, "responses": ResponsesStream}
    return Splice(api, streams[api.name]())
