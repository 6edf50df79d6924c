"""The model: from what one turn, one partition and one conversation take to servers, workers, disks and euro.

Arithmetic alone: what was measured comes from `make bench PART=limits`, everything else is asked of the reader.
"""

from __future__ import annotations

import math

import msgspec

HOUR_SECONDS = 3_600.0
MONTH_DAYS = 30.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine was measured to take; each by `make bench PART=limits`."""

    append_ms: float
    """CPU of nats-server for one append. One stream's leader writes one after another: a processor at most."""
    commit_ms: float
    """The same for a commit."""
    worker_ms: float
    """CPU of all workers for a turn."""
    server_ms: float
    """CPU of nats-server for a turn, one copy."""
    turn_bytes: float
    """Written to all streams for a turn."""
    restart_seconds: float
    """A killed server is away, with `restart_conversations`."""
    restart_conversations: float
    conversation_bytes: float
    """Memory of nats-server for each conversation."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the reader knows: the agents, and the machines that they rent."""

    agents: int
    turns_per_hour: float = 20.0
    """Of one agent while it works; a turn is a question, a call, its result and an answer."""
    working_share: float = 0.3
    """Of all agents, in the busiest hour."""
    hours_per_day: float = 10.0
    """In which so many work."""
    conversations_per_agent: float = 10.0
    """Kept in the log at once."""
    stored_bytes: float = 8_000.0
    """Of a turn, stored in S3."""
    kept_days: float = 30.0
    appends_per_turn: float = 3.0
    commits_per_turn: float = 3.0
    copies: int = 3
    copies_share: float = 0.5
    """Of the rate of one copy, what a stream with *copies* takes."""
    busy_share: float = 0.5
    """Of a processor or of a partition, at the busiest: the rest is for bursts and for a server that is away."""
    machine_cores: int = 8
    machine_gb: float = 32.0
    euro_machine: float = 60.0
    """A month, one machine."""
    euro_disk_gb: float = 0.05
    """A month, one GB of a fast disk."""
    euro_store_gb: float = 0.006
    """A month, one GB in S3."""


class Sized(msgspec.Struct, frozen=True, kw_only=True):
    """What so many agents take."""

    agents: int
    turns_per_second: float
    partitions: int
    servers: int
    worker_cores: float
    worker_machines: int
    disk_gb: float
    """Of each server."""
    server_memory_gb: float
    """Of each server, for subjects; what it caches of files comes on top."""
    store_gb: float
    restart_seconds: float
    """A killed server is away; with copies, the others go on in the meantime."""
    euro: float
    """A month."""


def sized(asked: Asked, measured: Measured) -> Sized:
    """Return what *asked* takes on machines like the one that was *measured*."""
    peak = asked.agents * asked.working_share * asked.turns_per_hour / HOUR_SECONDS
    leading_ms = asked.appends_per_turn * measured.append_ms + asked.commits_per_turn * measured.commit_ms
    partitions = max(1, math.ceil(peak * leading_ms / 1e3 / (asked.copies_share * asked.busy_share)))
    conversations = asked.agents * asked.conversations_per_agent
    log_gb = peak * HOUR_SECONDS * asked.hours_per_day * asked.kept_days * measured.turn_bytes / 1e9
    memory_gb = conversations * measured.conversation_bytes / 1e9
    server_cores = peak * measured.server_ms / 1e3 * asked.copies / asked.busy_share
    servers = max(
        asked.copies,
        math.ceil(server_cores / asked.machine_cores),
        # each copy of a stream knows its subjects
        math.ceil(memory_gb * asked.copies / (asked.machine_gb * asked.busy_share)),
        # a leader for each partition wants a processor of its own
        math.ceil(partitions / asked.machine_cores),
    )
    worker_cores = peak * measured.worker_ms / 1e3 / asked.busy_share
    workers = max(2, math.ceil(worker_cores / asked.machine_cores))
    disk_gb = log_gb * asked.copies / servers
    store_gb = peak * HOUR_SECONDS * asked.hours_per_day * asked.kept_days * asked.stored_bytes / 1e9
    return Sized(
        agents=asked.agents,
        turns_per_second=peak,
        partitions=partitions,
        servers=servers,
        worker_cores=worker_cores,
        worker_machines=workers,
        disk_gb=disk_gb,
        server_memory_gb=memory_gb * asked.copies / servers,
        store_gb=store_gb,
        restart_seconds=measured.restart_seconds
        * conversations
        * asked.copies
        / servers
        / measured.restart_conversations,
        euro=(servers + workers) * asked.euro_machine
        + disk_gb * servers * asked.euro_disk_gb
        + store_gb * asked.euro_store_gb,
    )
