"""Archives: the older part of a log, outside its stream, and the log that reads as if it had never left.

A commit says where the archive is, in a header, since who reads records may not have their key. Its records keep their
places: what was folded, anchored and served before goes on as it is, and what comes behind the commit stands in the
stream as ever. So nothing is brought back: whoever reads what left the stream reads it from the archive, by its hash,
and the chain goes through both. What is said between an archiver's look at a log and its commit would stand between
the two: then all stays where it is (`left_behind`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import dropwhile
from typing import NamedTuple

from protocol.errors import UNREADABLE, ArchiveDamaged, LogMoved, LogRegression, NotFound
from protocol.ids import Address, Token

from . import record_lines
from .ports import Archives, EventLog, Record
from .s3 import S3Artifacts, seconds_for
from .tombstones import is_erasure

ARCHIVE_HEADER = "Jettison-Archive"
"""On the commit that says it: the place of the newest record in the archive, how many it has, and its SHA-256."""

PREFIX = "archives.v1/"
"""Of the objects: no tenant's name has a dot."""

BYTES_MAX = 256 << 20
"""Of an archive, whose bytes are in memory once; a log with more new records stays in its stream."""

BATCH_BYTES = 8 << 20
"""Of what is read from archives at once."""

_KEY = re.compile(re.escape(PREFIX) + r"([\w-]+)/([\w-]+)/[0-9a-f]{64}", re.ASCII)

_HEADER = re.compile(r"(\d{1,16}) (\d{1,12}) ([0-9a-f]{64})")


class Archive(NamedTuple):
    """Where the log before a commit is."""

    last: int
    """The sequence of the newest record in it."""
    records: int
    sha256: str

    def header(self) -> dict[str, str]:
        """Return the header of the commit that says it."""
        return {ARCHIVE_HEADER: f"{self.last} {self.records} {self.sha256}"}


def archive_in(record: Record) -> Archive | None:
    """Return the archive that *record* names; None where it names none, as an agent's record."""
    found = _HEADER.fullmatch(record.headers.get(ARCHIVE_HEADER, "")) if record.side == "done" else None
    return Archive(int(found[1]), int(found[2]), found[3]) if found else None


def newest_archive(records: Sequence[Record]) -> tuple[Archive, Record] | None:
    """Return the newest archive that *records* of a stream tell of, and the record that does."""
    for record in reversed(records):
        if (found := archive_in(record)) is not None:
            return found, record
    return None


def left_behind(records: Sequence[Record]) -> list[Record]:
    """Return those of a stream's *records* that its archive has, and that may go.

    None may where something stands between them and the commit: a reader comes to it before the archive is read.
    """
    found = newest_archive(records)
    if found is None:
        return []
    archive, commit = found
    if any(archive.last < record.seq < commit.seq for record in records):
        return []
    return [record for record in records if record.seq <= archive.last]


class ArchivedLog:
    """`EventLog` that reads from *archives* what left the stream. Raises `ArchiveDamaged`, `ArtifactsUnavailable` too.

    The header stays behind: where the records are written anew, they are all in the stream again. *without* is for who
    wants to know how it will read when the stream's records up to there are gone.
    """

    def __init__(self, log: EventLog, *, archives: Archives, without: int = 0) -> None:
        self._log = log
        self._archives = archives
        self._without = without

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        """See `EventLog.say`."""
        return await self._log.say(at, body, message_id=message_id, headers=headers)

    async def append(
        self, at: Address, body: bytes, *, expected_seq: int, commit_id: str, headers: Mapping[str, str]
    ) -> int | None:
        """See `EventLog.append`."""
        return await self._log.append(at, body, expected_seq=expected_seq, commit_id=commit_id, headers=headers)

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        """See `EventLog.read`."""
        return [record async for batch in self.batches(at, after=after, time=time) for record in batch]

    async def batches(self, at: Address, *, after: int, time: str = "", upto: int = 0) -> AsyncIterator[list[Record]]:
        """See `EventLog.batches`."""
        reached = after
        try:
            async for batch in self._log.batches(at, after=after, time=time, upto=upto):
                batch = [record for record in batch if record.seq > self._without] if self._without else batch
                async for found in self._whole(at, batch, reached):
                    reached = found[-1].seq
                    yield found
            return
        except LogRegression as error:
            if isinstance(error, LogMoved) or reached != after:
                raise  # it moved, or lost the end of what was handed out already
            lost = error
        except ArchiveDamaged:
            stone = await self._tombstone(at, after=reached)
            if not stone:
                raise
            yield stone
            return
        # what stood there may have left the stream
        yield await self._behind(at, after, time, lost)

    async def head(self, at: Address) -> int:
        """See `EventLog.head`."""
        return await self._log.head(at)

    async def addresses(self) -> list[Address]:
        """See `EventLog.addresses`."""
        return await self._log.addresses()

    async def end(self, partition: int = 0) -> int:
        """See `EventLog.end`."""
        return await self._log.end(partition)

    async def _whole(self, at: Address, batch: Sequence[Record], reached: int) -> AsyncIterator[list[Record]]:
        """Yield *batch*, which goes on behind *reached*, with what left the stream before its commits."""
        if not any(ARCHIVE_HEADER in record.headers for record in batch):
            if batch:
                yield list(batch)
            return
        found, size = list[Record](), 0
        coming = [iter(batch)]  # the next one last; no recursion, for archives go on from each other endlessly
        while coming:
            record = next(coming[-1], None)
            if record is None:
                coming.pop()
                continue
            archive = archive_in(record)
            if archive is not None:
                others = {name: text for name, text in record.headers.items() if name != ARCHIVE_HEADER}
                record = replace(record, headers=others)
                if reached < archive.last:
                    older = opened(at, await self._archives.get(at, archive.sha256), archive)
                    coming += [iter((record,)), dropwhile(partial(_is_upto, reached), older)]
                    continue
            found.append(record)
            reached, size = record.seq, size + len(record.body)
            if size >= BATCH_BYTES:
                yield found
                found, size = [], 0
        if found:
            yield found

    async def _behind(self, at: Address, after: int, time: str, lost: LogRegression) -> list[Record]:
        records = await self.read(at, after=0) if after else []
        stands = next((one for one in records if one.seq == after), None)
        if stands is None or (time and datetime.fromisoformat(stands.time) != datetime.fromisoformat(time)):
            raise lost
        return [one for one in records if one.seq > after]

    async def _tombstone(self, at: Address, *, after: int) -> list[Record]:
        """Return the tombstone of *at* and what is behind it: an erasure took the archive, and is not at its end."""
        records = await self._log.read(at, after=0)
        stones = [index for index, record in enumerate(records) if is_erasure(record)]
        return [one for one in records[stones[0] :] if one.seq > after] if stones else []


