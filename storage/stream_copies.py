"""Copies of whole streams in files, as JetStream makes them: sound at one sequence, while others go on writing.

A copy is the server's own archive of the stream. It opens in a server of the same or a newer version. The server copies
block by block: what is taken out of the stream meanwhile is not in the copy, nor is what was written for it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from protocol.connection import TRANSIENT, reason_of
from protocol.errors import Damaged, LogUnavailable, Rejected

CHUNK_BYTES = 128 * 1024
ROUNDS_MAX = 3
"""Times that a log is copied, until nothing was taken out meanwhile."""

ANSWER_SECONDS = 30.0
"""Between two parts of a copy, and for a server to open one."""


class StreamCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds of a stream."""

    stream: str
    config: dict[str, Any]
    state: dict[str, Any]
    """As the server tells it: `messages`, `first_seq`, `last_seq`, `last_ts`."""
    bytes: int
    sha256: str

    @property
    def last_seq(self) -> int:
        """Return the last sequence that the copy holds."""
        return int(self.state["last_seq"])


async def copied(connection: NatsConnection, stream: str, file: Path) -> StreamCopy:
    """Write *stream* to *file*, and return what is in it. Consumers are left out: `provision` makes them.

    Raises `LogUnavailable` where the server does not answer, `Rejected` where it refuses.
    """
    inbox = connection.new_inbox()
    heard = await connection.subscribe(inbox, pending_bytes_limit=-1)
    digest, size = hashlib.sha256(), 0
    try:
        asked = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": CHUNK_BYTES, "jsck": True}
        begun = await _asked(connection, f"$JS.API.STREAM.SNAPSHOT.{stream}", asked)
        with file.open("wb") as out:
            while part := await _next(heard):
                out.write(part)
                digest.update(part)
                size += len(part)
    finally:
        await heard.unsubscribe()
    return StreamCopy(
        stream=stream, config=begun["config"], state=begun["state"], bytes=size, sha256=digest.hexdigest()
    )


async def copied_whole(connection: NatsConnection, stream: str, file: Path) -> StreamCopy:
    """Do what `copied` does, out of which nothing was taken meanwhile: an archived log would be without its commit.

    Raises as it, and `LogUnavailable` where somebody takes records out of *stream* all the time.
    """
    for _ in range(ROUNDS_MAX):
        before = await _taken_out(connection, stream)
        copy = await copied(connection, stream, file)
        if await _taken_out(connection, stream) == before:
            return copy
    raise LogUnavailable(
        f"records leave {stream} while it is copied: `retain`, `erase` or `repair` is at work; copy it afterwards"
    )


async def _taken_out(connection: NatsConnection, stream: str) -> int:
    """Return how many of all records that *stream* ever had it has no more."""
    state = (await _asked(connection, f"$JS.API.STREAM.INFO.{stream}", {}))["state"]
    return int(state["last_seq"]) - int(state["messages"])


async def _next(heard: Any) -> bytes:
    """Return the next part of a copy; nothing at its end. Who answers each gets the one after it."""
    try:
        message: Msg = await heard.next_msg(timeout=ANSWER_SECONDS)
    except TRANSIENT as error:
        raise LogUnavailable(f"NATS ended a copy before its end ({reason_of(error)})") from None
    status = (message.headers or {}).get("Status", "")
    if not message.data and status not in ("", "204"):
        raise LogUnavailable(f"NATS ended a copy before its end: {(message.headers or {}).get('Description', status)}")
    if message.data and message.reply:
        await message.respond(b"")
    return message.data


def check(copy: StreamCopy, file: Path) -> None:
    """Raise `Damaged` where *file* is not what was written of *copy*."""
    if not is_copy(copy, file):
        raise Damaged(f"{file} is not the copy of {copy.stream} that was written")


def is_copy(copy: StreamCopy, file: Path) -> bool:
    """Tell whether *file* is what was written of *copy*."""
    return _sha256(file) == copy.sha256


async def put_back(connection: NatsConnection, copy: StreamCopy, file: Path) -> None:
    """Make the stream of *copy* again, with one replica, from *file*.

    Raises `Rejected` where the stream is there, `Damaged` where the file is not what was written.
    """
    check(copy, file)
    config = {**copy.config, "num_replicas": 1}
    asked = {"config": config, "state": copy.state}
    begun = await _asked(connection, f"$JS.API.STREAM.RESTORE.{copy.stream}", asked)
    with file.open("rb") as source:
        while part := source.read(CHUNK_BYTES):
            await _answered(connection, begun["deliver_subject"], part)
    _checked(await _answered(connection, begun["deliver_subject"], b""), copy.stream)


async def _asked(connection: NatsConnection, subject: str, question: dict[str, Any]) -> dict[str, Any]:
    return _checked(await _answered(connection, subject, json.dumps(question).encode()), subject)


async def _answered(connection: NatsConnection, subject: str, body: bytes) -> bytes:
    try:
        return (await connection.request(subject, body, timeout=ANSWER_SECONDS)).data
    except TRANSIENT as error:
        raise LogUnavailable(f"NATS does not answer {subject} ({reason_of(error)})") from None


def _checked(body: bytes, what: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(body)
    if error := answer.get("error"):
        raise Rejected(f"NATS refused {what}: {error.get('description')}", err_code=error.get("err_code"))
    return answer


def _sha256(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
