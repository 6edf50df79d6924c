"""One way to connect to NATS and to publish, for the client and the service alike.

nats-py's defaults are not ours: it gives up for ever after two minutes, and a publish that times out may
still be delivered later. Here a connection is retried without end once it stood, and an unconfirmed
publish is repeated with the same id until it is confirmed or the deadline says *unknown*.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

from .errors import Busy, LogUnavailable, NotProvisioned, OutcomeUnknown, Rejected
from .limits import HEADER_BYTES_RESERVED, PAYLOAD_BYTES_MAX

log = logging.getLogger("jettison.nats")

CONNECT_SECONDS = 2.0
"""An unreachable server is reported within this time; of several, each has as much."""

SERVER_VERSION_MIN = (2, 11)
"""Of nats-server: the first that answers a direct request with many messages."""

PING_SECONDS = 3.0
"""After three without an answer another server is tried: within twelve seconds. With ten between two pings a server
that hung was left after more than the thirty that an append waits."""

TRY_SECONDS = 2.0
"""How long one publish waits for its acknowledgement: above a slow fsync, below a person's patience."""

UNCONFIRMED_SECONDS = 10.0
"""When a server that confirms nothing is left for another one: it may be cut off from its cluster. A little longer than
the choice of a new leader takes."""

PAUSE_SECONDS = (0.05, 0.1, 0.2, 0.5, 1.0)
"""Pauses between tries; the last one repeats until the deadline."""

TRANSIENT = (TimeoutError, nats.errors.Error, NoStreamResponseError, ServiceUnavailableError, OSError)
"""What a lost connection, a restarting server or a missing leader look like from nats-py."""


FULL = "maximum "
INSUFFICIENT_RESOURCES = 10023
"""A server whose stream («maximum messages exceeded») or disk is full; the status 503 is also that of a lost leader."""

WRONG_LAST_SEQUENCES = (10071, 10164)
"""Another writer came first. The second is a cluster's word for one whose message is still being stored."""

STREAM_NOT_FOUND = 10059

IN_PROCESS = 10158
"""A cluster is storing this message id just now, from an earlier try: whether it lands is told to a later one."""


async def connect(url: str, *, name: str, options: Mapping[str, Any] | None = None) -> NatsConnection:
    """Return a connection to *url* that reconnects without end.

    Raises `LogUnavailable` within `CONNECT_SECONDS` for each server if none answers, `NotProvisioned` if the server is
    too old or takes small messages only.
    """
    started, servers = time.monotonic(), url.split(",")
    await _probe(url)
    random.shuffle(servers)  # here, and not at each reconnection: who leaves a server gets another one

    connection = NatsConnection()
    stood = False

    async def on_error(error: Exception) -> None:
        log.warning("nats: %s", type(error).__name__)

    async def on_disconnect() -> None:
        if stood and not connection.is_closed:
            log.warning("nats: disconnected from %s, reconnecting", _shown(url))

    async def on_reconnect() -> None:
        log.info("nats: connected again to %s", _shown(url))

    try:
        await asyncio.wait_for(
            connection.connect(
                servers,
                dont_randomize=True,
                name=name,
                connect_timeout=CONNECT_SECONDS,  # type: ignore[arg-type]  # seconds, handed to asyncio.wait_for
                reconnect_time_wait=0.2,  # type: ignore[arg-type]  # seconds, handed to asyncio.sleep
                max_reconnect_attempts=-1,
                ping_interval=PING_SECONDS,  # type: ignore[arg-type]  # seconds, handed to asyncio.sleep
                error_cb=on_error,
                disconnected_cb=on_disconnect,
                reconnected_cb=on_reconnect,
                **dict(options or {}),
            ),
            # the rest of the time, and at least a moment for who answered late
            timeout=max(0.5, CONNECT_SECONDS * len(servers) - (time.monotonic() - started)),
        )
    except (*TRANSIENT, ValueError) as error:
        await connection.close()
        raise LogUnavailable(f"NATS at {_shown(url)} refused: {type(error).__name__}", url=_shown(url)) from None
    if lacking := _lacking(connection):
        await connection.close()
        raise NotProvisioned(f"NATS at {_shown(url)} {lacking}", url=_shown(url))
    stood = True
    return connection


def _lacking(connection: NatsConnection) -> str:
    """Return why the server cannot be worked with; each would show later only, as bad luck that never ends."""
    with suppress(ValueError):  # a build of somebody's own, whose version is none: who has one knows what it can do
        version = connection.connected_server_version
        if (version.major, version.minor) < SERVER_VERSION_MIN:
            found, wanted = f"{version.major}.{version.minor}.{version.patch}", ".".join(map(str, SERVER_VERSION_MIN))
            return f"is version {found}, which is too old: {wanted} or newer is needed"
    if connection.max_payload < PAYLOAD_BYTES_MAX:
        return (
            f"takes messages of {connection.max_payload:,} bytes, and {PAYLOAD_BYTES_MAX:,} are needed: "
            "set `max_payload: 1MB` in the server's configuration"
        )
    return ""