def _is_upto(seq: int, record: Record) -> bool:
    return record.seq <= seq


def opened(at: Address, body: bytes, archive: Archive) -> Iterator[Record]:
    """Yield the records in the archive *body*. Raises `ArchiveDamaged` unless they are those that *archive* says."""
    try:
        count, last, records = record_lines.coming(body)
        if (count, last) != (archive.records, archive.last) or not count:
            raise _damaged(at, archive.sha256, "does not hold what its commit says")
        yield from records
    except UNREADABLE as error:
        raise _damaged(at, archive.sha256, f"is not readable: {error}"[:200]) from None


class S3Archives:
    """`Archives` in the bucket of *artifacts*, under a prefix that no tenant's name can have."""

    def __init__(self, artifacts: S3Artifacts) -> None:
        self._store = artifacts

    async def put(self, at: Address, body: bytes | bytearray) -> str:
        """See `Archives.put`."""
        sha256 = hashlib.sha256(body).hexdigest()
        key = f"{_folder(at)}{sha256}"
        await self._store.call(
            "PutObject",
            key,
            lambda client, where: client.put_object(Bucket=where, Key=key, Body=body),
            seconds=seconds_for(len(body)),
        )
        return sha256

    async def get(self, at: Address, sha256: str) -> bytes:
        """See `Archives.get`."""
        key = f"{_folder(at)}{sha256}"
        try:
            body: bytes = await self._store.call(
                "GetObject",
                key,
                lambda client, where: client.get_object(Bucket=where, Key=key)["Body"].read(),
                seconds=seconds_for(BYTES_MAX),
            )
        except NotFound:
            raise _damaged(at, sha256, "is not in the store") from None
        return checked(at, sha256, body)

    async def names(self, at: Address) -> list[str]:
        """See `Archives.names`."""
        prefix = _folder(at)
        return sorted([name.removeprefix(prefix) async for page in self._store.pages(prefix) for name in page])

    async def addresses(self) -> AsyncIterator[Address]:
        """See `Archives.addresses`."""
        last: Address | None = None
        async for page in self._store.pages(PREFIX):
            for found in map(_KEY.fullmatch, page):
                if found is None:
                    continue  # not ours
                at = Address(Token(found[1]), Token(found[2]))
                if at != last:
                    yield at
                    last = at

    async def delete(self, at: Address, sha256: str) -> None:
        """See `Archives.delete`."""
        key = f"{_folder(at)}{sha256}"
        await self._store.call("DeleteObject", key, lambda client, where: client.delete_object(Bucket=where, Key=key))


def checked(at: Address, sha256: str, body: bytes) -> bytes:
    """Return *body* if its hash is *sha256*. Raises `ArchiveDamaged`."""
    if hashlib.sha256(body).hexdigest() != sha256:
        raise _damaged(at, sha256, "has other bytes than were stored")
    return body


def _damaged(at: Address, sha256: str, reason: str) -> ArchiveDamaged:
    return ArchiveDamaged(
        f"the archive {sha256[:16]} of the log of {at} {reason}; put it back from a backup "
        "(`jettison restore --objects`)",
        address=str(at),
        sha256=sha256,
    )


def _folder(at: Address) -> str:
    return f"{PREFIX}{at.tenant}/{at.conversation}/"
