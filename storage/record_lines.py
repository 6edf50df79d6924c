"""Record lines: the records of a log as bytes, in a bundle and in an archive. Stored: the form is for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from .ports import Record


class Line(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One record of a log as it is stored."""

    seq: int
    side: Literal["said", "done"]
    time: str
    headers: dict[str, str]
    body: bytes


_LINES = msgspec.msgpack.Decoder(tuple[Line, ...])  # made at import, since threads decode with it


def written(records: Iterable[Record]) -> bytes:
    """Return *records* as bytes: always the same ones."""
    lines = (
        Line(
            seq=record.seq,
            side=record.side,
            time=record.time,
            # the server's own headers say how it was stored there, and would act again where it is imported
            headers={name: record.headers[name] for name in sorted(record.headers) if not name.startswith("Nats-")},
            body=record.body,
        )
        for record in records
    )
    return msgspec.msgpack.encode(tuple(lines))


def read(body: bytes) -> tuple[Record, ...]:
    """Return the records that `written` wrote. Raises one of `UNREADABLE`."""
    return tuple(
        Record(seq=line.seq, side=line.side, body=line.body, headers=line.headers, time=line.time)
        for line in _LINES.decode(body)
    )
