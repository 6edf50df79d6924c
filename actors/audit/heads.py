"""Heads: how far a log goes, in three hashes that together cover every byte of it and its order.

`hash` is the newest commit's, `said_hash` rolls over what agents said, `log_hash` over every record with its place.
The first two move with a conversation to another stack; the third holds where the log was written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from protocol import codec
from protocol.errors import ChainBroken, JettisonError
from protocol.ids import Address
from storage.ports import Record

ORIGIN_HEADER = "Jettison-Origin"
"""On an imported record: its sequence in each stack that it was in before, the oldest first."""


class Head(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One conversation at one position of its log."""

    conversation: str
    version: int
    hash: bytes
    said_hash: bytes
    log_hash: bytes
    seq: int


def start(at: Address) -> Head:
    """Return the head before anything was said."""
    first = codec.genesis(at)
    return Head(conversation=at.conversation, version=0, hash=first, said_hash=first, log_hash=first, seq=0)


def moved(head: Head, record: Record) -> Head:
    """Return the head after *record*. Raises `ChainBroken` and `BadEnvelope` if it does not follow."""
    if record.seq <= head.seq:
        raise ChainBroken(f"sequence {record.seq} comes after {head.seq}", seq=record.seq)
    head = msgspec.structs.replace(head, seq=record.seq, log_hash=_logged(head.log_hash, record))
    if record.side == "said":
        return msgspec.structs.replace(head, said_hash=codec.roll(head.said_hash, record.body))
    commit = codec.decode_commit(record.body)
    if commit.version > head.version and commit.is_tombstone:
        # what it follows may be erased already; it vouches for the hashes
        return msgspec.structs.replace(head, version=commit.version, hash=commit.hash, said_hash=commit.said_hash)
    if commit.version != head.version + 1 or commit.prev_hash != head.hash:
        raise ChainBroken(
            f"commit {commit.version} does not follow version {head.version}", version=commit.version, seq=record.seq
        )
    return msgspec.structs.replace(head, version=commit.version, hash=commit.hash)


def positions(record: Record) -> tuple[int, ...]:
    """Return the sequences of *record*: in the stacks it was imported from, then in this one."""
    try:
        before = tuple(int(one) for one in record.headers.get(ORIGIN_HEADER, "").split(",") if one)
    except ValueError:
        before = ()
    return (*before, record.seq)


def earlier(at: Address, records: Sequence[Record]) -> Iterator[dict[int, tuple[Head, int]]]:
    """Yield, for each stack that the log was imported from, its heads by sequence there, with the sequence here.

    Each goes as far as the chain holds. An anchor of an earlier stack (or of this one, before its log was lost and
    imported again) vouches for a head in one of them.
    """
    for depth in range(1, max((len(positions(record)) for record in records), default=1)):
        head, found = start(at), {0: (start(at), 0)}
        for record in records:
            if len(positions(record)) <= depth:
                break
            try:
                head = moved(head, replace(record, seq=positions(record)[-1 - depth]))
            except JettisonError:
                break
            found[head.seq] = head, record.seq
        yield found


def _logged(log_hash: bytes, record: Record) -> bytes:
    place = record.seq.to_bytes(8) + record.side.encode()
    return hashlib.sha256(log_hash + place + hashlib.sha256(record.body).digest()).digest()
