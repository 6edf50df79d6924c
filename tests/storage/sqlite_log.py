"""A log in one SQLite file: an example of an adapter for another store, and the proof that one file is all it takes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from protocol.errors import LogRegression, LogUnavailable
from protocol.ids import Address, written_address
from protocol.subjects import FIRST_ACTOR
from storage.ports import Record
from storage.work_ports import Wakes

T = TypeVar("T")
P = ParamSpec("P")
BATCH_RECORDS, BATCH_BYTES = 512, 4_000_000

# EXTRA: what was returned is on the disk; AUTOINCREMENT: no sequence is given twice, also where the newest was removed
SCHEMA = """PRAGMA synchronous = EXTRA; BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS records (seq INTEGER PRIMARY KEY AUTOINCREMENT, place TEXT, side TEXT, id TEXT,
    body BLOB, headers TEXT, time TEXT, UNIQUE (place, side, id));
CREATE INDEX IF NOT EXISTS orders ON records (place, side, seq); COMMIT"""


class SqliteLog:
    """`EventLog` of all processes that open *file*; without *wakes* nobody is woken."""

    def __init__(self, file: Path, wakes: Wakes | None = None) -> None:
        self._wakes = wakes
        # one thread: no event loop waits for a disk, and who is cancelled leaves no half transaction to the next
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")
        self._file = sqlite3.connect(file, timeout=30.0, isolation_level=None, check_same_thread=False)
        with suppress(sqlite3.OperationalError):  # faster, and a matter of the file: another process is at it, or was
            self._file.execute("PRAGMA journal_mode = WAL")
        self._file.executescript(SCHEMA)

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        """See `EventLog.say`."""
        said = Record(seq=0, side="said", body=body, headers=headers)
        seq, _ = await self._run(self._store, at, said, message_id)
        # a repeat wakes too: who stored it may have died before this line
        if self._wakes is not None:
            await self._wakes.wake(FIRST_ACTOR, at, headers=headers)
        return seq

    async def append(
        self, at: Address, body: bytes, *, expected_seq: int, commit_id: str, headers: Mapping[str, str]
    ) -> int | None:
        """See `EventLog.append`."""
        done = Record(seq=0, side="done", body=body, headers=headers)
        seq, is_new = await self._run(self._store, at, done, commit_id, expected_seq)
        return seq if is_new else None

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        """See `EventLog.read`."""
        return [record async for batch in self.batches(at, after=after, time=time) for record in batch]

    async def batches(self, at: Address, *, after: int, time: str = "", upto: int = 0) -> AsyncIterator[list[Record]]:
        """See `EventLog.batches`."""
        there = await self._run(self._one, "SELECT time FROM records WHERE place = ? AND seq = ?", str(at), after)
        if await self.head(at) < after or (time and there != time):
            raise LogRegression(f"the log of {at} lost its end", seq=after)
        while batch := await self._run(self._batch, at, after):
            yield batch
            after = batch[-1].seq

    async def head(self, at: Address) -> int:
        """See `EventLog.head`."""
        return int(await self._run(self._one, "SELECT max(seq) FROM records WHERE place = ?", str(at)) or 0)

    async def addresses(self) -> list[Address]:
        """See `EventLog.addresses`."""
        rows = await self._run(lambda: self._file.execute("SELECT DISTINCT place FROM records").fetchall())
        return sorted(written_address(place) for (place,) in rows)

    async def end(self, partition: int = 0) -> int:
        """See `EventLog.end`."""
        return int(await self._run(self._one, "SELECT seq FROM sqlite_sequence WHERE name = 'records'") or 0)

    def close(self) -> None:
        """Let go of the file, once what was begun is done."""
        self._thread.shutdown()
        self._file.close()

    async def _run(self, work: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *given, **named))
        except sqlite3.OperationalError as error:
            raise LogUnavailable(f"the file of the log cannot be used: {error}") from error

    def _one(self, query: str, *values: object) -> Any:
        return (self._file.execute(query, values).fetchone() or (None,))[0]

    def _store(self, at: Address, new: Record, ident: str, expected: int | None = None) -> tuple[int, bool]:
        """Return the sequence of what *ident* names, and whether it is new; 0 where *expected* is not the newest."""
        mine = (str(at), new.side)
        with self._file:
            # IMMEDIATE: no other process writes between what is looked at here and what is stored
            self._file.execute("BEGIN IMMEDIATE")
            if seq := self._one("SELECT seq FROM records WHERE place = ? AND side = ? AND id = ?", *mine, ident):
                return seq, False
            newest = self._one("SELECT max(seq) FROM records WHERE place = ? AND side = ?", *mine) or 0
            if expected not in (None, newest):
                return 0, False
            row = (*mine, ident, new.body, json.dumps(dict(new.headers)), datetime.now(UTC).isoformat())
            return self._file.execute("INSERT INTO records VALUES (NULL, ?, ?, ?, ?, ?, ?)", row).lastrowid or 0, True

    def _batch(self, at: Address, after: int) -> list[Record]:
        found, size = list[Record](), 0
        query = "SELECT seq, side, body, headers, time FROM records WHERE place = ? AND seq > ? ORDER BY seq LIMIT ?"
        for seq, side, body, headers, time in self._file.execute(query, (str(at), after, BATCH_RECORDS)):
            found.append(Record(seq=seq, side=side, body=body, headers=json.loads(headers), time=time))
            if (size := size + len(body)) >= BATCH_BYTES:
                break
        return found
