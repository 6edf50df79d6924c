"""Partition growth: what the streams listen to while shards move from one to another, a step at a time.

Each step says what should be, and is harmless where it is so already. Two streams never listen to the same shard: the
server refuses it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nats.aio.client import Client as NatsConnection
from nats.js.api import StreamConfig
from nats.js.errors import APIError

from protocol import subjects
from protocol.connection import TRANSIENT, publish, reason_of, until
from protocol.errors import PROVISION, Busy, LogUnavailable, NotProvisioned, OutcomeUnknown, Rejected
from protocol.ids import fresh_id

from .erasure import removed
from .known_layout import PARTITIONS_KEY, TARGET_KEY, config_of, layout_beside
from .partition_streams import check_computes_shards, parts_of
from .partitions import PARTITIONED, Layout, grown, stream_of, target_in, target_told
from .streams import STREAMS, consumers, made_or_updated, provision

ANSWER_SECONDS = 5.0
PATIENCE_SECONDS = 30.0


async def wanted(connection: NatsConnection, partitions: int) -> tuple[Layout, Layout | None]:
    """Return the layout, and the one that is wanted; None where that is the same.

    Raises `Rejected` for fewer partitions, or others than a growth that was begun is for; `NotProvisioned`.
    """
    first = await _config(connection, subjects.LOG_STREAM)
    layout = await layout_beside(connection, first)
    under_way = target_in((first.metadata or {}).get(TARGET_KEY, ""))
    if under_way is not None and under_way.partitions != partitions:
        raise Rejected(f"a growth to {under_way.partitions} partitions is under way: end that one first")
    if under_way is None and layout.partitions == partitions:
        return layout, None
    await check_computes_shards(connection)
    return layout, under_way or grown(layout, partitions)


async def begun(connection: NatsConnection, layout: Layout, target: Layout) -> Layout:
    """Make the new streams, and say in the log's first one that shards move. Return who has what."""
    first = await _config(connection, subjects.LOG_STREAM)
    if (first.metadata or {}).get(TARGET_KEY):
        return layout
    now = Layout(partitions=target.partitions, shards=layout.shards)
    jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
    parts = [one for config in STREAMS if config.name in PARTITIONED for one in parts_of(config, now)]
    parts.sort(key=lambda part: part.name == subjects.LOG_STREAM)  # what says that shards move comes last
    try:
        for part in (one.evolve(num_replicas=first.num_replicas) for one in parts):
            if part.name == subjects.LOG_STREAM:
                part = part.evolve(metadata={**(part.metadata or {}), TARGET_KEY: target_told(target)})
            elif part.name == subjects.WAKE_STREAM:
                # the log that is in one stream still republishes to it
                plain = [subjects.WAKE_SUBJECTS, subjects.PRIORITY_SUBJECTS]
                part = part.evolve(subjects=[*plain, *(part.subjects or ())])
            await made_or_updated(jetstream, part)
            if (part.name or "").startswith(subjects.WAKE_STREAM):
                for consumer in consumers():
                    await jetstream.add_consumer(part.name or "", consumer)
    except APIError as error:
        raise Rejected(f"NATS refused a partition: {error.description}", err_code=error.err_code) from None
    except TRANSIENT as error:
        raise LogUnavailable(f"JetStream does not answer ({reason_of(error)}); run it again") from None
    return now


async def frozen(connection: NatsConnection, shard: int, source: int, target: Layout) -> None:
    """Let nobody write to a *shard* of the log any more; its wake-ups and snapshots go to the new partition already."""
    destination = target.shards[shard]
    for stream in (subjects.WAKE_STREAM, subjects.SNAPSHOT_STREAM):
        await _listens(connection, stream_of(stream, source), shard, subjects.shard_in, to=[])
        to = subjects.sharded(stream, shard)
        await _listens(connection, stream_of(stream, destination), shard, subjects.shard_in, to=to)
    log = stream_of(subjects.LOG_STREAM, source)
    await _listens(connection, log, shard, subjects.shard_in, to=[], also=[subjects.leaving(shard)])
    # what was on its way is stored before this is
    barrier, headers = subjects.barrier(source), {"Nats-Msg-Id": fresh_id()}
    seq = await publish(connection, barrier, b"", headers=headers, deadline_seconds=PATIENCE_SECONDS)
    await removed(connection, stream=log, seqs=[seq])


async def thawed(connection: NatsConnection, shard: int, source: int, target: Layout, *, left: bool = False) -> None:
    """Let the new partition take what is written to a *shard*; the old one knows of it until it *left*."""
    destination = stream_of(subjects.LOG_STREAM, target.shards[shard])
    to = subjects.sharded(subjects.LOG_STREAM, shard)
    await _listens(connection, destination, shard, subjects.shard_in, to=to)
    if left:
        await _listens(connection, stream_of(subjects.LOG_STREAM, source), shard, subjects.leaving_in, to=[])


async def listening(connection: NatsConnection, target: Layout) -> list[tuple[int, int]]:
    """Return the partitions that still know of a shard which left them, and the shard."""
    found = []
    for partition, stream in enumerate(target.streams(subjects.LOG_STREAM)):
        patterns = (await _config(connection, stream)).subjects or ()
        found += [(partition, shard) for shard in map(subjects.leaving_in, patterns) if shard is not None]
    return found


async def ended(connection: NatsConnection, target: Layout) -> None:
    """Say that nothing moves any more, and make all streams what they are from now on."""
    first = await _config(connection, subjects.LOG_STREAM)
    told = (first.metadata or {}).get(TARGET_KEY)
    if told and told != target_told(target):
        return  # another run was faster, and the next growth goes on
    if told:
        await _updated(connection, first.evolve(metadata={PARTITIONS_KEY: str(target.partitions)}))
    # who said so may not have come to this
    await provision(connection, replicas=first.num_replicas or 1)


async def _listens(
    connection: NatsConnection,
    stream: str,
    shard: int,
    shard_of: Callable[[str], int | None],
    *,
    to: Sequence[str],
    also: Sequence[str] = (),
) -> None:
    """Have *stream* listen *to* these of all patterns of *shard*, which an older version may have named otherwise."""
    config = await _config(connection, stream)
    before = config.subjects or []
    others = [one for one in before if shard_of(one) != shard]
    after = [*others, *to, *(one for one in also if one not in before)]
    if set(after) != set(before):
        await _updated(connection, config.evolve(subjects=after))


async def _updated(connection: NatsConnection, config: StreamConfig) -> None:
    """Update a stream; a leader may be lost meanwhile. Raises `LogUnavailable`."""
    jetstream = connection.jetstream(timeout=ANSWER_SECONDS)
    try:
        await until(
            lambda: jetstream.update_stream(config),
            connection=connection,
            deadline_seconds=PATIENCE_SECONDS,
            what="a growth",
        )
    except (APIError, Busy, OutcomeUnknown) as error:
        why = reason_of(error) if isinstance(error, APIError) else str(error)
        raise LogUnavailable(f"{config.name} cannot be changed: {why}; run it again") from None


async def _config(connection: NatsConnection, stream: str) -> StreamConfig:
    found = await config_of(connection, stream, patience_seconds=PATIENCE_SECONDS)
    if found is None:
        raise NotProvisioned(f"a stream does not exist on this server; {PROVISION}")
    return found
