"""Begun turns: what a worker writes down before a turn that it may not live to end.

Nothing is decided by it but patience: if one is lost, a conversation is suspected later, or a model is asked once more.
"""

from __future__ import annotations

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, publish
from protocol.errors import LogUnavailable
from protocol.ids import Address, fresh_id
from protocol.subjects import Actor

ANSWER_SECONDS = 2.0
"""A turn that cannot be written down within this time waits for better times."""


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """One turn that was begun, and not ended yet."""

    worker: str
    """Who began it."""
    vanished: int = 0
    """Turns before it that nobody ended, one after the other."""
    asks_seconds: float = 0.0
    """How long a model may be answering to it; 0: none is asked."""
    is_waited_for: bool = False
    """That answer was given its time already."""
    is_deadly: bool = False
    """A process that did the next turn, and nothing else, died of it."""


class JetStreamBegun:
    """The begun turns on the stream `CTX_SNAP`, at most one for each actor and conversation.

    All raise `LogUnavailable`; where there is no room, `Busy`.
    """

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=ANSWER_SECONDS)

    async def find(self, actor: Actor, at: Address) -> Begun | None:
        """Return the turn of *actor* that was begun for *at* and not ended."""
        try:
            message = await self._jetstream.get_msg(subjects.SNAPSHOT_STREAM, subject=subjects.begun(actor, at))
        except NotFoundError:
            return None
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the begun turns cannot be read: {type(error).__name__}") from None
        try:
            return msgspec.json.decode(message.data, type=Begun) if message.data else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            # of a newer worker
            return None

    async def put(self, actor: Actor, at: Address, begun: Begun) -> None:
        """Write down that the turn began."""
        await self._put(actor, at, msgspec.json.encode(begun))

    async def wipe(self, actor: Actor, at: Address) -> None:
        """Write down that the turn ended, however it did."""
        await self._put(actor, at, b"")

    async def _put(self, actor: Actor, at: Address, body: bytes) -> None:
        await publish(
            self._connection,
            subjects.begun(actor, at),
            body,
            headers={"Nats-Msg-Id": fresh_id()},
            deadline_seconds=ANSWER_SECONDS,
        )
