"""The list of conversations on NATS JetStream, stream `CTX_LIST`: a document is the newest message of its subject."""

from __future__ import annotations

from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import STREAM_NOT_FOUND, TRANSIENT, TRY_SECONDS, WRONG_LAST_SEQUENCES, reason_of
from protocol.errors import PROVISION, LogUnavailable, NotProvisioned

from .erasure import overwritten
from .jetstream_reads import direct_batch
from .list_ports import Document

AT_ONCE = 1_000

NO_LIST = f"the list of conversations has no stream on this server; {PROVISION}"


class JetStreamKeptList:
    """`KeptList` on the stream `CTX_LIST`."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=TRY_SECONDS)

    async def read(self, *, after: int = 0) -> list[Document]:
        """See `KeptList.read`; where there is no stream, there is no document."""
        found: list[Document] = []
        while True:
            first = (found[-1].revision if found else after) + 1
            batch = await direct_batch(
                self._connection, subjects.LIST_STREAM, subjects.LIST_SUBJECTS, first=first, most=AT_ONCE
            )
            if not batch:
                return found
            found += [Document(name=one.subject.rpartition(".")[2], body=one.body, revision=one.seq) for one in batch]

    async def find(self, name: str) -> Document | None:
        """See `KeptList.find`."""
        try:
            found = await self._jetstream.get_msg(subjects.LIST_STREAM, subject=subjects.listed(name))
        except NotFoundError as error:
            if error.err_code == STREAM_NOT_FOUND:
                raise NotProvisioned(NO_LIST, stream=subjects.LIST_STREAM) from None
            return None
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the list of conversations cannot be read: {reason_of(error)}") from None
        return Document(name=name, body=found.data or b"", revision=found.seq or 0)

    async def put(self, name: str, body: bytes, *, expected: int) -> int:
        """See `KeptList.put`."""
        headers = {"Nats-Expected-Last-Subject-Sequence": str(expected)}
        try:
            ack = await self._jetstream.publish(subjects.listed(name), body, headers=headers)
        except APIError as error:
            if error.err_code in WRONG_LAST_SEQUENCES:
                return 0
            raise LogUnavailable(f"the list of conversations cannot be kept: {reason_of(error)}") from None
        except TRANSIENT as error:
            raise LogUnavailable(f"the list of conversations cannot be kept: {reason_of(error)}") from None
        if expected:
            # all of them: who was here before may not have come so far
            await overwritten(
                self._connection, stream=subjects.LIST_STREAM, subject=subjects.listed(name), keep=ack.seq
            )
        return ack.seq

    async def drop(self, name: str) -> None:
        """See `KeptList.drop`."""
        await overwritten(self._connection, stream=subjects.LIST_STREAM, subject=subjects.listed(name))
