"""Sessions: what each gateway tells of the conversations that agents have through it now, for who looks on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT, TRY_SECONDS, reason_of
from protocol.errors import UNREADABLE, LogUnavailable
from protocol.ids import Address, Token

from .documents import replaced

LOOKED_BACK = 20_000
"""Of all that gateways wrote, the newest: sessions of which nothing is among it are not live."""

SHOWN_MAX = 200
PAUSE_SECONDS = 300.0


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation at one gateway, since that was started. Tokens as providers counted them."""

    client: str
    model: str
    api: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    saved_tokens: int = 0
    last_ms: int = 0
    """When its newest request ended, by the gateway's clock."""


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A session with its conversation, whichever gateways serve it."""

    at: Address
    session: Session


class GatewaySessions(Protocol):
    """One document for each gateway and conversation. Both calls raise `LogUnavailable`."""

    async def write(self, at: Address, gateway: Token, session: Session, *, revision: int) -> int | None:
        """Store what *gateway* tells of *at* where it last wrote *revision*, 0 for nothing; return the new one.

        None where that is gone: the conversation was erased.
        """
        ...

    async def newest(self, *, since_ms: int) -> list[Live]:
        """Return the sessions with a request since then, the newest first: of all its gateways as one."""
        ...


class JetStreamSessions:
    """`GatewaySessions` on the stream `CTX_GATE`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=TRY_SECONDS)
        self._readable_from = 0.0

    async def write(self, at: Address, gateway: Token, session: Session, *, revision: int) -> int | None:
        """See `GatewaySessions.write`."""
        subject, body = subjects.session(at, gateway), msgspec.json.encode(session)
        return await replaced(self._connection, subject, body, revision=revision, what="a gateway's session")

    async def newest(self, *, since_ms: int) -> list[Live]:
        """See `GatewaySessions.newest`.

        None for a while after it raised: whose rights do not reach so far is not to wait for it with every page.
        """
        found: dict[Address, Session] = {}
        if time.monotonic() < self._readable_from:
            return []
        try:
            last = (await self._jetstream.stream_info(subjects.GATEWAY_STREAM)).state.last_seq
            seq = max(0, last - LOOKED_BACK)
            while len(found) < SHOWN_MAX:
                message = await self._jetstream.get_msg(
                    subjects.GATEWAY_STREAM, seq=seq + 1, subject=subjects.SESSION_SUBJECTS, next=True
                )
                seq = message.seq or seq + 1
                at = subjects.address_in(message.subject or "")
                if at is not None and (one := _session(message.data or b"", since_ms)):
                    found[at] = _both(found[at], one) if at in found else one
        except NotFoundError:
            pass  # there are no more, or this server has no such stream
        except (APIError, *TRANSIENT) as error:
            self._readable_from = time.monotonic() + PAUSE_SECONDS
            raise LogUnavailable(f"what gateways tell cannot be read: {reason_of(error)}") from None
        return _newest_first(found)


class MemorySessions:
    """`GatewaySessions` of one process."""

    def __init__(self) -> None:
        self._found: dict[tuple[Address, Token], tuple[Session, int]] = {}
        self._seq = 0

    async def write(self, at: Address, gateway: Token, session: Session, *, revision: int) -> int | None:
        """See `GatewaySessions.write`."""
        if (self._found[at, gateway][1] if (at, gateway) in self._found else 0) != revision:
            return None
        self._seq += 1
        self._found[at, gateway] = (session, self._seq)
        return self._seq

    async def newest(self, *, since_ms: int) -> list[Live]:
        """See `GatewaySessions.newest`."""
        found: dict[Address, Session] = {}
        for (at, _), (session, _) in self._found.items():
            if session.last_ms >= since_ms:
                found[at] = _both(found[at], session) if at in found else session
        return _newest_first(found)


def _newest_first(found: Mapping[Address, Session]) -> list[Live]:
    live = [Live(at=at, session=session) for at, session in found.items()]
    return sorted(live, key=lambda one: -one.session.last_ms)


def _session(raw: bytes, since_ms: int) -> Session | None:
    try:
        found = msgspec.json.decode(raw, type=Session)
    except UNREADABLE:
        return None
    return found if found.last_ms >= since_ms else None


def _both(one: Session, other: Session) -> Session:
    newest = max(one, other, key=lambda session: session.last_ms)
    return msgspec.structs.replace(
        newest,
        requests=one.requests + other.requests,
        input_tokens=one.input_tokens + other.input_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        saved_tokens=one.saved_tokens + other.saved_tokens,
    )
