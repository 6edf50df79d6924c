"""The seven streams and the two consumers of each actor, made by `jettison provision`, never by a worker.

A consumer that a worker could make is a consumer that a second worker could make differently. Three of the streams may
be there several times: what each of those listens to is in `partition_streams.py`.
"""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

from nats.aio.client import Client as NatsConnection
from nats.js import JetStreamContext
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    ConsumerInfo,
    DiscardPolicy,
    RePublish,
    RetentionPolicy,
    StorageType,
    StoreCompression,
    StreamConfig,
    StreamInfo,
)
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, check_there, reason_of
from protocol.errors import LogUnavailable, NotProvisioned, Rejected

from .known_layout import layout_beside, layout_of
from .partition_streams import check_computes_shards, leaders_spread, parts_of
from .partitions import ONE, Layout, grown, grows

ACK_WAIT_SECONDS = 15.0
"""A worker that is silent for so long has lost its slot; work that takes longer says so every third."""

ACK_PENDING_MAX = 20_000
"""Slots that are taken, or pause after bad luck. At this many nobody gets a new one: it must be more than the
conversations that wait for a store that is down."""

DUPLICATE_WINDOW_SECONDS = 600.0

GATEWAY_DAYS = 30
"""A gateway knows a conversation for so long after its last request."""

UNLIMITED = -1

DEFAULT_WINDOW_SECONDS = 120.0
"""The server's own default, written down: left out, it would be reported as a drift."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """One setting of a stream or consumer that is not as designed."""

    name: str
    setting: str
    wanted: str
    found: str


_on_disk = partial(StreamConfig, retention=RetentionPolicy.LIMITS, storage=StorageType.FILE)

STREAMS = (
    StreamConfig(
        name=subjects.WAKE_STREAM,
        subjects=[subjects.WAKE_SUBJECTS, subjects.PRIORITY_SUBJECTS],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
        max_msgs_per_subject=1,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        duplicate_window=1.0,
    ),
    _on_disk(
        name=subjects.LOG_STREAM,
        subjects=list(subjects.LOG_SUBJECTS),
        allow_direct=True,
        # who may delete a message is a matter of permissions: erasing overwrites each one on the disk
        deny_delete=False,
        # no rollup, no per-message TTL: one header of one tenant could erase what others wrote
        allow_rollup_hdrs=False,
        duplicate_window=DUPLICATE_WINDOW_SECONDS,
        # in a cluster S2 damages what is on the disk (see `infra/docs/decisions.md`)
        compression=StoreCompression.NONE,
        republish=RePublish(src=subjects.SAID_SUBJECTS, dest=subjects.SPILL_WAKE_TRANSFORM, headers_only=True),
    ),
    _on_disk(
        name=subjects.SNAPSHOT_STREAM,
        subjects=[subjects.SNAPSHOT_SUBJECTS, subjects.SWEEP_SUBJECT, subjects.BEGUN_SUBJECTS],
        max_msgs_per_subject=2,
        allow_direct=True,
        duplicate_window=DEFAULT_WINDOW_SECONDS,
        compression=StoreCompression.NONE,
    ),
    _on_disk(
        name=subjects.KEY_STREAM,
        subjects=[subjects.KEY_SUBJECTS],
        # the first key of a conversation stays: an agent may make one, and nobody writes over it
        max_msgs_per_subject=1,
        discard=DiscardPolicy.NEW,
        discard_new_per_subject=True,
        allow_direct=True,
        deny_delete=False,
        duplicate_window=DEFAULT_WINDOW_SECONDS,
    ),
    _on_disk(
        name=subjects.DEAD_LETTER_STREAM,
        subjects=[subjects.DEAD_LETTER_SUBJECTS],
        # no age: what was given up waits for a person, and is at most one letter for each actor's conversation
        max_msgs_per_subject=1,
        duplicate_window=DEFAULT_WINDOW_SECONDS,
    ),
    _on_disk(
        name=subjects.GATEWAY_STREAM,
        subjects=[subjects.GATEWAY_SUBJECTS, subjects.SESSION_SUBJECTS],
        # the newest is all that counts; what nobody asked for in so long begins anew
        max_msgs_per_subject=1,
        max_age=GATEWAY_DAYS * 86_400.0,
        allow_direct=True,
        duplicate_window=DEFAULT_WINDOW_SECONDS,
    ),
    _on_disk(
        name=subjects.LIST_STREAM,
        subjects=[subjects.LIST_SUBJECTS],
        # no limit for each subject: what is replaced is overwritten on the disk by who replaces it, and not just hidden
        allow_direct=True,
        deny_delete=False,
        duplicate_window=DEFAULT_WINDOW_SECONDS,
    ),
)
"""The wanted streams, in the order in which they must be made."""


def streams(replicas: int = 1, layout: Layout = ONE) -> tuple[StreamConfig, ...]:
    """Return the wanted streams with *replicas* copies each, in the order in which they must be made."""
    parts = (one for config in STREAMS for one in parts_of(config, layout))
    return tuple(config.evolve(num_replicas=replicas) for config in parts)


def consumer(actor: subjects.Actor, lane: subjects.Lane = "normal") -> ConsumerConfig:
    """Return the wanted durable consumer of *actor*'s lane: its slots, each for one worker at a time."""
    return ConsumerConfig(
        durable_name=subjects.durable(actor, lane),
        filter_subject=subjects.wake_filter(actor, lane),
        ack_policy=AckPolicy.EXPLICIT,
        ack_wait=ACK_WAIT_SECONDS,
        max_ack_pending=ACK_PENDING_MAX,
        # Poison is decided by the worker. This counter counts bad luck and killed workers too, and when it is used up
        # the server says so to nobody in particular, never delivers the slot again, and leaves it filled for ever.
        max_deliver=UNLIMITED,
    )


