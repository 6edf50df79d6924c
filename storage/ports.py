"""What storage promises of what is kept. Every adapter passes the same contract tests (`tests/storage`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from protocol.cipher import Key
from protocol.ids import Address, Token


@dataclass(frozen=True, kw_only=True)
class Record:
    """One stored message of a conversation's log. `seq` orders `said` and `done` together."""

    seq: int
    side: Literal["said", "done"]
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    time: str = ""
    """When the server stored it, RFC 3339; empty where the store does not know."""


class EventLog(Protocol):
    """The only truth: what agents said and what actors did, for ever, in one order per conversation."""

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        """Store *body* on the `said` side and return its sequence; the store wakes spill then, as `Wakes.wake` does.

        Returned means durable. Retries inside; a repeat of *message_id* within the store's memory is
        stored once. Raises `LogUnavailable`, after which the message may still land.
        """
        ...

    async def append(
        self, at: Address, body: bytes, *, expected_seq: int, commit_id: str, headers: Mapping[str, str]
    ) -> int | None:
        """Store a commit if the newest `done` of *at* is still at *expected_seq* (0: there is none).

        Return its sequence. None says: load again and decide again, because another commit came first, or
        because this very commit is in the log already; never fold the own copy then. An unknown outcome
        (timeout, lost connection) is resolved by trying again with the same bytes and id;
        `LogUnavailable` says that it stayed unknown.
        """
        ...

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        """Return all records of *at* with a sequence above *after*, in order, none missing, as the leader has them.

        Raises `LogRegression` if the log ends before *after*: it lost what was there. So it does if the record *after*
        is gone, or is not the one of that *time*: the log has lost its end, and grew past it since.
        """
        ...

    def batches(self, at: Address, *, after: int, time: str = "", upto: int = 0) -> AsyncIterator[list[Record]]:
        """Yield the records of `read`, some megabytes at a time: a log may be larger than memory. Raises as it does.

        With *upto*, the sequence of a record of *at*, the newest ones may be missing behind it: who says how far is
        enough, and knows the record *after* by its time, need not wait until the leader tells where the log ends.
        """
        ...

    async def head(self, at: Address) -> int:
        """Return the sequence of the newest record of *at*, as the leader has it; 0 if there is none."""
        ...

    async def addresses(self) -> list[Address]:
        """Return all conversations that have a record, sorted."""
        ...

    async def end(self, partition: int = 0) -> int:
        """Return the newest sequence of all conversations of a *partition* together."""
        ...


class Snapshots(Protocol):
    """Folded states that save time and nothing else; losing them all changes no answer."""

    @property
    def refused(self) -> str:
        """Return why this user may read none; empty where that is allowed, or was not tried."""
        ...

    async def put(self, at: Address, body: bytes) -> None:
        """Keep *body* as the newest snapshot of *at*."""
        ...

    async def newest(self, at: Address) -> bytes | None:
        """Return the newest snapshot of *at*, or None."""
        ...

    async def forget(self, at: Address) -> int:
        """Overwrite all snapshots of *at*, older ones too; return how many there were.

        The one call that passes its failure on: raises `LogUnavailable`, after which some may be left, and
        `NotProvisioned` where the store was made so that it forbids it. Asked again it goes on.
        """
        ...


class Keys(Protocol):
    """One secret for each conversation, with which what is kept of it is encrypted.

    `key` and `known` raise `Erased` where the key was destroyed, `KeysUnavailable`, `LogUnavailable`, `Damaged`.
    """

    @property
    def wraps(self) -> bool:
        """Tell whether tenants' keys protect the keys: else the log is kept in plain text."""
        ...

    async def key(self, at: Address) -> Key:
        """Return the key of *at*, always the same one; made when first asked for."""
        ...

    async def known(self, at: Address) -> Key | None:
        """Return the key of *at*; None if nobody asked for it before."""
        ...

    async def prepare(self, tenant: Token) -> None:
        """Make the first key of *tenant* where its keys may be made here; one that was lost is never replaced.

        Raises `KeysUnavailable` where it was lost, `LogUnavailable`, `NotProvisioned`.
        """
        ...

    async def check(self, tenant: Token) -> None:
        """Raise `KeysUnavailable` if the key of *tenant* is not the one that keys of its conversations need.

        What is wrong with a single conversation is not told here. Raises `LogUnavailable`, `NotProvisioned`.
        """
        ...


class Artifacts(Protocol):
    """Bytes moved out of the context, addressed by tenant and SHA-256 (hex)."""

    async def put(self, tenant: Token, body: bytes) -> str:
        """Store *body* and return its SHA-256; storing it twice is harmless. Raises `ArtifactsUnavailable`."""
        ...

    async def get(self, tenant: Token, sha256: str) -> bytes:
        """Return the verified bytes. Raises `NotFound`, `ArtifactDamaged`, `ArtifactsUnavailable`."""
        ...

    async def delete(self, tenant: Token, sha256: str) -> None:
        """Remove the bytes; harmless where there are none. Raises `ArtifactsUnavailable`."""
        ...

    async def find(self, tenant: Token, prefix: str) -> str:
        """Return the SHA-256 that begins with *prefix*. Raises `NotFound` if there is none or more than one."""
        ...

    async def upload_url(self, tenant: Token, sha256: str, *, size_bytes: int) -> str:
        """Return a URL to which *size_bytes* bytes of *sha256* can be PUT within a few minutes, and no other number."""
        ...

    def sizes(self) -> AsyncIterator[dict[tuple[Token, str], int]]:
        """Yield the bytes of each artifact by its tenant and SHA-256, some at once. Raises `ArtifactsUnavailable`."""
        ...


class Archives(Protocol):
    """Older parts of logs, outside the stream: by conversation and SHA-256 (hex). All raise `ArtifactsUnavailable`."""

    async def put(self, at: Address, body: bytes | bytearray) -> str:
        """Store *body* and return its SHA-256; storing it twice is harmless."""
        ...

    async def get(self, at: Address, sha256: str) -> bytes:
        """Return the verified bytes. Raises `ArchiveDamaged` where they are not there, or are others."""
        ...

    async def names(self, at: Address) -> list[str]:
        """Return the SHA-256 of all that is kept of *at*, sorted; of one that nothing refers to as well."""
        ...

    def addresses(self) -> AsyncIterator[Address]:
        """Yield each conversation of which anything is kept, once."""
        ...

    async def delete(self, at: Address, sha256: str) -> None:
        """Remove the bytes; harmless where there are none."""
        ...


class Anchors(Protocol):
    """Sealed heads of each tenant, numbered from 1, kept where no log is. All raise `ArtifactsUnavailable`."""

    async def put(self, tenant: Token, number: int, body: bytes) -> bool:
        """Store anchor *number*; false if there is one already, which is never overwritten."""
        ...

    async def get(self, tenant: Token, number: int) -> bytes:
        """Return the bytes of anchor *number*. Raises `NotFound`."""
        ...

    async def numbers(self, tenant: Token) -> list[int]:
        """Return the numbers of all anchors of *tenant*, sorted."""
        ...

    async def tenants(self) -> list[Token]:
        """Return all tenants that have an anchor, sorted."""
        ...

    async def oldest(self) -> datetime | None:
        """Return when that tenant got its newest anchor whose newest is the oldest; None where nobody has one."""
        ...

    async def check(self) -> None:
        """Raise within seconds where nothing answers: for who is about to read much, and would wait at each call."""
        ...
