"""Reads: what one request to JetStream returns: records of a conversation, from any replica, or names of many."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from protocol import guarded, subjects
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, check_there, reason_of
from protocol.errors import PROVISION, LogUnavailable, NotPermitted, NotProvisioned
from protocol.ids import Address

from .ports import Record

READ_BATCH = 512
READ_BYTES = 8 << 20
READ_SECONDS = 5.0

NO_STREAM = f"the streams do not exist on this server; {PROVISION}"


@dataclass(frozen=True, kw_only=True)
class Raw:
    """One message of a stream, as a direct request returns it."""

    subject: str
    seq: int
    body: bytes
    headers: Mapping[str, str]
    time: str


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
    return [record_of(one.subject, one.seq, one.body, one.headers, one.time) for one in found]


async def direct_batch(
    connection: NatsConnection, stream: str, subject: str, *, first: int, most: int, last: int = sys.maxsize
) -> list[Raw]:
    """Return up to *most* messages or `READ_BYTES` of *stream*, from the sequence *first* on (nats-py has no call).

    Raises `LogUnavailable`, `NotPermitted`.
    """
    request = {"seq": first, "next_by_subj": subject, "batch": most, "max_bytes": READ_BYTES}
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, pending_bytes_limit=64 << 20)
    found: list[Raw] = []
    try:
        await connection.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox)
        while True:
            message = await subscription.next_msg(timeout=READ_SECONDS)
            guarded.check(message)
            raw = _raw(message)
            if raw is not None and raw.seq <= last:
                found.append(raw)
            if raw is None or raw.seq >= last:
                return found
    except TRANSIENT as error:
        raise LogUnavailable(f"{stream} cannot be read: {reason_of(error)}") from None
    finally:
        await subscription.unsubscribe()


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


def record_of(subject: str, seq: int, body: bytes, headers: Mapping[str, str], time: str) -> Record:
    """Return a message of the stream as a record; its subject says who wrote it."""
    side: Literal["said", "done"] = "said" if subject.endswith(".said") else "done"
    return Record(seq=seq, side=side, body=body, headers=headers, time=time)


async def subjects_page(connection: NatsConnection, *, stream: str, offset: int) -> tuple[list[str], int]:
    """Return one page of a *stream*'s subjects (the server's pages have 100,000), and how many there are in all.

    Raises `NotProvisioned`, `LogUnavailable`.
    """
    request = {"subjects_filter": subjects.LOG_SUBJECTS, "offset": offset}
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
    return list(found["state"].get("subjects") or ()), int(found.get("total", 0))