def consumers() -> tuple[ConsumerConfig, ...]:
    """Return all wanted consumers."""
    return tuple(consumer(actor, lane) for actor in subjects.ACTORS for lane in subjects.LANES)


async def provision(connection: NatsConnection, *, replicas: int = 1, partitions: int = 0) -> None:
    """Make or update all streams and consumers; running it again changes nothing.

    The log gets so many *partitions* where there is none yet; 0: as many as there are, else one. Raises `Rejected`
    where the server cannot do it, `LogUnavailable` where it does not answer.
    """
    jetstream = connection.jetstream(timeout=5)
    try:
        layout = await _wanted_layout(connection, partitions)
        for config in streams(replicas, layout):
            await made_or_updated(jetstream, config)
        for stream in layout.streams(subjects.WAKE_STREAM):
            for wanted in consumers():
                await jetstream.add_consumer(stream, wanted)
        if layout.partitions > 1:
            await leaders_spread(connection, layout)
    except APIError as error:
        if error.code in (503, None):
            with suppress(NotProvisioned):
                await check_there(connection)
            raise LogUnavailable(
                f"JetStream does not answer: {reason_of(error)}; is it enabled on this server?"
            ) from None
        raise Rejected(f"NATS refused to provision: {error.description}", err_code=error.err_code) from None
    except TRANSIENT as error:
        raise LogUnavailable(f"JetStream does not answer ({reason_of(error)}); is it enabled?") from None


async def _wanted_layout(connection: NatsConnection, partitions: int) -> Layout:
    try:
        first = (await connection.jetstream(timeout=5).stream_info(subjects.LOG_STREAM)).config
    except NotFoundError:
        layout = grown(ONE, partitions or 1)
    else:
        layout = await layout_beside(connection, first)
    if layout.moving:
        raise Rejected(grows(layout))
    if partitions not in (0, layout.partitions):
        grown(layout, partitions)  # says so where there would be fewer
        raise Rejected(
            f"the log has {layout.partitions} partitions; jettison repartition {partitions} moves what is in it",
            partitions=layout.partitions,
        )
    if layout.partitions > 1:
        await check_computes_shards(connection)
    return layout


async def made_or_updated(jetstream: JetStreamContext, config: StreamConfig) -> None:
    """Make a stream, or what differs from *config* in the one that is there. Raises as nats-py does."""
    try:
        found = await jetstream.stream_info(config.name or "")
    except NotFoundError:
        await jetstream.add_stream(config)
    else:
        # never fewer copies than there are: forgetting `--replicas` must not cost a cluster its safety
        copies = max(config.num_replicas or 1, found.config.num_replicas or 1)
        # a server that is killed while it writes a configuration may not know the stream any more
        differs = _differences("", config, found.config) or _limited(config, found.config)
        if differs or copies != (found.config.num_replicas or 1):
            await jetstream.update_stream(config.evolve(num_replicas=copies))


def _limited(wanted: StreamConfig, there: StreamConfig) -> bool:
    """Tell whether somebody gave a stream a limit that is not *wanted*; a server says -1 for none."""
    limits = ("max_msgs", "max_bytes", "max_age")
    return any(getattr(wanted, one) is None and getattr(there, one) not in (None, 0, -1) for one in limits)


async def drift(connection: NatsConnection, *, replicas: int = 1) -> list[Drift]:
    """Return the differences of the server's streams and consumers from the wanted ones."""
    jetstream = connection.jetstream(timeout=5)
    found: list[Drift] = []
    layout = await layout_of(connection)
    for config in streams(replicas, layout):
        name = config.name or ""
        found += await _compared("stream", name, config, jetstream.stream_info(name))
    for stream in layout.streams(subjects.WAKE_STREAM):
        for wanted in consumers():
            durable = wanted.durable_name or ""
            asking = jetstream.consumer_info(stream, durable)
            found += await _compared("consumer", f"{stream}/{durable}", wanted, asking)
    return found


async def _compared(kind: str, name: str, wanted: Any, asking: Awaitable[StreamInfo | ConsumerInfo]) -> list[Drift]:
    try:
        there = (await asking).config
    except NotFoundError:
        return [Drift(name=name, setting=kind, wanted="present", found="missing")]
    return _differences(name, wanted, there)


def _differences(name: str, wanted: Any, there: Any) -> list[Drift]:
    out = []
    for setting, value in vars(wanted).items():
        actual = getattr(there, setting)
        # `null` in an answer of the server means the default that was asked for
        if value in (None, 0, False) and actual in (None, 0, False):
            continue
        if setting == "metadata" and value is not None:
            actual = {key: (actual or {}).get(key) for key in value}  # the server's own words besides
        if value is not None and value != actual and setting != "num_replicas":
            if isinstance(value, list) and isinstance(actual, list):
                # a partition listens to dozens of subjects: what both have says nothing
                value, actual = [one for one in value if one not in actual], [one for one in actual if one not in value]
            out.append(Drift(name=name, setting=setting, wanted=_shown(value), found=_shown(actual)))
    return out


def _shown(value: Any) -> str:
    return reprlib.repr(value) if isinstance(value, list) else str(value.value if isinstance(value, Enum) else value)
