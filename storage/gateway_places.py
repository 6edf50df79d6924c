"""Places of the gateway: what it knows of conversations, one small document each, changed by compare-and-set."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.connection import TRY_SECONDS
from protocol.ids import Token

from .documents import found_on, replaced

WHAT = "what gateways know"


class GatewayPlaces(Protocol):
    """Documents that any number of gateways share. Both calls raise `LogUnavailable`, `NotProvisioned`."""

    async def read(self, tenant: Token, place: Token) -> tuple[bytes, int]:
        """Return the document and its revision; empty, and 0, if there is none."""
        ...

    async def write(self, tenant: Token, place: Token, body: bytes, *, revision: int) -> int | None:
        """Store *body* if the document still has *revision*; return the new one, None if another was faster.

        After `LogUnavailable` it may have landed: the next `read` tells.
        """
        ...


class JetStreamPlaces:
    """`GatewayPlaces` on the stream `CTX_GATE`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=TRY_SECONDS)

    async def read(self, tenant: Token, place: Token) -> tuple[bytes, int]:
        """See `GatewayPlaces.read`; a replica may be behind, and then the next `write` says so."""
        subject = subjects.gateway(tenant, place)
        # direct: the one way to read that a user's rights can bound to his tenants
        found = await found_on(self._jetstream, subjects.GATEWAY_STREAM, subject, what=WHAT, direct=True)
        return (found.data or b"", found.seq or 0) if found else (b"", 0)

    async def write(self, tenant: Token, place: Token, body: bytes, *, revision: int) -> int | None:
        """See `GatewayPlaces.write`."""
        return await replaced(self._connection, subjects.gateway(tenant, place), body, revision=revision, what=WHAT)

    async def each(self, tenant: Token) -> AsyncIterator[tuple[Token, bytes, int]]:
        """Yield all documents of *tenant* with their places and revisions. Raises as `read` does."""
        stream, mine, seq = subjects.GATEWAY_STREAM, subjects.places_of(tenant), 0
        while found := await found_on(self._jetstream, stream, mine, what=WHAT, needed=False, seq=seq + 1, next=True):
            assert found.seq is not None
            seq = found.seq
            yield Token((found.subject or "").rpartition(".")[2]), found.data or b"", seq


class MemoryPlaces:
    """`GatewayPlaces` of one process."""

    def __init__(self) -> None:
        self._found: dict[tuple[Token, Token], tuple[bytes, int]] = {}
        self._seq = 0

    async def read(self, tenant: Token, place: Token) -> tuple[bytes, int]:
        """See `GatewayPlaces.read`."""
        return self._found.get((tenant, place), (b"", 0))

    async def write(self, tenant: Token, place: Token, body: bytes, *, revision: int) -> int | None:
        """See `GatewayPlaces.write`."""
        if self._found.get((tenant, place), (b"", 0))[1] != revision:
            return None
        self._seq += 1
        self._found[tenant, place] = (body, self._seq)
        return self._seq
