"""The list of conversations on NATS JetStream, stream `CTX_LIST`: a document is the newest message of its subject."""

from __future__ import annotations

from nats.aio.client import Client as NatsConnection

from protocol import subjects
from protocol.connection import TRY_SECONDS

from .documents import found_on, replaced
from .erasure import overwritten
from .jetstream_reads import direct_batch
from .list_ports import Document

AT_ONCE = 1_000

WHAT = "the list of conversations"


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
        found = await found_on(self._jetstream, subjects.LIST_STREAM, subjects.listed(name), what=WHAT)
        return Document(name=name, body=found.data or b"", revision=found.seq or 0) if found else None

    async def put(self, name: str, body: bytes, *, expected: int) -> int:
        """See `KeptList.put`."""
        subject = subjects.listed(name)
        seq = await replaced(self._connection, subject, body, revision=expected, what=WHAT) or 0
        if seq and expected:
            # all of them: who was here before may not have come so far
            await overwritten(self._connection, stream=subjects.LIST_STREAM, subject=subject, keep=seq)
        return seq

    async def drop(self, name: str) -> None:
        """See `KeptList.drop`."""
        await overwritten(self._connection, stream=subjects.LIST_STREAM, subject=subjects.listed(name))
