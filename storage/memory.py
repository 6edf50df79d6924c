"""Conversations in memory: for rules, laws, and small tests. They pass the same contract as the real stores."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import UTC, datetime

from protocol.cipher import KEY_BYTES, Key
from protocol.errors import Erased, LogRegression, NotFound
from protocol.ids import Address, Token
from protocol.subjects import FIRST_ACTOR

from .archives import checked
from .ports import Record
from .work_ports import Wakes


class MemoryLog:
    """`EventLog` of one process; without *wakes* nobody is woken."""

    def __init__(self, wakes: Wakes | None = None) -> None:
        self._wakes = wakes
        self._records: dict[Address, list[Record]] = {}
        self._ids: dict[str, int] = {}
        self._seq = 0

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        """See `EventLog.say`."""
        if message_id in self._ids:
            return self._ids[message_id]
        seq = self._ids[message_id] = self._store(at, Record(seq=0, side="said", body=body, headers=dict(headers)))
        if self._wakes is not None:
            await self._wakes.wake(FIRST_ACTOR, at, headers=headers)
        return seq

    async def append(
        self, at: Address, body: bytes, *, expected_seq: int, commit_id: str, headers: Mapping[str, str]
    ) -> int | None:
        """See `EventLog.append`."""
        if commit_id in self._ids:
            return None
        done = [record.seq for record in self._records.get(at, ()) if record.side == "done"]
        if (done[-1] if done else 0) != expected_seq:
            return None
        self._ids[commit_id] = self._store(at, Record(seq=0, side="done", body=body, headers=dict(headers)))
        return self._seq

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        """See `EventLog.read`."""
        records = self._records.get(at, [])
        known = not time or any((one.seq, one.time) == (after, time) for one in records)
        if await self.head(at) < after or not known:
            raise LogRegression(f"the log of {at} lost its end", seq=after)
        return [record for record in records if record.seq > after]

    async def batches(self, at: Address, *, after: int, time: str = "", upto: int = 0) -> AsyncIterator[list[Record]]:
        """See `EventLog.batches`."""
        yield await self.read(at, after=after, time=time)

    async def head(self, at: Address) -> int:
        """See `EventLog.head`."""
        records = self._records.get(at)
        return records[-1].seq if records else 0

    async def addresses(self) -> list[Address]:
        """See `EventLog.addresses`."""
        return sorted(self._records)

    async def end(self, partition: int = 0) -> int:
        """See `EventLog.end`."""
        return self._seq

    def remove(self, at: Address, seqs: Collection[int]) -> None:
        """Remove the records of *at* at *seqs*."""
        left = [record for record in self._records.pop(at, []) if record.seq not in seqs]
        if left:
            self._records[at] = left

    def everything(self) -> list[tuple[Address, Record]]:
        """Return all records of all conversations, in their order."""
        found = ((at, record) for at, records in self._records.items() for record in records)
        return sorted(found, key=lambda one: one[1].seq)

    def _store(self, at: Address, record: Record) -> int:
        self._seq += 1
        time = datetime.now(UTC).isoformat()
        stored = Record(seq=self._seq, side=record.side, body=record.body, headers=record.headers, time=time)
        self._records.setdefault(at, []).append(stored)
        return self._seq


class MemorySnapshots:
    """`Snapshots` of one process."""

    refused = ""

    def __init__(self) -> None:
        self._newest: dict[Address, bytes] = {}

    async def put(self, at: Address, body: bytes) -> None:
        """See `Snapshots.put`."""
        self._newest[at] = body

    async def newest(self, at: Address) -> bytes | None:
        """See `Snapshots.newest`."""
        return self._newest.get(at)

    async def forget(self, at: Address) -> int:
        """See `Snapshots.forget`."""
        return int(self._newest.pop(at, None) is not None)


class MemoryKeys:
    """`Keys` of one process."""

    wraps = True

    def __init__(self) -> None:
        self._keys: dict[Address, Key] = {}
        self._destroyed: set[Address] = set()

    async def key(self, at: Address) -> Key:
        """See `Keys.key`."""
        return await self.known(at) or self._keys.setdefault(at, Key(secrets.token_bytes(KEY_BYTES)))

    async def known(self, at: Address) -> Key | None:
        """See `Keys.known`."""
        if at in self._destroyed:
            raise Erased(f"{at} was erased, and its key with it", address=str(at))
        return self._keys.get(at)

    async def prepare(self, tenant: Token) -> None:
        """See `Keys.prepare`; no key of a tenant wraps the keys in memory."""

    async def check(self, tenant: Token) -> None:
        """See `Keys.check`."""

    def destroy(self, at: Address) -> int:
        """Destroy the key of *at*, and any that would come after it; return how many there were."""
        self._destroyed.add(at)
        return int(self._keys.pop(at, None) is not None)


class MemoryArtifacts:
    """`Artifacts` of one process."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[Token, str], bytes] = {}

    async def put(self, tenant: Token, body: bytes) -> str:
        """See `Artifacts.put`."""
        key = hashlib.sha256(body).hexdigest()
        self._bodies[tenant, key] = body
        return key

    async def get(self, tenant: Token, sha256: str) -> bytes:
        """See `Artifacts.get`."""
        try:
            return self._bodies[tenant, sha256]
        except KeyError:
            raise NotFound(f"no artifact {sha256[:16]}", sha256=sha256) from None

    async def delete(self, tenant: Token, sha256: str) -> None:
        """See `Artifacts.delete`."""
        self._bodies.pop((tenant, sha256), None)

    async def find(self, tenant: Token, prefix: str) -> str:
        """See `Artifacts.find`."""
        found = [key for owner, key in self._bodies if owner == tenant and key.startswith(prefix)]
        if len(found) != 1:
            raise NotFound(f"{len(found)} artifacts begin with {prefix[:64]!r}", prefix=prefix)
        return found[0]

    async def upload_url(self, tenant: Token, sha256: str, *, size_bytes: int) -> str:
        """Refuse: nothing listens to uploads in memory."""
        raise NotFound("the store in memory takes no uploads", sha256=sha256)

    async def sizes(self) -> AsyncIterator[dict[tuple[Token, str], int]]:
        """See `Artifacts.sizes`."""
        yield {name: len(body) for name, body in self._bodies.items()}


