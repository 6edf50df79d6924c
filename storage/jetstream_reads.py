"""Reads: what one request to JetStream returns: records of a conversation, from the leader or any replica; names."""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import msgspec
import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg
from nats.js.errors import APIError, ServiceUnavailableError

from protocol import guarded, subjects
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, check_there, reason_of
from protocol.errors import PROVISION, LogRegression, LogUnavailable, NotPermitted, NotProvisioned
from protocol.ids import Address
from protocol.mailbox import answers

from .ports import Record

log = logging.getLogger("jettison.log")

READ_BATCH = 512
READ_BYTES = 8 << 20
READ_SECONDS = 5.0

NO_STREAM = f"the streams do not exist on this server; {PROVISION}"


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One message of a stream."""

    subject: str
    seq: int
    body: bytes
    headers: Mapping[str, str]
    time: str


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A message as the leader tells it; JSON has bytes in base64."""

    subject: str
    seq: int
    data: bytes = b""
    hdrs: bytes = b""
    time: str = ""


class _Told(msgspec.Struct, frozen=True, kw_only=True):
    message: _Stored | None = None
    error: dict[str, Any] | None = None


_TOLD = msgspec.json.Decoder(_Told)
_HEADER_LINE = b"NATS/1.0\r\n"


async def leaders_message(connection: NatsConnection, stream: str, subject: str, *, first: int | None = None) -> Raw:
    """Return the newest message on *subject*, as the leader has it; the oldest from the sequence *first* on, with it.

    nats-py's own call takes twice as long, and reads headers as an email's. Raises `APIError`, and what is `TRANSIENT`.
    """
    asked = {"last_by_subj": subject} if first is None else {"seq": first, "next_by_subj": subject}
    try:
        answer = await connection.request(
            f"$JS.API.STREAM.MSG.GET.{stream}", msgspec.json.encode(asked), timeout=READ_SECONDS
        )
    except nats.errors.NoRespondersError:
        raise ServiceUnavailableError from None
    told = _TOLD.decode(answer.data)
    if told.error is not None:
        raise APIError.from_error(told.error)
    assert told.message is not None
    one = told.message
    headers = guarded.header_lines(one.hdrs.removeprefix(_HEADER_LINE))
    return Raw(subject=one.subject, seq=one.seq, body=one.data, headers=headers, time=one.time)


async def read_batch(
    connection: NatsConnection, at: Address, *, stream: str = subjects.LOG_STREAM, first: int, last: int = sys.maxsize
) -> list[Record]:
    """Read up to `READ_BATCH` records of *stream* by one direct request."""
    try:
        found = await direct_batch(connection, stream, subjects.both(at), first=first, last=last, most=READ_BATCH)
    except NotPermitted:
        raise
    except LogUnavailable:
        return []
    return [record_of(one) for one in found]


async def direct_batch(
    connection: NatsConnection, stream: str, subject: str, *, first: int, most: int, last: int = sys.maxsize
) -> list[Raw]:
    """Return up to *most* messages or `READ_BYTES` of *stream*, from the sequence *first* on (nats-py has no call).

    Raises `LogUnavailable`, `NotPermitted`.
    """
    request = {"seq": first, "next_by_subj": subject, "batch": most, "max_bytes": READ_BYTES}
    found: list[Raw] = []
    try:
        async with answers(connection) as arrived:
            await connection.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=arrived.inbox)
            while True:
                raw = _raw(await arrived.next(seconds=READ_SECONDS))
                if raw is not None and raw.seq <= last:
                    found.append(raw)
                if raw is None or raw.seq >= last:
                    return found
    except TRANSIENT as error:
        raise LogUnavailable(f"{stream} cannot be read: {reason_of(error)}") from None


def _raw(message: Msg) -> Raw | None:
    """Return the message in an answer to a direct request; None at its end."""
    headers = dict(message.headers or {})
    if "Nats-Sequence" not in headers:
        return None
    seq, time = int(headers.pop("Nats-Sequence")), headers.pop("Nats-Time-Stamp", "")
    return Raw(subject=headers.pop("Nats-Subject"), seq=seq, body=message.data, headers=headers, time=time)


def millis(time: str) -> int:
    """Return a time of the server's as milliseconds since 1970; 0 where it is none."""
    try:
        return int(datetime.fromisoformat(time).timestamp() * 1000)
    except ValueError:
        return 0


async def clock_ms(connection: NatsConnection) -> int:
    """Return the clock of the log's server, in milliseconds since 1970. Raises `LogUnavailable`."""
    try:
        answer = await connection.request(f"$JS.API.STREAM.INFO.{subjects.LOG_STREAM}", b"", timeout=READ_SECONDS)
    except TRANSIENT as error:
        raise LogUnavailable(f"the log does not answer: {reason_of(error)}") from None
    told = json.loads(answer.data)
    if "ts" not in told:
        raise LogUnavailable(f"the log's server tells no time: {told.get('error', {}).get('description', '')}")
    return millis(told["ts"])


def record_of(message: Raw) -> Record:
    """Return a message of the stream as a record; its subject says who wrote it."""
    side: Literal["said", "done"] = "said" if message.subject.endswith(".said") else "done"
    return Record(seq=message.seq, side=side, body=message.body, headers=message.headers, time=message.time)


def check_same(at: Address, record: Record, *, after: int, time: str) -> None:
    """Raise `LogRegression` unless *record* is the one *after* which is read, if its *time* is known."""
    # to the microsecond
    if not time or (record.seq == after and datetime.fromisoformat(record.time) == datetime.fromisoformat(time)):
        return
    raise LogRegression(
        f"the log of {at} is not the one that was read: what was at {after} is gone; the log lost its end, and goes on "
        "otherwise",
        seq=after,
    )


async def _subjects_page(connection: NatsConnection, *, stream: str, offset: int) -> tuple[dict[str, int], int]:
    """Return one page of a *stream*'s subjects (the server's pages have 100,000), and how many there are in all.

    Each comes with the number of its messages. Raises `NotProvisioned`, `LogUnavailable`.
    """
    request = {"subjects_filter": subjects.LOG_FILTER, "offset": offset}
    try:
        answer = await connection.request(
            f"$JS.API.STREAM.INFO.{stream}", json.dumps(request).encode(), timeout=READ_SECONDS
        )
    except TRANSIENT as error:
        await check_there(connection)
        raise LogUnavailable(f"the conversations cannot be listed ({reason_of(error)}); try again") from None
    found = json.loads(answer.data)
    if failed := found.get("error"):
        if failed.get("err_code") == STREAM_NOT_FOUND:
            raise NotProvisioned(NO_STREAM, stream=stream)
        raise LogUnavailable(f"the conversations cannot be listed: {failed.get('description', '')}")
    return dict(found["state"].get("subjects") or {}), int(found.get("total", 0))


async def counts(connection: NatsConnection, streams: Iterable[str]) -> Counter[Address]:
    """Return how many records *streams* of the log have of each conversation; what is none's is told, and left out.

    Raises `NotProvisioned`, `LogUnavailable`.
    """
    found, strange = Counter[Address](), list[str]()
    for stream in streams:
        listed, total = 0, 1
        while listed < total:
            page, total = await _subjects_page(connection, stream=stream, offset=listed)
            for subject, count in page.items():
                if (at := subjects.address_in(subject)) is not None:
                    found[at] += count
                else:
                    strange.append(f"{subject[:200]!r} of {stream}")
            listed = listed + len(page) if page else total
    if strange:
        log.warning("nobody reads %d subjects, which are no conversations': such as %s", len(strange), strange[0])
    return found