async def publish(
    connection: NatsConnection, subject: str, body: bytes, *, headers: Mapping[str, str], deadline_seconds: float
) -> int:
    """Publish until the server confirms, and return the stream sequence.

    *headers* must hold a `Nats-Msg-Id`, so that the repeats are stored once. Raises `OutcomeUnknown` at
    the deadline, `Rejected` if the frame is too large, `Busy` if there is no room for it, `LogUnavailable` if the
    server refuses to store it.
    """
    assert "Nats-Msg-Id" in headers
    check_frame(body, headers)
    jetstream, what = connection.jetstream(), f"publish to {subject.rpartition('.')[2]}"

    async def attempt() -> int:
        ack = await jetstream.publish(subject, body, timeout=TRY_SECONDS, headers=dict(headers))
        return ack.seq

    try:
        return await until(attempt, connection=connection, deadline_seconds=deadline_seconds, what=what)
    except APIError as error:
        raise LogUnavailable(f"NATS did not store it: {error.description}", err_code=error.err_code) from None


def check_frame(body: bytes, headers: Mapping[str, str]) -> None:
    """Raise `Rejected` for a frame that no server takes; nats-py would call it bad luck, and try it for ever."""
    header_bytes = sum(len(key) + len(value) + 4 for key, value in headers.items())
    if len(body) > PAYLOAD_BYTES_MAX - HEADER_BYTES_RESERVED or header_bytes > HEADER_BYTES_RESERVED:
        raise Rejected("the frame is too large for NATS", bytes=len(body), header_bytes=header_bytes)


async def until(
    attempt: Callable[[], Awaitable[int]],
    *,
    deadline_seconds: float,
    what: str,
    connection: NatsConnection | None = None,
) -> int:
    """Call *attempt* until it returns; transient failures pause and repeat up to the deadline.

    Where they last, *connection* goes to another server of its cluster.
    A single attempt has its own bound, so the whole takes at most that much longer than the deadline.
    Raises `Busy` at once where the server has no room, `OutcomeUnknown` at the deadline.
    """
    started = time.monotonic()
    tries = 0
    while True:
        try:
            return await attempt()
        except APIError as error:
            if error.err_code != IN_PROCESS and not isinstance(error, ServiceUnavailableError):
                raise
            if tries == 0 and _is_full(error):
                # the only try, and it was refused: nothing of it can land later
                raise Busy(f"NATS has no room for it: {error.description} ({what})", err_code=error.err_code) from None
            failure: BaseException = error
        except TRANSIENT as error:
            failure = error
        waited = time.monotonic() - started
        if waited >= deadline_seconds:
            if isinstance(failure, NoStreamResponseError):
                raise LogUnavailable("no stream takes it on this server; run `jettison provision`", what=what) from None
            raise OutcomeUnknown(
                f"NATS did not confirm in {waited:.1f} s ({type(failure).__name__}): {what}; "
                "it may still land, and the same call again is harmless",
                what=what,
                tries=tries + 1,
            ) from None
        if connection is not None and waited > UNCONFIRMED_SECONDS:
            await _leave(connection)
        if tries == 0:
            log.warning("nats: no confirmation yet (%s), trying again: %s", type(failure).__name__, what)
        await asyncio.sleep(PAUSE_SECONDS[min(tries, len(PAUSE_SECONDS) - 1)])
        tries += 1


async def _leave(connection: NatsConnection) -> None:
    """Connect to another server of the cluster, unless somebody did so a moment ago."""
    now = time.monotonic()
    if len(connection.servers) > 1 and now - _left.get(connection, -UNCONFIRMED_SECONDS) >= UNCONFIRMED_SECONDS:
        _left[connection] = now
        log.warning("nats: nothing was confirmed for %.0f s, trying another server", UNCONFIRMED_SECONDS)
        await connection.force_reconnect()


_left: WeakKeyDictionary[NatsConnection, float] = WeakKeyDictionary()
"""When a connection left a server last, by the monotonic clock."""


def _is_full(error: APIError) -> bool:
    return error.err_code == INSUFFICIENT_RESOURCES or (error.description or "").startswith(FULL)


def heed_cancellation() -> None:
    """Raise the `CancelledError` of a task whose cancellation was forgotten.

    On Python 3.11 `asyncio.wait_for`, which nats-py waits with, gives a result that came at the same moment and
    swallows the cancellation; a loop that goes on would never end.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _probe(url: str) -> None:
    """Raise at once where nothing listens: `nats.connect` itself would try for ever."""
    failure = "no address"
    for one in url.split(","):
        parts = urlsplit(one.strip() if "://" in one else f"nats://{one.strip()}")
        try:
            _, writer = await asyncio.wait_for(
                asyncio.open_connection(parts.hostname, parts.port or 4222), CONNECT_SECONDS
            )
        except (OSError, TimeoutError, ValueError) as error:
            failure = type(error).__name__
            continue
        writer.close()
        return
    raise LogUnavailable(f"NATS at {_shown(url)} does not answer ({failure}); is it running?", url=_shown(url))


def _shown(url: str) -> str:
    """Return *url* without a password."""
    return ",".join(one.rpartition("@")[2] if "@" in one else one for one in url.split(","))
