"""Adapters: who keeps each port. Whoever keeps conversations elsewhere names an adapter here, and nowhere else.

What is done to streams themselves (`provision`, `backup`, more partitions) is a matter of JetStream alone, and no port.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from nats.aio.client import Client as NatsConnection

from protocol.keys import FolderKeys, JetStreamKeys
from storage.announcing import NatsAnnouncer, NatsRequests
from storage.archives import ArchivedLog, S3Archives
from storage.dead_letters import JetStreamDeadLetters
from storage.encrypted import EncryptedLog, EncryptedSnapshots
from storage.erasure_ports import Erasure
from storage.gateway_places import GatewayPlaces, JetStreamPlaces
from storage.gateway_sessions import GatewaySessions, JetStreamSessions
from storage.hearing import NatsHearing
from storage.in_progress import JetStreamInProgress
from storage.jetstream import JetStreamLog
from storage.jetstream_erasure import JetStreamErasure
from storage.jetstream_snapshots import JetStreamSnapshots
from storage.kept_list import JetStreamKeptList
from storage.known_layout import Pinned
from storage.list_ports import KeptList
from storage.log_changes import JetStreamLogChanges
from storage.ports import Anchors, Archives, Artifacts, EventLog, Keys
from storage.s3 import S3Anchors, S3Artifacts
from storage.stuck_slots import JetStreamStuckSlots
from storage.sweep_ports import LogChanges, StuckSlots
from storage.wakes import JetStreamWakes
from storage.work_ports import Announcer, DeadLetters, Hearing, InProgress, Requests, Wakes

from .settings import Settings


@dataclass(frozen=True, kw_only=True)
class Stores:
    """All that a process keeps anything in, each store by its port."""

    log: EventLog
    stored: EventLog
    """The log as its stream has it, encrypted and without what is archived."""
    archives: Archives
    anchors: Anchors
    erasure: Erasure
    snapshots: EncryptedSnapshots
    artifacts: Artifacts
    wakes: Wakes
    in_progress: InProgress
    dead_letters: DeadLetters
    changes: LogChanges
    stuck_slots: StuckSlots
    kept_list: KeptList
    keys: Keys
    announcer: Announcer
    requests: Requests
    sessions: GatewaySessions
    hearing: Hearing | None = None
    """Of a log that is no stream of NATS."""


def stores_on(
    connection: NatsConnection, artifacts: S3Artifacts, *, tenants: FolderKeys | None, writes_snapshots: bool
) -> Stores:
    """Return the stores of a process: on *connection*, and in the bucket of *artifacts*."""
    keys = JetStreamKeys(connection, tenants=tenants)
    archives = S3Archives(artifacts)
    stored: EventLog = JetStreamLog(connection)
    snapshots = JetStreamSnapshots(connection, writes=writes_snapshots)
    return Stores(
        log=_opened(stored, archives=archives, keys=keys),
        stored=stored,
        archives=archives,
        anchors=S3Anchors(artifacts),
        erasure=JetStreamErasure(connection),
        snapshots=EncryptedSnapshots(snapshots, keys=keys, artifacts=artifacts),
        artifacts=artifacts,
        wakes=JetStreamWakes(connection),
        in_progress=JetStreamInProgress(connection),
        dead_letters=JetStreamDeadLetters(connection),
        changes=JetStreamLogChanges(connection),
        stuck_slots=JetStreamStuckSlots(connection),
        kept_list=JetStreamKeptList(connection),
        keys=keys,
        announcer=NatsAnnouncer(connection),
        requests=NatsRequests(connection),
        sessions=JetStreamSessions(connection),
        hearing=None if isinstance(stored, JetStreamLog) else NatsHearing(connection, stored),
    )


def objects(settings: Settings) -> S3Artifacts:
    """Return the store of bytes in the bucket that *settings* name; who opens it closes it."""
    return S3Artifacts(settings.s3)


def log_elsewhere(connection: NatsConnection, here: Stores) -> EventLog:
    """Return the log of the server at *connection*, a copy of ours: its keys and its archives are *here*."""
    return _opened(JetStreamLog(connection), archives=here.archives, keys=here.keys)


def log_of_partition(connection: NatsConnection, partition: int) -> EventLog:
    """Return the log as one *partition* has it."""
    return JetStreamLog(connection, layout=Pinned(partition))


def tenant_keys(settings: Settings) -> FolderKeys | None:
    """Return the keys that wrap those of conversations; None where the log is kept in plain text."""
    if not settings.keys.folder:
        return None
    return FolderKeys(folder=Path(settings.keys.folder), makes=settings.keys.make)


@dataclass(frozen=True, kw_only=True)
class GatewayStores:
    """What a gateway keeps things in beside the log, which it speaks to as a client."""

    keys: JetStreamKeys
    """Its client takes these: what an agent reads of keys is on NATS."""
    places: GatewayPlaces
    sessions: GatewaySessions


def gateway_stores_on(connection: NatsConnection, *, tenants: FolderKeys | None) -> GatewayStores:
    """Return the stores of a gateway, which reads keys as an agent does."""
    return GatewayStores(
        keys=JetStreamKeys(connection, tenants=tenants, read="direct"),
        places=JetStreamPlaces(connection),
        sessions=JetStreamSessions(connection),
    )


def _opened(stored: EventLog, *, archives: Archives, keys: Keys) -> EventLog:
    """Return *stored* as it reads: what was archived is in it, and all of it is decrypted."""
    return EncryptedLog(ArchivedLog(stored, archives=archives), keys=keys)
