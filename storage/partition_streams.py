"""Partition streams: how the streams differ that are there once for each partition, and what their server must do."""

from __future__ import annotations

import json
from contextlib import suppress

from nats.aio.client import Client as NatsConnection
from nats.js.api import RePublish, StreamConfig, StreamInfo, SubjectTransform

from protocol import guarded, subjects
from protocol.connection import TRANSIENT
from protocol.errors import Rejected

from .known_layout import PARTITIONS_KEY
from .partitions import PARTITIONED, Layout, first_seq, stream_of

ANSWER_SECONDS = 5.0

ONLY_HERE = {subjects.SNAPSHOT_STREAM: [subjects.SWEEP_SUBJECT, f"{subjects.SWEEP_SUBJECT}.*", subjects.BEGUN_SUBJECTS]}
"""What the first partition alone listens to: it is no conversation's, or a few bytes that are seldom written."""


def parts_of(alone: StreamConfig, layout: Layout) -> list[StreamConfig]:
    """Return the stream that *alone* describes, or all its parts: the first one, which names their number, last."""
    name = alone.name or ""
    if name not in PARTITIONED:
        return [alone]
    src, dest = subjects.SHARD_STORED[name]
    parted = alone.evolve(subject_transform=SubjectTransform(src=src, dest=dest))
    if layout.partitions == 1:
        # also under the subjects of all shards: whether servers compute them already makes no difference
        return [parted.evolve(subjects=[*(alone.subjects or ()), *subjects.SHARD_SUBJECTS[name]])]
    return [_part(parted, layout, partition) for partition in reversed(range(layout.partitions))]


def _part(parted: StreamConfig, layout: Layout, partition: int) -> StreamConfig:
    name = parted.name or ""
    listens = [one for shard in layout.of(partition) for one in subjects.sharded(name, shard)]
    part = parted.evolve(
        name=stream_of(name, partition), subjects=[*(ONLY_HERE.get(name, ()) if not partition else ()), *listens]
    )
    if name == subjects.LOG_STREAM:
        part = part.evolve(
            subjects=[
                *listens,
                *(subjects.arriving(one, partition) for one in subjects.LOG_SUBJECTS),
                subjects.barrier(partition),
            ],
            metadata={PARTITIONS_KEY: str(layout.partitions)},
            first_seq=first_seq(partition),
            republish=RePublish(src=subjects.SAID_SUBJECTS, dest=subjects.SHARD_WAKE_TRANSFORM, headers_only=True),
        )
    return part


async def computes_shards(connection: NatsConnection) -> bool:
    """Tell whether the server puts the shard into what is published. Raises `NotPermitted` for all but an operator."""
    published, seen = "ctx.v1.log.doctor.shards.said", "ctx.v1.shard.*.log.doctor.shards.said"
    inbox = connection.new_inbox()
    seeing, hearing = await connection.subscribe(seen), await connection.subscribe(inbox)
    try:
        # no stream takes it, wherever it arrives; and where none is there yet, nobody answers
        await connection.publish(published, reply=inbox, headers={"Nats-Expected-Stream": "none"})
        for _ in range(2):
            await connection.flush()  # nats-py asks ahead of what it has still to send: behind the first that is sent
        if hearing.pending_msgs:
            guarded.check(await hearing.next_msg())
        return seeing.pending_msgs > 0
    finally:
        await seeing.unsubscribe()
        await hearing.unsubscribe()


async def check_computes_shards(connection: NatsConnection) -> None:
    """Raise `Rejected` where the server does not, and `NotPermitted` for all but an operator."""
    if not await computes_shards(connection):
        raise Rejected(
            "the server does not compute shards, which partitions need: include infra/nats/shards.conf in the account "
            "of the log on every server, and reload them"
        )


async def leaders_spread(connection: NatsConnection, layout: Layout) -> None:
    """Have each server of a cluster lead as many partitions as the others; one that refuses leaves it as it is."""
    for name, wanted in (await leaders_away(connection, layout)).items():
        request = json.dumps({"placement": {"preferred": wanted}}).encode()
        with suppress(*TRANSIENT):
            await connection.request(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}", request, timeout=ANSWER_SECONDS)


async def leaders_away(connection: NatsConnection, layout: Layout) -> dict[str, str]:
    """Return the streams that another server should lead, and which. Raises as nats-py does."""
    jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
    names = [(name, partition) for one in PARTITIONED for partition, name in enumerate(layout.streams(one))]
    homes = {name: _home(await jetstream.stream_info(name), partition) for name, partition in names}
    return {name: home for name, home in homes.items() if home}


def _home(found: StreamInfo, partition: int) -> str:
    """Return the server that should lead a *partition*'s stream and does not; empty where all is well."""
    if found.cluster is None or not found.cluster.replicas:
        return ""
    servers = sorted({found.cluster.leader or "", *(one.name or "" for one in found.cluster.replicas)})
    wanted = servers[partition % len(servers)]
    return "" if wanted == found.cluster.leader else wanted
