"""Documents: what is the newest message of its subject, read as such, and replaced only where nobody was faster."""

from __future__ import annotations

from typing import Any

from nats.aio.client import Client as NatsConnection
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from protocol.acked import acked
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, TRY_SECONDS, WRONG_LAST_SEQUENCES, reason_of
from protocol.errors import PROVISION, LogUnavailable, NotProvisioned


async def found_on(
    jetstream: JetStreamContext, stream: str, subject: str, *, what: str, needed: bool = True, **where: Any
) -> RawStreamMsg | None:
    """Return the newest message of *subject*, or the one that is *where* nats-py is told; None if there is none.

    Raises `LogUnavailable` that says *what* cannot be read, and `NotProvisioned` for a stream that is *needed*.
    """
    try:
        return await jetstream.get_msg(stream, subject=subject, **where)
    except NotFoundError as error:
        if needed and error.err_code == STREAM_NOT_FOUND:
            raise NotProvisioned(f"{what} has no stream on this server; {PROVISION}", stream=stream) from None
        return None
    except (APIError, *TRANSIENT) as error:
        raise LogUnavailable(f"{what} cannot be read: {reason_of(error)}") from None


async def replaced(
    connection: NatsConnection, subject: str, body: bytes, *, revision: int, what: str, seconds: float = TRY_SECONDS
) -> int | None:
    """Store *body* where the newest message of *subject* still has *revision*, 0 for none; None: another was faster.

    Return the new revision. Raises `LogUnavailable` that says *what* cannot be kept.
    """
    headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
    try:
        return (await acked(connection, subject, body, headers=headers, seconds=seconds)).seq
    except (APIError, *TRANSIENT) as error:
        if isinstance(error, APIError) and error.err_code in WRONG_LAST_SEQUENCES:
            return None
        raise LogUnavailable(f"{what} cannot be kept: {reason_of(error)}") from None
