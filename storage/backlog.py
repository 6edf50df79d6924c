"""Backlog: how much waits for each actor, and how the log is copied. Rights of the user `cut` suffice."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import ConsumerInfo
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, reason_of
from protocol.errors import PROVISION, LogUnavailable, NotProvisioned
from protocol.subjects import ACTORS, LANES, Actor, Lane

from .known_layout import known_layout
from .streams import ACK_WAIT_SECONDS

SECONDS = 1.0
"""For each question."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of one actor in one lane."""

    actor: Actor
    lane: Lane
    slots: int
    """Filled, and taken by no worker."""
    age_seconds: float
    """Since when the oldest is filled that is not done; 0 where there is none. By the clocks of server and machine."""
    is_served: bool
    """A worker asks for slots of each part, or took one lately. Between two slots nobody asks for a moment."""


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """What the account takes on NATS' disks, and may take."""

    used_bytes: int
    limit_bytes: int
    """0 or less: no limit but the disk's."""


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """The log as its server keeps it."""

    size_bytes: int
    replicas_behind: int


async def queues(connection: NatsConnection) -> list[Queue]:
    """Return all queues. Raises `LogUnavailable`, `NotProvisioned`."""
    return [await _queue(connection, actor, lane) for actor in ACTORS for lane in LANES]


async def kept_log(connection: NatsConnection) -> LogState:
    """Return how the log is kept. Raises `LogUnavailable`, `NotProvisioned`."""
    try:
        jetstream = connection.jetstream(timeout=SECONDS)
        found = [
            await jetstream.stream_info(one) for one in await known_layout(connection).streams(subjects.LOG_STREAM)
        ]
    except NotFoundError:
        raise NotProvisioned(f"the log is not on this server; {PROVISION}") from None
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the log does not answer: {reason_of(error)}") from None
    replicas = [one for part in found for one in (part.cluster and part.cluster.replicas) or ()]
    behind = sum(bool(one.offline or not one.current or one.lag) for one in replicas)
    return LogState(size_bytes=sum(part.state.bytes for part in found), replicas_behind=behind)


async def room(connection: NatsConnection) -> Room:
    """Return how much of its room the account uses. Raises `LogUnavailable`."""
    try:
        found = await connection.jetstream(timeout=SECONDS).account_info()
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"what NATS stores is not known: {reason_of(error)}") from None
    return Room(used_bytes=found.storage, limit_bytes=found.limits.max_storage)


async def _queue(connection: NatsConnection, actor: Actor, lane: Lane) -> Queue:
    streams = await known_layout(connection).streams(subjects.WAKE_STREAM)
    parts = [await _part(connection, stream, actor, lane) for stream in streams]
    return Queue(
        actor=actor,
        lane=lane,
        slots=sum(part.slots for part in parts),
        age_seconds=max(part.age_seconds for part in parts),
        is_served=all(part.is_served for part in parts),
    )


async def _part(connection: NatsConnection, stream: str, actor: Actor, lane: Lane) -> Queue:
    jetstream = connection.jetstream(timeout=SECONDS)
    try:
        found = await jetstream.consumer_info(stream, subjects.durable(actor, lane))
    except NotFoundError:
        raise NotProvisioned(f"the queue of {actor} is not on this server; {PROVISION}") from None
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the queue of {actor} is not known: {reason_of(error)}") from None
    try:
        oldest = await jetstream.get_msg(stream, seq=1, subject=subjects.wake_filter(actor, lane), next=True)
        age = max(0.0, time.time() - oldest.time.timestamp()) if oldest.time else 0.0
    except NotFoundError:
        age = 0.0
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the queue of {actor} cannot be read: {reason_of(error)}") from None
    return Queue(actor=actor, lane=lane, slots=found.num_pending or 0, age_seconds=age, is_served=_is_served(found))


def _is_served(found: ConsumerInfo) -> bool:
    """Tell whether somebody asks for slots, or holds some and took one lately: a dead worker holds its own too."""
    last = found.delivered.last_active if found.delivered else None
    is_recent = last is not None and (datetime.now(UTC) - last).total_seconds() < 2 * ACK_WAIT_SECONDS
    return bool(found.num_waiting or (found.num_ack_pending and is_recent))
