"""Durability: settings of a server under which it may lose what it has acknowledged."""

from __future__ import annotations

import asyncio
import urllib.request
from typing import Any

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import DiscardPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import LogUnavailable

MONITOR_SECONDS = 3.0


class Hazard(msgspec.Struct, frozen=True, kw_only=True):
    """One way to lose acknowledged facts, and what to do about it."""

    name: str
    what: str
    fix: str


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """How the log is kept."""

    replicas: int
    hazards: tuple[Hazard, ...]


async def looked_at(connection: NatsConnection, *, replicas: int) -> Kept:
    """Return what may lose facts of the log, of which there should be *replicas* copies. Raises `LogUnavailable`."""
    try:
        info = await connection.jetstream(timeout=5).stream_info(subjects.LOG_STREAM)
    except NotFoundError:
        return Kept(replicas=0, hazards=())
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the log does not answer: {type(error).__name__}") from None
    copies = info.config.num_replicas or 1
    return Kept(replicas=copies, hazards=(*_of_config(info.config), *_of_copies(info, copies, replicas)))


async def is_synced(monitor_url: str) -> bool:
    """Tell from a server's monitoring port whether it syncs each write before it acknowledges it.

    Raises `LogUnavailable` if nothing answers there, or not a NATS server with JetStream.
    """

    def asked() -> Any:
        with urllib.request.urlopen(f"{monitor_url.rstrip('/')}/varz", timeout=MONITOR_SECONDS) as answer:
            return msgspec.json.decode(answer.read())

    try:
        return bool((await asyncio.to_thread(asked))["jetstream"]["config"].get("sync_always", False))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LogUnavailable(f"no NATS server answers at {monitor_url}: {type(error).__name__}") from None


def _of_config(config: StreamConfig) -> list[Hazard]:
    found = []

    def add(what: str, fix: str) -> None:
        found.append(Hazard(name=subjects.LOG_STREAM, what=what, fix=fix))

    if config.storage == StorageType.MEMORY:
        add("it is kept in memory: a restart of the server loses every fact", "make the stream anew with file storage")
    if config.max_age:
        add(
            f"facts are dropped after {config.max_age:.0f} s (max_age)",
            "jettison provision; archive by `jettison export`",
        )
    limits = {"max_msgs": config.max_msgs, "max_bytes": config.max_bytes}
    limits["max_msgs_per_subject"] = config.max_msgs_per_subject
    if config.discard != DiscardPolicy.NEW:
        for setting, limit in limits.items():
            if limit is not None and limit > 0:
                add(f"the oldest facts are dropped at {setting} {limit}", "remove the limit, or set discard: new")
    return found


def _of_copies(info: StreamInfo, copies: int, wanted: int) -> list[Hazard]:
    found = []
    if copies < wanted:
        found.append(
            Hazard(
                name=subjects.LOG_STREAM,
                what=f"there are {copies} copies of it, wanted are {wanted}",
                fix=f"jettison provision --replicas {wanted}",
            )
        )
    away = [peer.name or "?" for peer in (info.cluster.replicas or () if info.cluster else ()) if peer.offline]
    if away:
        found.append(
            Hazard(
                name=subjects.LOG_STREAM,
                what=f"a copy is on a server that is gone: {', '.join(away)}; one more and nothing is acknowledged",
                fix="start that server again, or remove it from the cluster",
            )
        )
    return found
