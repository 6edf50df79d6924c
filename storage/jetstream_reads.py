"""Reads: what one request to JetStream returns: records of a conversation, from any replica, or names of many."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from protocol import guarded, subjects
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, check_there, reason_of
from protocol.errors import LogUnavailable, NotProvisioned
from protocol.ids import Address

from .ports import Record

READ_BATCH = 512
READ_BYTES = 8 << 20
READ_SECONDS = 5.0

NO_STREAM = "the streams do not exist on this server; run `jettison provision`"


async def read_batch(
    connection: NatsConnection, at: Address, *, stream: str = subjects.LOG_STREAM, first: int, last: int
) -> list[Record]:
    """Read up to `READ_BATCH` records of *stream* by one direct request (nats-py has no call for it)."""
    request = {"seq": first, "next_by_subj": subjects.both(at), "batch": READ_BATCH, "max_bytes": READ_BYTES}
    inbox = connection.new_inbox()
    subscription = await connection.subscribe(inbox, pending_bytes_limit=64 << 20)
    try:
        await connection.publish(f"$JS.API.DIRECT.GET.{stream}", json.dumps(request).encode(), reply=inbox)
        records: list[Record] = []
        while True:
            message = await subscription.next_msg(timeout=READ_SECONDS)
            guarded.check(message)
            record = _direct_record(message)
            if record is None:
                return records
            if record.seq <= last:
                records.append(record)
            if record.seq >= last:
                return records
    except TRANSIENT:
        return []
    finally:
        await subscription.unsubscribe()


def _direct_record(message: Msg) -> Record | None:
    """Return the record in an answer to a batch request; None at its end."""
    headers = dict(message.headers or {})
    if "Nats-Sequence" not in headers:
        return None
    seq, time = int(headers.pop("Nats-Sequence")), headers.pop("Nats-Time-Stamp", "")
    return record_of(headers.pop("Nats-Subject"), seq, message.data, headers, time)


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
