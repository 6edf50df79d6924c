"""Slots on the work queue `CTX_WAKE`, with our own pull loop.

A slot is one message on one subject: filled while work waits or is being done, freed by its
acknowledgement. nats-py's `fetch` hides deleted consumers and leaves orphaned pulls behind, so this
loop keeps one inbox, one open pull, and a heartbeat that says within a second when either is gone.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.errors import APIError, NotFoundError

from protocol import guarded, subjects
from protocol.acked import acked
from protocol.connection import TRANSIENT, check_there, reason_of
from protocol.errors import PROVISION, Busy, LogUnavailable, NotProvisioned
from protocol.ids import Address, fresh_id
from protocol.subjects import Actor, Lane
from protocol.tasks import aside, heed_cancellation

from .known_layout import known_layout
from .partitions import stream_of
from .streams import UNLIMITED
from .work_ports import Slot

log = logging.getLogger("jettison.wakes")

PULL_SECONDS = 20.0
"""How long the server keeps one pull open."""

HEARTBEAT_SECONDS = 0.5
"""A pull without two heartbeats in a row is dead: the server restarted or the consumer is gone."""

HAND_BACK_SECONDS = 2.0
"""How long the end of a loop waits for the server; what it then still holds comes back after the ack wait."""

FULL = 10077
SLOT_FILLED = "maximum messages per subject exceeded"
"""A filled slot and a full stream have the same number; only the second is a wake-up that is lost."""


@dataclass
class _Credit:
    """One unfinished slot's share of the credits; it comes back once, however often the slot is ended."""

    free: asyncio.Semaphore
    spent: bool = True

    def back(self) -> None:
        """Return the credit."""
        if self.spent:
            self.spent = False
            self.free.release()


@dataclass(frozen=True)
class JetStreamSlot:
    """`Slot` of one message."""

    message: Msg
    at: Address
    headers: Mapping[str, str]
    deliveries: int
    lane: Lane
    credit: _Credit

    @property
    def body(self) -> bytes:
        """See `Slot.body`."""
        return self.message.data

    async def done(self) -> None:
        """See `Slot.done`."""
        try:
            await self.message.ack_sync(timeout=2)
        except TRANSIENT as error:
            raise LogUnavailable(f"the slot's acknowledgement was not confirmed: {reason_of(error)}") from None
        finally:
            self.credit.back()

    async def later(self, seconds: float) -> None:
        """See `Slot.later`."""
        try:
            await self.message.nak(delay=seconds)
        except TRANSIENT as error:
            raise LogUnavailable(f"the slot could not be given back: {reason_of(error)}") from None
        finally:
            self.credit.back()

    def release_credit(self) -> None:
        """See `Slot.release_credit`."""
        self.credit.back()

    async def hold(self) -> None:
        """See `Slot.hold`."""
        try:
            await self.message.in_progress()
        except TRANSIENT as error:
            raise LogUnavailable(f"the slot could not be held: {reason_of(error)}") from None


@dataclass(frozen=True, kw_only=True)
class _Queue:
    """Whose slots are pulled."""

    stream: str
    durable: str


