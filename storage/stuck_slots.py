"""Stuck slots of JetStream: filled for ever, since the server remembers that they were done and kept them all the same.

A server that is killed may have written down that a consumer acknowledged a message, and not yet that the work queue
dropped it. After its restart the message is there, below the consumer's floor: it is never delivered again, and nobody
can fill its slot (measured on 2.15, with `sync_interval: always`: 2 of 25,000 slots in 55 kills; a restart mends
nothing). Acknowledged once more it goes.
"""

from __future__ import annotations

import logging
import time
from itertools import product

from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, reason_of
from protocol.errors import LogUnavailable
from protocol.subjects import ACTORS, LANES, Actor, Lane

from .known_layout import known_layout

log = logging.getLogger("jettison.wakes")

AT_ONCE_MAX = 1_000
"""Of one lane; the rest is found the next time."""

ANSWER_SECONDS = 5.0


class JetStreamStuckSlots:
    """`StuckSlots` of the work queue `CTX_WAKE`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=ANSWER_SECONDS)

    async def free(self) -> int:
        """See `StuckSlots.free`. Where there is none it costs two requests for each consumer."""
        freed = 0
        streams = await known_layout(self._connection).streams(subjects.WAKE_STREAM)
        for actor in ACTORS:
            for stream, lane in product(streams, LANES):
                try:
                    freed += await self._free(stream, actor, lane)
                except NotFoundError:
                    continue  # no such consumer: its workers say so, loudly
                except (APIError, *TRANSIENT) as error:
                    raise LogUnavailable(f"the slots of {actor} cannot be looked at: {reason_of(error)}") from None
        return freed

    async def _free(self, stream: str, actor: Actor, lane: Lane) -> int:
        durable = subjects.durable(actor, lane)
        floor = (await self._jetstream.consumer_info(stream, durable)).ack_floor
        done_seq = floor.stream_seq if floor else 0
        after = 0
        for freed in range(AT_ONCE_MAX):
            try:
                first = await self._jetstream.get_msg(
                    stream, seq=after + 1, subject=subjects.wake_filter(actor, lane), next=True
                )
            except NotFoundError:
                return freed
            assert first.seq is not None
            if first.seq > done_seq:
                return freed
            # all up to the floor was acknowledged; who is acknowledging it in this moment is only helped
            await self._connection.request(_ack_subject(stream, durable, first.seq), b"+ACK", timeout=ANSWER_SECONDS)
            log.warning("the slot %s was done and is freed again: the server had kept it", first.subject)
            after = first.seq
        return AT_ONCE_MAX


def _ack_subject(stream: str, durable: str, seq: int) -> str:
    """Return a delivery's subject of acknowledgement: count, sequences in stream and consumer, time, what is left."""
    return f"$JS.ACK.{stream}.{durable}.1.{seq}.1.{time.time_ns()}.0"
