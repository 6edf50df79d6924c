"""Snapshots on NATS JetStream."""

from __future__ import annotations

import logging
import time

from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError

from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import LogUnavailable, NotPermitted
from protocol.ids import Address

from .erasure import overwritten
from .jetstream_reads import READ_SECONDS, leaders_message
from .known_layout import known_layout

log = logging.getLogger("jettison.snapshots")

REFUSED_SECONDS = 60.0
"""Who may not read snapshots, such as an auditor, does not ask for each conversation; but rights change."""


class JetStreamSnapshots:
    """`Snapshots` on the stream `CTX_SNAP`. Losing one costs time only, so no failure to read or write is passed on."""

    def __init__(self, connection: NatsConnection, *, writes: bool = True) -> None:
        """Read and write over *connection*; who never *writes* may lack the right to read too, and is not warned."""
        self._level = logging.WARNING if writes else logging.INFO
        self._refused = ""
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=READ_SECONDS)
        self._layout = known_layout(connection)
        self._refused_until = 0.0

    @property
    def refused(self) -> str:
        """See `Snapshots.refused`."""
        return self._refused

    async def put(self, at: Address, body: bytes) -> None:
        """See `Snapshots.put`."""
        try:
            await self._jetstream.publish(subjects.snapshot(at), body, timeout=READ_SECONDS)
        except (APIError, NotPermitted, *TRANSIENT):
            return

    async def newest(self, at: Address) -> bytes | None:
        """See `Snapshots.newest`."""
        if time.monotonic() < self._refused_until:
            return None
        try:
            stream = await self._layout.stream(subjects.SNAPSHOT_STREAM, at)
            message = await leaders_message(self._connection, stream, subjects.snapshot(at))
        except NotPermitted as error:
            if time.monotonic() >= self._refused_until:
                log.log(self._level, "no snapshot is read, and each log is folded from its beginning: %s", error)
            self._refused = str(error)
            self._refused_until = time.monotonic() + REFUSED_SECONDS
            return None
        except (APIError, LogUnavailable, *TRANSIENT):
            return None
        return message.body

    async def forget(self, at: Address) -> int:
        """See `Snapshots.forget`."""
        stream = await self._layout.stream(subjects.SNAPSHOT_STREAM, at)
        return await overwritten(self._connection, stream=stream, subject=subjects.snapshot(at))