class JetStreamWakes:
    """`Wakes` on the stream `CTX_WAKE`, or its parts."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=2)

    async def wake(
        self, actor: Actor, at: Address, *, body: bytes = b"", headers: Mapping[str, str], lane: Lane = "normal"
    ) -> bool:
        """See `Wakes.wake`."""
        try:
            sent = {**headers, "Nats-Msg-Id": fresh_id()}
            await acked(self._connection, subjects.wake(actor, at, lane), body, headers=sent, seconds=2.0)
        except APIError as error:
            if error.description == SLOT_FILLED:
                return False
            if error.err_code == FULL:
                raise Busy(f"{actor} cannot be woken: {error.description}", err_code=error.err_code) from None
            raise LogUnavailable(f"{actor} cannot be woken: {error.description}", err_code=error.err_code) from None
        except TRANSIENT as error:
            raise LogUnavailable(f"{actor} cannot be woken: {reason_of(error)}") from None
        return True

    async def partitions(self) -> int:
        """See `Wakes.partitions`."""
        return (await known_layout(self._connection).layout()).partitions

    async def slots(
        self, actor: Actor, *, credits: int, lane: Lane = "normal", partition: int = 0
    ) -> AsyncIterator[Slot]:
        """See `Wakes.slots`. Raises `NotProvisioned` if the consumer is not there, or would lose slots."""
        free = asyncio.Semaphore(credits)
        inbox = self._connection.new_inbox()
        # a queue of our own: a cancelled `next_msg` of nats-py may take a message along
        arrived: asyncio.Queue[Msg] = asyncio.Queue()
        subscription = await self._connection.subscribe(inbox, cb=guarded.prompt(arrived.put_nowait))
        queue = _Queue(stream=stream_of(subjects.WAKE_STREAM, partition), durable=subjects.durable(actor, lane))
        try:
            await self._check(queue)
            while True:
                heed_cancellation()
                await free.acquire()
                message = await self._next(arrived, inbox, queue)
                if message is None:
                    free.release()
                    continue
                at = subjects.address_in(message.subject)
                if at is None:
                    free.release()
                    await self._given_up(message)
                    continue
                yield JetStreamSlot(
                    message=message,
                    at=at,
                    headers=dict(message.headers or {}),
                    deliveries=message.metadata.num_delivered or 1,
                    lane=lane,
                    credit=_Credit(free),
                )
        finally:
            await _whole(asyncio.create_task(self._hand_back(subscription, arrived)))

    async def _given_up(self, message: Msg) -> None:
        """Free the slot of what is no conversation: what was said on such a subject stays in the log, unread."""
        log.warning("nobody can be woken for %.200r, which is no conversation's: its slot is freed", message.subject)
        with suppress(*TRANSIENT):
            await message.term()

    async def untaken(self, actor: Actor) -> int:
        """See `Wakes.untaken`."""
        durable = subjects.durable(actor, "normal")
        try:
            streams = await known_layout(self._connection).streams(subjects.WAKE_STREAM)
            found = [await self._jetstream.consumer_info(stream, durable) for stream in streams]
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the queue of {actor} is not known: {reason_of(error)}") from None
        return sum(one.num_pending or 0 for one in found)

    async def _next(self, arrived: asyncio.Queue[Msg], inbox: str, queue: _Queue) -> Msg | None:
        """Open one pull for one slot and wait for its answer; None when the pull ended empty."""
        await self._pull(inbox, queue)
        heed_cancellation()
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_SECONDS * 3):
                    message = await arrived.get()
            except TimeoutError:
                if self._connection.is_closed:
                    raise LogUnavailable("the connection to NATS is closed") from None
                return None
            # a wake-up carries an agent's headers, so only what nobody can acknowledge is the server's own word
            status = None if message.reply else (message.headers or {}).get("Status")
            if status is None:
                return message
            if status == "100":
                continue
            guarded.check(message)
            if status in ("503", "409"):
                await self._check(queue)
                await asyncio.sleep(HEARTBEAT_SECONDS)
            return None

    async def _pull(self, inbox: str, queue: _Queue) -> None:
        request = {
            "batch": 1,
            "expires": int(PULL_SECONDS * 1e9),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{queue.stream}.{queue.durable}"
        try:
            await self._connection.publish(subject, json.dumps(request).encode(), reply=inbox)
        except TRANSIENT:
            # the connection is being restored; the next round asks again
            await asyncio.sleep(HEARTBEAT_SECONDS)

    async def _check(self, queue: _Queue) -> None:
        """Tell a consumer that is gone or drops slots, which is loud, from a server that is only starting."""
        try:
            found = await self._jetstream.consumer_info(queue.stream, queue.durable)
        except NotFoundError:
            raise NotProvisioned(
                f"the consumer {queue.durable} does not exist on this server; {PROVISION}",
                consumer=queue.durable,
            ) from None
        except (APIError, *TRANSIENT):
            await check_there(self._connection)
            return
        if found.config.max_deliver != UNLIMITED:
            raise NotProvisioned(
                f"the consumer {queue.durable} gives a slot up after {found.config.max_deliver} deliveries, and would "
                f"never free it; {PROVISION}",
                consumer=queue.durable,
            )

    @staticmethod
    async def _hand_back(subscription: Subscription, arrived: asyncio.Queue[Msg]) -> None:
        """Stop listening, then return what had been delivered until then, so that no one waits for it."""
        # to the server and back: what it sent before it heard of the end is here then
        draining = aside(subscription.drain())  # type: ignore[no-untyped-call]
        # never cancelled: nats-py would meet the cancelled future at the next pong, and its reading would end for ever
        await asyncio.wait({draining}, timeout=HAND_BACK_SECONDS)
        with suppress(*TRANSIENT):
            while not arrived.empty():
                message = arrived.get_nowait()
                if message.reply:
                    await message.nak()


async def _whole(task: asyncio.Future[None]) -> None:
    """Wait for *task* however often the waiting is cancelled; what called this is being cancelled already."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    task.result()
