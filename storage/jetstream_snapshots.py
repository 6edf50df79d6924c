"""Snapshots on NATS JetStream."""

from __future__ import annotations

from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError

from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import NotPermitted
from protocol.ids import Address

from .jetstream_reads import READ_SECONDS


class JetStreamSnapshots:
    """`Snapshots` on the stream `CTX_SNAP`. Losing one costs time only, so no failure is passed on."""

    def __init__(self, connection: NatsConnection) -> None:
        self._jetstream = connection.jetstream(timeout=READ_SECONDS)

    async def put(self, at: Address, body: bytes) -> None:
        """See `Snapshots.put`."""
        try:
            await self._jetstream.publish(subjects.snapshot(at), body, timeout=READ_SECONDS)
        except (APIError, NotPermitted, *TRANSIENT):
            return

    async def newest(self, at: Address) -> bytes | None:
        """See `Snapshots.newest`."""
        try:
            message = await self._jetstream.get_msg(subjects.SNAPSHOT_STREAM, subject=subjects.snapshot(at))
        except (APIError, NotPermitted, *TRANSIENT):
            return None
        return message.data
