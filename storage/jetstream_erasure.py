"""Erasure on NATS JetStream: every stream that has something of a conversation, snapshots aside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.ids import Address

from .erasure import key_destroyed, overwritten, removed
from .erasure_ports import AT_ONCE, Forgotten
from .gateway_forgetting import forgotten
from .jetstream_reads import clock_ms, counts
from .known_layout import known_layout
from .queue_pause import paused


class JetStreamErasure:
    """`Erasure` of all streams of a server."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._layout = known_layout(connection)

    def paused(self) -> AbstractAsyncContextManager[None]:
        """See `Erasure.paused`."""
        return paused(self._connection)

    async def remove(self, at: Address, seqs: Sequence[int], *, at_once: int = AT_ONCE) -> None:
        """See `Erasure.remove`."""
        stream = await self._layout.stream(subjects.LOG_STREAM, at)
        await removed(self._connection, stream=stream, seqs=seqs, at_once=at_once)

    async def clear(self, at: Address, *, keep: int = 0) -> int:
        """See `Erasure.clear`."""
        stream = await self._layout.stream(subjects.LOG_STREAM, at)
        return await overwritten(self._connection, stream=stream, subject=subjects.both(at), keep=keep)

    async def forget(self, at: Address) -> Forgotten:
        """See `Erasure.forget`."""
        wake_stream = await self._layout.stream(subjects.WAKE_STREAM, at)
        wakes = letters = 0
        for actor in subjects.ACTORS:
            letters += await self._overwritten(subjects.DEAD_LETTER_STREAM, subjects.dead_letter(actor, at))
            wakes += await self._overwritten(subjects.SNAPSHOT_STREAM, subjects.begun(actor, at))
            for lane in subjects.LANES:
                wakes += await self._overwritten(wake_stream, subjects.wake(actor, at, lane))
        return Forgotten(
            wakes=wakes,
            dead_letters=letters,
            gateway=await forgotten(self._connection, at),
            keys=await key_destroyed(self._connection, at),
        )

    async def counts(self) -> Counter[Address]:
        """See `Erasure.counts`."""
        return await counts(self._connection, await self._layout.streams(subjects.LOG_STREAM))

    async def now_ms(self) -> int:
        """See `Erasure.now_ms`."""
        return await clock_ms(self._connection)

    async def _overwritten(self, stream: str, subject: str) -> int:
        return await overwritten(self._connection, stream=stream, subject=subject)
