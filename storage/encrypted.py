"""Encrypted: a log and snapshots that are read with the key of their conversation alone.

One destroyed key then ends every copy of them. The chain is over the plain bytes, so that rules, proofs and bundles
know nothing of keys. Agents in other languages speak in plain text, and older logs are plain: both are read as ever.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from protocol import cipher, codec
from protocol.errors import UNREADABLE, ArtifactDamaged, Damaged, Erased, KeysUnavailable, NotFound, Unavailable
from protocol.ids import Address
from protocol.limits import ENVELOPE_BYTES_MAX

from .ports import Artifacts, EventLog, Keys, Record, Snapshots

COMPRESSION_LEVEL = 1
"""Of zlib: a state of 200 KB becomes a third in 3 ms; higher levels win a tenth for three times the time."""


BYTES_AT_ONCE_MAX = 262_144
"""Opened on the loop itself, a millisecond; more gets a thread, and other conversations go on."""


class EncryptedLog:
    """`EventLog` that encrypts what it writes, where tenants' keys are at hand, and opens what was encrypted.

    A record that does not open with its conversation's key comes back as it is kept, which is no envelope: an agent's
    is refused like any garbage, and whoever follows the chain finds it. Reading never makes a key.
    Raises `KeysUnavailable` besides.
    """

    def __init__(self, log: EventLog, *, keys: Keys) -> None:
        self._log = log
        self._keys = keys

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        """See `EventLog.say`. Raises `Erased`."""
        closed = await self._closed(at, body, "said")
        return await self._log.say(at, closed, message_id=message_id, headers=headers)

    async def append(
        self, at: Address, body: bytes, *, expected_seq: int, commit_id: str, headers: Mapping[str, str]
    ) -> int | None:
        """See `EventLog.append`."""
        try:
            closed = await self._closed(at, body, "done")
        except Erased:
            return None  # its tombstone came first
        return await self._log.append(at, closed, expected_seq=expected_seq, commit_id=commit_id, headers=headers)

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        """See `EventLog.read`."""
        return [record async for batch in self.batches(at, after=after, time=time) for record in batch]

    async def batches(self, at: Address, *, after: int, time: str = "", upto: int = 0) -> AsyncIterator[list[Record]]:
        """See `EventLog.batches`."""
        async for batch in self._log.batches(at, after=after, time=time, upto=upto):
            yield await self._open(at, batch)

    async def _open(self, at: Address, records: list[Record]) -> list[Record]:
        if not any(codec.is_encrypted(record.body) for record in records):
            return records
        try:
            key = await self._keys.known(at)
        except Erased:
            # commits that an erasure has not overwritten yet; the tombstone behind them says all
            return [one for one in records if one.side == "said" or not codec.is_encrypted(one.body)]
        if key is None:
            raise KeysUnavailable(
                f"{at} is encrypted, and its key is not in this NATS: restore the stream of keys with the log's",
                address=str(at),
            )
        if sum(len(record.body) for record in records) > BYTES_AT_ONCE_MAX:
            return await asyncio.to_thread(_opened, at, records, key)
        return _opened(at, records, key)

    async def head(self, at: Address) -> int:
        """See `EventLog.head`."""
        return await self._log.head(at)

    async def addresses(self) -> list[Address]:
        """See `EventLog.addresses`."""
        return await self._log.addresses()

    async def end(self, partition: int = 0) -> int:
        """See `EventLog.end`."""
        return await self._log.end(partition)

    async def _closed(self, at: Address, body: bytes, side: cipher.Side) -> bytes:
        if not self._keys.wraps:
            return body
        return cipher.record(body, key=await self._keys.key(at), at=at, side=side)


def _opened(at: Address, records: Sequence[Record], key: cipher.Key) -> list[Record]:
    return [
        replace(one, body=cipher.opened(one.body, key=key, at=at, side=one.side))
        if codec.is_encrypted(one.body)
        else one
        for one in records
    ]


class Closed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An encrypted snapshot: itself, or the SHA-256 of the artifact that holds it."""

    body: bytes = b""
    artifact: str = ""


class EncryptedSnapshots:
    """`Snapshots` that nobody can read without the conversation's key; large ones are artifacts.

    Of a stream that keeps two, the older ones stay on the disk until the server writes the file anew, and a large one
    is an object that nothing names any more. As in any `Snapshots`, losing one costs time only: what fails is not kept,
    or not found.
    """

    def __init__(self, snapshots: Snapshots, *, keys: Keys, artifacts: Artifacts) -> None:
        self._snapshots = snapshots
        self._keys = keys
        self._artifacts = artifacts

    async def put(self, at: Address, body: bytes) -> None:
        """See `Snapshots.put`."""
        # before it is encrypted: that does not become smaller; in a thread: it may be a megabyte
        body = await asyncio.to_thread(zlib.compress, body, COMPRESSION_LEVEL)
        try:
            encrypted = (await self._keys.key(at)).encrypt(body, str(at))
            if len(encrypted) <= ENVELOPE_BYTES_MAX:
                closed = Closed(body=encrypted)
            else:
                closed = Closed(artifact=await self._artifacts.put(at.tenant, encrypted))
        except (Unavailable, Damaged, Erased):
            return
        await self._snapshots.put(at, msgspec.msgpack.encode(closed))

    async def newest(self, at: Address) -> bytes | None:
        """See `Snapshots.newest`; one that the key does not open is none."""
        # both at once, and to their ends: who knows nothing waits for each, and the log's records need the key as well
        stored, key = await asyncio.gather(self._snapshots.newest(at), self._keys.known(at), return_exceptions=True)
        if isinstance(stored, BaseException):
            raise stored
        if stored is None:
            return None  # what is wrong with the keys is for who reads the log to say: a plain one needs none
        try:
            if isinstance(key, BaseException):
                raise key
            closed = msgspec.msgpack.decode(stored, type=Closed)
            encrypted = closed.body or await self._artifacts.get(at.tenant, closed.artifact)
            body = key.decrypt(encrypted, str(at)) if key else None
            # only who has the key can have written it: what it swells to is a state
            return zlib.decompress(body) if body is not None else None
        except (*UNREADABLE, ValueError, zlib.error):
            return None
        except (NotFound, ArtifactDamaged, Unavailable, Damaged, Erased):
            return None

    async def forget(self, at: Address) -> int:
        """See `Snapshots.forget`; the object that holds a large one is its caller's to delete (`artifact`)."""
        return await self._snapshots.forget(at)

    @property
    def refused(self) -> str:
        """See `Snapshots.refused`."""
        return self._snapshots.refused

    async def artifact(self, at: Address) -> str:
        """Return the SHA-256 of the object that holds the newest one; empty if none does."""
        try:
            return msgspec.msgpack.decode(await self._snapshots.newest(at) or b"", type=Closed).artifact
        except UNREADABLE:
            return ""
