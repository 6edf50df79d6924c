"""Work in progress on JetStream: what a worker writes down before a delivery that it may not live to end."""

from __future__ import annotations

import msgspec
from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.connection import publish
from protocol.errors import UNREADABLE
from protocol.ids import Address, fresh_id
from protocol.subjects import Actor

from .documents import found_on
from .work_ports import BegunWork

ANSWER_SECONDS = 2.0
"""Work that cannot be written down within this time waits for better times."""


class JetStreamInProgress:
    """`InProgress` on the stream `CTX_SNAP`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=ANSWER_SECONDS)

    async def find(self, actor: Actor, at: Address) -> BegunWork | None:
        """See `InProgress.find`."""
        stream, what = subjects.SNAPSHOT_STREAM, "the work in progress"
        message = await found_on(self._jetstream, stream, subjects.begun(actor, at), what=what, needed=False)
        try:
            return msgspec.json.decode(message.data, type=BegunWork) if message and message.data else None
        except UNREADABLE:
            # of a newer worker
            return None

    async def put(self, actor: Actor, at: Address, begun: BegunWork) -> None:
        """See `InProgress.put`."""
        await self._put(actor, at, msgspec.json.encode(begun))

    async def wipe(self, actor: Actor, at: Address) -> None:
        """See `InProgress.wipe`."""
        await self._put(actor, at, b"")

    async def _put(self, actor: Actor, at: Address, body: bytes) -> None:
        await publish(
            self._connection,
            subjects.begun(actor, at),
            body,
            headers={"Nats-Msg-Id": fresh_id()},
            deadline_seconds=ANSWER_SECONDS,
        )