class MemoryArchives:
    """`Archives` of one process."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[Address, str], bytes] = {}

    async def put(self, at: Address, body: bytes | bytearray) -> str:
        """See `Archives.put`."""
        sha256 = hashlib.sha256(body).hexdigest()
        self.bodies[at, sha256] = bytes(body)
        return sha256

    async def get(self, at: Address, sha256: str) -> bytes:
        """See `Archives.get`."""
        return checked(at, sha256, self.bodies.get((at, sha256), b""))

    async def names(self, at: Address) -> list[str]:
        """See `Archives.names`."""
        return sorted(sha256 for owner, sha256 in self.bodies if owner == at)

    async def addresses(self) -> AsyncIterator[Address]:
        """See `Archives.addresses`."""
        for at in sorted({at for at, _ in self.bodies}):
            yield at

    async def delete(self, at: Address, sha256: str) -> None:
        """See `Archives.delete`."""
        self.bodies.pop((at, sha256), None)


class MemoryAnchors:
    """`Anchors` of one process."""

    def __init__(self) -> None:
        self._bodies: dict[tuple[Token, int], bytes] = {}
        self._newest: dict[Token, datetime] = {}

    async def put(self, tenant: Token, number: int, body: bytes) -> bool:
        """See `Anchors.put`."""
        if (tenant, number) in self._bodies:
            return False
        self._bodies[tenant, number] = body
        self._newest[tenant] = datetime.now(UTC)
        return True

    async def get(self, tenant: Token, number: int) -> bytes:
        """See `Anchors.get`."""
        try:
            return self._bodies[tenant, number]
        except KeyError:
            raise NotFound(f"no anchor {number} of {tenant}", number=number) from None

    async def numbers(self, tenant: Token) -> list[int]:
        """See `Anchors.numbers`."""
        return sorted(number for owner, number in self._bodies if owner == tenant)

    async def tenants(self) -> list[Token]:
        """See `Anchors.tenants`."""
        return sorted(self._newest)

    async def oldest(self) -> datetime | None:
        """See `Anchors.oldest`."""
        return min(self._newest.values(), default=None)

    async def check(self) -> None:
        """See `Anchors.check`."""
