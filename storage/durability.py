"""Durability: settings of a server under which it may lose what it has acknowledged."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import DiscardPolicy, StorageType, StreamConfig, StreamInfo
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, reason_of
from protocol.errors import LogUnavailable

from .known_layout import known_layout

MONITOR_SECONDS = 3.0


class Hazard(msgspec.Struct, frozen=True, kw_only=True):
    """One way to lose acknowledged facts, and what to do about it."""

    name: str
    what: str
    fix: str


class LogCopies(msgspec.Struct, frozen=True, kw_only=True):
    """How the log is kept."""

    replicas: int
    hazards: tuple[Hazard, ...]


async def looked_at(connection: NatsConnection, *, replicas: int) -> LogCopies:
    """Return the ways in which the log may lose facts; it should have *replicas* copies. Raises `LogUnavailable`."""
    parts = [
        await _looked_at(connection, stream, replicas=replicas)
        for stream in await known_layout(connection).streams(subjects.LOG_STREAM)
    ]
    return LogCopies(
        replicas=min(part.replicas for part in parts), hazards=tuple(one for part in parts for one in part.hazards)
    )


async def _looked_at(connection: NatsConnection, stream: str, *, replicas: int) -> LogCopies:
    try:
        info = await connection.jetstream(timeout=5).stream_info(stream)
    except NotFoundError:
        return LogCopies(replicas=0, hazards=())
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"the log does not answer: {reason_of(error)}") from None
    copies = info.config.num_replicas or 1
    hazards = (*_of_config(info.config), *_of_copies(info, copies, replicas))
    named = tuple(msgspec.structs.replace(one, name=stream) for one in hazards)
    return LogCopies(replicas=copies, hazards=named)


async def is_synced(monitor_url: str) -> bool:
    """Tell from a server's monitoring port whether it syncs each write before it acknowledges it.

    Raises `LogUnavailable` if nothing answers there, or not a NATS server with JetStream.
    """
    return bool((await _of_jetstream(monitor_url, "config")).get("sync_always", False))


async def filled(monitor_url: str) -> float:
    """Return the share of its storage that a server has given away. Raises `LogUnavailable` as `is_synced` does."""
    stats, config = await _of_jetstream(monitor_url, "stats"), await _of_jetstream(monitor_url, "config")
    return int(stats.get("storage", 0)) / max(1, int(config.get("max_storage", 0)))


async def trouble(monitor_url: str) -> str:
    """Return a server's own report of trouble, empty if there is none: a write that failed, a stream that is away.

    After a write that failed (a full disk), a stream takes no other one until its server is started anew, though
    there is room again, and says so nowhere else: who publishes is told nothing (measured on 2.15). Raises
    `LogUnavailable` if no NATS server answers there.
    """
    found = await monitored(monitor_url, "healthz")
    return "" if found.get("status") == "ok" else str(found.get("error") or found.get("status"))


async def _of_jetstream(monitor_url: str, what: str) -> dict[str, Any]:
    found = (await monitored(monitor_url, "varz")).get("jetstream")
    part = found.get(what) if isinstance(found, dict) else None
    if not isinstance(part, dict):
        raise LogUnavailable(f"the server at {monitor_url} has no JetStream")
    return part


async def monitored(monitor_url: str, page: str) -> dict[str, Any]:
    """Return a page of a server's monitoring port. Raises `LogUnavailable` if no NATS server answers there."""
    if not monitor_url.startswith(("https://", "http://")):
        raise LogUnavailable(f"{monitor_url} is no address of a monitoring port: http://HOST:8222")
    address = f"{monitor_url.rstrip('/')}/{page}"

    def asked() -> bytes:
        try:
            with urllib.request.urlopen(address, timeout=MONITOR_SECONDS) as answer:  # noqa: S310  # looked at above
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            # who is not healthy says so with a 503
            return error.read()

    try:
        return msgspec.json.decode(await asyncio.to_thread(asked), type=dict[str, Any])
    except (OSError, ValueError) as error:
        raise LogUnavailable(f"no NATS server answers at {monitor_url}: {type(error).__name__}") from None


def _of_config(config: StreamConfig) -> Iterator[Hazard]:
    if config.storage == StorageType.MEMORY:
        lost = "it is kept in memory: a restart of the server loses every fact"
        yield _of_log(lost, "make the stream anew with file storage")
    if config.max_age:
        dropped = f"facts are dropped after {config.max_age:.0f} s (max_age)"
        yield _of_log(dropped, "jettison provision; archive by `jettison export`")
    limits = {"max_msgs": config.max_msgs, "max_bytes": config.max_bytes}
    limits["max_msgs_per_subject"] = config.max_msgs_per_subject
    for setting, limit in limits.items() if config.discard != DiscardPolicy.NEW else ():
        if limit is not None and limit > 0:
            dropped = f"the oldest facts are dropped at {setting} {limit}"
            yield _of_log(dropped, "remove the limit, or set discard: new")


def _of_copies(info: StreamInfo, copies: int, wanted: int) -> Iterator[Hazard]:
    if copies < wanted:
        few = f"there are {copies} copies of it, wanted are {wanted}"
        yield _of_log(few, f"jettison provision --replicas {wanted}")
    away = [peer.name or "?" for peer in (info.cluster.replicas or () if info.cluster else ()) if peer.offline]
    if away:
        gone = f"a copy is on a server that is gone: {', '.join(away)}; one more and nothing is acknowledged"
        yield _of_log(gone, "start that server again, or remove it from the cluster")


def _of_log(what: str, fix: str) -> Hazard:
    return Hazard(name=subjects.LOG_STREAM, what=what, fix=fix)
