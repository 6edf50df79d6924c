"""Log changes on JetStream: which conversations the log says something new of, without reading what it says.

A consumer of the moment delivers headers alone; from the beginning it delivers the newest message of each
conversation only, so that a first look costs the number of conversations and a later one that of new messages.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.aio.subscription import Subscription
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import APIError, NotFoundError

from protocol import guarded, subjects
from protocol.connection import PAUSE_SECONDS, TRANSIENT, reason_of
from protocol.errors import PROVISION, UNREADABLE, LogUnavailable, NotProvisioned

from .documents import found_on
from .jetstream_reads import direct_batch, millis
from .known_layout import known_layout
from .partitions import partition_at, stream_of
from .sweep_ports import LogChange, SweepMark

NEXT = "$JS.API.CONSUMER.MSG.NEXT"
PAGE = 500
ANSWER_SECONDS = 5.0
FORGOTTEN_AFTER_SECONDS = 30.0
"""When the server drops a consumer whose reader died."""


class JetStreamLogChanges:
    """`LogChanges` of the stream `CTX_LOG`, or its parts; the marks are on `CTX_SNAP`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=ANSWER_SECONDS)

    async def partitions(self) -> int:
        """See `LogChanges.partitions`."""
        return (await known_layout(self._connection).layout()).partitions

    async def after(self, seq: int, *, upto: int) -> AsyncIterator[LogChange]:
        """See `LogChanges.after`."""
        if seq >= upto:
            return
        stream = stream_of(subjects.LOG_STREAM, partition_at(upto))
        name = await self._consumer(stream, seq)
        inbox = self._connection.new_inbox()
        subscription = await self._connection.subscribe(inbox, pending_msgs_limit=PAGE * 4)
        reached = seq
        try:
            for pause in (*PAUSE_SECONDS, None):
                async for found, seq in self._pages(f"{stream}.{name}", inbox, subscription):
                    if seq > upto:
                        return
                    if found is not None:
                        yield found
                    reached = seq
                if await self._is_all(stream, reached, upto=upto):
                    return
                if pause is None:
                    raise LogUnavailable(f"the replica that tells the log's changes lags: {reached} of {upto}")
                await asyncio.sleep(pause)
        except TRANSIENT as error:
            raise LogUnavailable(f"the log's changes cannot be read: {reason_of(error)}") from None
        finally:
            with suppress(APIError, *TRANSIENT):
                await subscription.unsubscribe()
                await self._jetstream.delete_consumer(stream, name)

    async def _pages(
        self, name: str, inbox: str, subscription: Subscription
    ) -> AsyncIterator[tuple[LogChange | None, int]]:
        """Yield the messages that the consumer has now, with their sequences; None for what is no conversation's."""
        request = json.dumps({"batch": PAGE, "no_wait": True}).encode()
        while True:
            await self._connection.publish(f"{NEXT}.{name}", request, reply=inbox)
            for _ in range(PAGE):
                message = await subscription.next_msg(timeout=ANSWER_SECONDS)
                guarded.check(message)
                if not message.reply:
                    return  # a status: nothing is left
                metadata = message.metadata
                at_ms = int(metadata.timestamp.timestamp() * 1000)
                yield _change(message.subject, seq=metadata.sequence.stream, at_ms=at_ms), metadata.sequence.stream
                if not metadata.num_pending:
                    return

    async def _is_all(self, stream: str, reached: int, *, upto: int) -> bool:
        """Ask the leader whether nothing lies between: a consumer of one copy may live on a replica that lags."""
        if reached >= upto:
            return True
        try:
            found = await self._jetstream.get_msg(stream, seq=reached + 1, subject=subjects.LOG_FILTER, next=True)
        except NotFoundError:
            return True
        except APIError as error:
            raise LogUnavailable(f"the log's changes cannot be read: {error.description}") from None
        return (found.seq or 0) > upto

    async def tail(self, seq: int, *, most: int, partition: int = 0) -> list[LogChange]:
        """See `LogChanges.tail`: one direct request, which an auditor may make too."""
        stream, changes = stream_of(subjects.LOG_STREAM, partition), list[LogChange]()
        while (left := most - len(changes)) > 0:
            found = await direct_batch(self._connection, stream, subjects.LOG_FILTER, first=seq + 1, most=left)
            ours = [_change(one.subject, seq=one.seq, at_ms=millis(one.time)) for one in found]
            changes += [one for one in ours if one is not None]
            if None not in ours:
                break
            seq = found[-1].seq  # what is no conversation's is no end of the log
        return changes

    async def mark(self, partition: int = 0) -> tuple[SweepMark, int]:
        """See `LogChanges.mark`; one that cannot be read says nothing."""
        stream, what = subjects.SNAPSHOT_STREAM, "the sweepers' mark"
        found = await found_on(self._jetstream, stream, subjects.sweep(partition), what=what, needed=False)
        if found is None:
            return SweepMark(), 0
        try:
            return msgspec.json.decode(found.data or b"", type=SweepMark), found.seq or 0
        except UNREADABLE:
            return SweepMark(), found.seq or 0

    async def put_mark(self, mark: SweepMark, *, expected: int, partition: int = 0) -> int:
        """See `LogChanges.put_mark`."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        try:
            ack = await self._jetstream.publish(
                subjects.sweep(partition), msgspec.json.encode(mark), headers=headers, timeout=ANSWER_SECONDS
            )
        except (APIError, *TRANSIENT):
            return 0  # unknown is as good: whoever comes next looks at the same again
        return ack.seq

    async def _consumer(self, stream: str, seq: int) -> str:
        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if seq else DeliverPolicy.LAST_PER_SUBJECT,
            opt_start_seq=seq + 1 if seq else None,
            filter_subject=subjects.LOG_FILTER,
            headers_only=True,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=FORGOTTEN_AFTER_SECONDS,
        )
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return (await self._jetstream.add_consumer(stream, config)).name
        except NotFoundError:
            raise NotProvisioned(f"the log does not exist on this server; {PROVISION}") from None
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the log's changes cannot be read: {reason_of(error)}") from None


def _change(subject: str, *, seq: int, at_ms: int) -> LogChange | None:
    at = subjects.address_in(subject)
    return None if at is None else LogChange(seq=seq, at=at, at_ms=at_ms)
