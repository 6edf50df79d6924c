"""Places: which stream of this server has what is kept of a conversation, as the streams themselves tell."""

from __future__ import annotations

import time
from weakref import WeakKeyDictionary

from nats.aio.client import Client as NatsConnection
from nats.js.api import StreamConfig
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, reason_of, until
from protocol.errors import Busy, LogUnavailable, OutcomeUnknown
from protocol.ids import Address

from .partitions import ONE, Layout, stream_of, told

PARTITIONS_KEY = "jettison.partitions"
"""In the metadata of the first stream of the log: how many there are. Without it there is one."""

ANSWER_SECONDS = 5.0

FRESH_SECONDS = 5.0
"""When it is asked again whether conversations were moved."""


class Places:
    """The layout of one server, as one connection knows it; made by `places_of` alone."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._known: Layout | None = None
        self._at = 0.0

    async def layout(self) -> Layout:
        """Return who has what; asked again now and then. Raises `LogUnavailable`, `NotPermitted`."""
        if self._known is None or time.monotonic() - self._at > FRESH_SECONDS:
            try:
                await self.again()
            except LogUnavailable:
                if self._known is None:
                    raise
        return self._known or ONE

    async def again(self) -> Layout:
        """Ask now: something says that a conversation is elsewhere. Raises as `layout`."""
        self._known, self._at = await layout_of(self._connection), time.monotonic()
        return self._known

    async def stream(self, stream: str, at: Address) -> str:
        """Return the stream that has what is *at* that address. Raises as `layout`."""
        return (await self.layout()).stream(stream, at)

    async def streams(self, stream: str) -> list[str]:
        """Return all parts of *stream*, the first one first. Raises as `layout`."""
        return (await self.layout()).streams(stream)


def places_of(connection: NatsConnection) -> Places:
    """Return what is known of the server behind *connection*; shared by all who use it."""
    return _places.setdefault(connection, Places(connection))


async def layout_of(connection: NatsConnection) -> Layout:
    """Ask the streams of the log what they listen to. Raises `LogUnavailable`, `NotPermitted`, `Damaged`."""
    first = await _config(connection, subjects.LOG_STREAM)
    partitions = partitions_in(first)
    if partitions == 1 or first is None:
        return ONE
    others = [await _config(connection, stream_of(subjects.LOG_STREAM, one)) for one in range(1, partitions)]
    return told([one.subjects or [] if one else [] for one in (first, *others)])


def partitions_in(first: StreamConfig | None) -> int:
    """Return how many partitions the log's first stream says there are."""
    return int(((first.metadata if first else None) or {}).get(PARTITIONS_KEY, "1"))


async def _config(connection: NatsConnection, stream: str) -> StreamConfig | None:
    """Return the configuration of *stream*; None where there is none."""
    jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
    found: list[StreamConfig] = []

    async def attempt() -> int:
        found.append((await jetstream.stream_info(stream)).config)
        return 1

    try:
        await until(attempt, connection=connection, deadline_seconds=ANSWER_SECONDS, what="where conversations are")
    except NotFoundError:
        return None
    except (Busy, OutcomeUnknown) as error:
        raise LogUnavailable(f"it is not known where conversations are: {error}") from None
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"it is not known where conversations are: {reason_of(error)}") from None
    return found[-1]


_places: WeakKeyDictionary[NatsConnection, Places] = WeakKeyDictionary()
