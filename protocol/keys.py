"""Keys: each conversation has a random one, kept on NATS as its tenant's key wrapped it.

The wrapped keys have a stream of their own, apart from what they open: a copy of the log without that stream, or
without the tenant's key, is noise. An erased conversation has a mark in its key's place, so that nobody makes another.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar, runtime_checkable

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.api import RawStreamMsg
from nats.js.errors import APIError, NotFoundError

from . import cipher, subjects
from .connection import PAUSE_SECONDS, STREAM_NOT_FOUND, TRANSIENT, TRY_SECONDS, WRONG_LAST_SEQUENCES, until
from .errors import (
    PROVISION,
    UNREADABLE,
    BadEnvelope,
    Damaged,
    Erased,
    KeysUnavailable,
    LogUnavailable,
    NotPermitted,
    NotProvisioned,
)
from .ids import Address, Token
from .newest import Newest

T = TypeVar("T")

PATIENCE_SECONDS = 30.0
"""For NATS, as long as it does not answer."""

KEPT_MAX = 4096
"""Keys that one process remembers; the least recent is asked for again (half a millisecond)."""

KEY_ID_BYTES = 8
"""Of the tenant key's SHA-256: which of a tenant's keys wrapped this one."""

WRAPPED = b"\x01"
"""The version of what `FolderKeys` writes: version, key id, nonce, encrypted key."""

PER_SUBJECT = "maximum messages per subject exceeded"
"""A taken place and a full stream have the same number; only the second is a key that is not kept."""

LOOK_SECONDS = 1.0
"""For the answer whether a conversation was erased: who appends does not wait longer where NATS hangs."""

SET_KEYS = "set keys.folder (JETTISON_KEYS__FOLDER), or give a client its keys"


@runtime_checkable
class TenantKeys(Protocol):
    """What wraps the keys of a tenant's conversations: a folder, or a key management service.

    All raise `KeysUnavailable` where the tenant's key is not to be had.
    """

    def lacks(self, tenant: Token) -> bool:
        """Tell whether *tenant* has no key here and `make` would make one; a key service says no."""
        ...

    def make(self, tenant: Token) -> None:
        """Make the first key of *tenant*; who asks knows that there never was one."""
        ...

    async def wrap(self, at: Address, key: bytes) -> bytes:
        """Return *key* as it may be kept by anybody, bound to the address."""
        ...

    async def unwrap(self, at: Address, wrapped: bytes) -> bytes:
        """Return the key again. Raises `Damaged` if this is not what `wrap` returned for *at*."""
        ...


@dataclass(frozen=True, kw_only=True)
class FolderKeys:
    """`TenantKeys` of a folder: `TENANT.key` has a line of 64 hex digits; of several lines the last one wraps.

    Earlier lines still open what they wrapped. A missing file is made only where *makes* says so, and only by an actor
    that saw that the tenant never had a key (`JetStreamKeys.prepare`).
    """

    folder: Path | str
    makes: bool = False

    def lacks(self, tenant: Token) -> bool:
        """See `TenantKeys.lacks`."""
        return self.makes and not self._path(tenant).exists()

    def make(self, tenant: Token) -> None:
        """See `TenantKeys.make`; whoever is second finds the first one's."""
        try:
            _make(self._path(tenant))
        except OSError as error:
            reason = f"a key of tenant {tenant} cannot be made in {self.folder}: {type(error).__name__}"
            raise KeysUnavailable(reason, tenant=tenant) from None

    def check(self, tenant: Token) -> None:
        """Raise `KeysUnavailable` if the file of *tenant* is not there, or not one of keys."""
        self._keys(tenant)

    async def wrap(self, at: Address, key: bytes) -> bytes:
        """See `TenantKeys.wrap`."""
        ours = self._keys(at.tenant)[-1]
        return WRAPPED + _id(ours) + cipher.Key(ours).encrypt(key, str(at))

    async def unwrap(self, at: Address, wrapped: bytes) -> bytes:
        """See `TenantKeys.unwrap`."""
        version, ident, closed = wrapped[:1], wrapped[1 : 1 + KEY_ID_BYTES], wrapped[1 + KEY_ID_BYTES :]
        if version != WRAPPED:
            raise KeysUnavailable(f"the key of {at} was wrapped by no folder of keys", address=str(at))
        keys = {_id(key): key for key in self._keys(at.tenant)}
        if ident not in keys:
            there = ", ".join(one.hex() for one in keys)
            raise KeysUnavailable(
                f"the key of {at} was wrapped by key {ident.hex()} of its tenant; {self._path(at.tenant)} has {there}: "
                "put that key's line above the others",
                address=str(at),
            )
        key = cipher.Key(keys[ident]).decrypt(closed, str(at))
        if key is None:
            raise Damaged(f"the key of {at} does not open with its tenant's key", address=str(at))
        return key

    def _keys(self, tenant: Token) -> list[bytes]:
        path = self._path(tenant)
        try:
            lines = path.read_text(encoding="ascii").split()
        except FileNotFoundError:
            raise KeysUnavailable(
                f"tenant {tenant} has no key in {self.folder}: put {path.name} there; "
                "the first one of a tenant that never had one is made by `openssl rand -hex 32`",
                tenant=tenant,
            ) from None
        except (OSError, ValueError) as error:
            raise KeysUnavailable(f"{path} cannot be read: {type(error).__name__}", tenant=tenant) from None
        if not lines or not all(_HEX.fullmatch(line) for line in lines):
            raise KeysUnavailable(f"{path} must hold lines of 64 hex digits, one for each key", tenant=tenant)
        return [bytes.fromhex(line) for line in lines]

    def _path(self, tenant: Token) -> Path:
        return Path(self.folder) / f"{tenant}.key"


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="key.1", tag_field="kind"):
    """What lies on a conversation's key subject: its key, wrapped or as it is; neither, and it is destroyed."""

    wrapped: bytes = b""
    plain: bytes = b""


DESTROYED = msgspec.msgpack.encode(KeyRecord())


class JetStreamKeys:
    """The keys of conversations on the stream `CTX_KEYS`, which keeps the first one of each for ever.

    Without *tenants* it makes keys that lie there as they are. An agent, which may ask for its own tenant's subjects
    only, reads *direct*; what a commit rests on is read from the leader.
    """

    def __init__(
        self,
        connection: NatsConnection,
        *,
        tenants: TenantKeys | None = None,
        read: Literal["leader", "direct"] = "leader",
    ) -> None:
        self._connection = connection
        self._jetstream = connection.jetstream(timeout=TRY_SECONDS)
        self._tenants = tenants
        self._direct = read == "direct"
        self._known: Newest[Address, cipher.Key] = Newest(KEPT_MAX)

    @property
    def wraps(self) -> bool:
        """Tell whether tenants' keys are at hand."""
        return self._tenants is not None

    async def key(self, at: Address) -> cipher.Key:
        """Return the key of *at*, always the same one; made when first asked for.

        Raises `Erased`, `KeysUnavailable`, `Damaged`, `LogUnavailable`.
        """
        for pause in PAUSE_SECONDS:
            found = await self.known(at) or await self._made(at)
            if found is not None:
                return found
            await asyncio.sleep(pause)  # somebody else made it, and the replica that was asked does not know it yet
        raise LogUnavailable(f"the key of {at} is there, and cannot be read", address=str(at))

    async def known(self, at: Address) -> cipher.Key | None:
        """Return the key of *at*; None if nobody made one. Raises as `key` does."""
        if found := self._known.get(at):
            self._known[at] = found
            return found
        body = await self._read(at)
        if body is None:
            return None
        return self._remembered(at, await self._unwrapped(at, body))

    async def prepare(self, tenant: Token) -> None:
        """Make the first key of *tenant* where its keys may be made here; one that was lost is never replaced.

        Raises `KeysUnavailable` where it was lost, `LogUnavailable`, `NotProvisioned`.
        """
        # an agent makes none: the replica that it asks may be behind, and its rights may not show it the others' keys
        if self._tenants is None or self._direct or not self._tenants.lacks(tenant):
            return
        # Any key that is kept counts, also one in plain text or a destroyed one: a wrapped one may lie behind it, and
        # to look for that one would be to read them all. Who is refused for nothing has `openssl`.
        if await self._at_end(tenant, oldest=True) is not None:
            if not self._tenants.lacks(tenant):
                return  # somebody made the first one meanwhile: the file, and then what it wrapped
            raise KeysUnavailable(
                f"the key of tenant {tenant} is lost, and keys of its conversations are kept: put {tenant}.key back "
                "from its copy; where there is no copy, or never was a key, `openssl rand -hex 32` makes one, and what "
                "a lost one wrapped stays closed",
                tenant=tenant,
            )
        self._tenants.make(tenant)

    async def check(self, tenant: Token) -> None:
        """Open the oldest and the newest key of *tenant*; raise `KeysUnavailable` if its key is not the one they need.

        What is wrong with a single conversation is not told here. Raises `LogUnavailable`, `NotProvisioned`.
        """
        for oldest in (True, False):
            if (message := await self._at_end(tenant, oldest=oldest)) is not None:
                with suppress(Erased, Damaged, BadEnvelope):
                    await self._unwrapped(subjects.address_of(message.subject or ""), message.data or b"")

    async def _unwrapped(self, at: Address, body: bytes) -> bytes:
        try:
            kept = msgspec.msgpack.decode(body, type=KeyRecord)
        except UNREADABLE:
            raise Damaged(f"the key of {at} is not readable", address=str(at)) from None
        if kept == KeyRecord():
            raise _erased(at)
        if kept.wrapped and self._tenants is None:
            raise KeysUnavailable(f"{at} is encrypted with a key of its tenant; {SET_KEYS}", address=str(at))
        key = kept.plain or await self._tenants.unwrap(at, kept.wrapped)  # type: ignore[union-attr]  # asked above
        if len(key) != cipher.KEY_BYTES:
            raise Damaged(f"the key of {at} has {len(key)} bytes", address=str(at))
        return key

    async def _made(self, at: Address) -> cipher.Key | None:
        """Return a new key that is kept; None if there is one already."""
        await self.prepare(at.tenant)
        made = secrets.token_bytes(cipher.KEY_BYTES)
        kept = KeyRecord(wrapped=await self._tenants.wrap(at, made)) if self._tenants else KeyRecord(plain=made)
        body, first = msgspec.msgpack.encode(kept), {"Nats-Expected-Last-Subject-Sequence": "0"}

        async def attempt() -> bool:
            try:
                await self._jetstream.publish(subjects.key(at), body, headers=first, timeout=TRY_SECONDS)
            except APIError as error:
                if is_taken(error):
                    return False
                raise
            return True

        return self._remembered(at, made) if await self._until(attempt, f"the key of {at} cannot be kept") else None

    async def _read(self, at: Address) -> bytes | None:
        message = await self._message(subjects.key(at), f"the key of {at} cannot be read")
        return None if message is None else message.data or b""

    async def _at_end(self, tenant: Token, *, oldest: bool) -> RawStreamMsg | None:
        """Return the oldest or the newest of what lies on the subjects of *tenant*'s keys."""
        first = 1 if oldest else None
        return await self._message(subjects.keys_of(tenant), f"the keys of {tenant} cannot be read", start=first)

    async def _message(self, subject: str, what: str, *, start: int | None = None) -> RawStreamMsg | None:
        """Return the last message on *subject*, or its first one from the sequence *start* on."""

        async def attempt() -> RawStreamMsg | None:
            try:
                return await self._jetstream.get_msg(
                    subjects.KEY_STREAM, seq=start, subject=subject, next=start is not None, direct=self._direct
                )
            except NotFoundError as error:
                if error.err_code == STREAM_NOT_FOUND:
                    raise NotProvisioned(
                        f"the stream of keys does not exist on this server; {PROVISION}",
                        stream=subjects.KEY_STREAM,
                    ) from None
                return None

        return await self._until(attempt, what)

    async def _until(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        try:
            return await until(attempt, connection=self._connection, deadline_seconds=PATIENCE_SECONDS, what=what)
        except APIError as error:
            raise LogUnavailable(f"{what}: {error.description}", err_code=error.err_code) from None

    def _remembered(self, at: Address, secret: bytes) -> cipher.Key:
        key = self._known[at] = cipher.Key(secret)
        return key


async def newest_is_wrapped(connection: NatsConnection) -> bool:
    """Tell whether a tenant's key wrapped the newest key that is kept; not where none can be seen from here."""
    try:
        newest = await connection.jetstream(timeout=TRY_SECONDS).get_msg(
            subjects.KEY_STREAM, subject=subjects.KEY_SUBJECTS
        )
        return bool(msgspec.msgpack.decode(newest.data or b"", type=KeyRecord).wrapped)
    except (APIError, NotPermitted, *TRANSIENT, *UNREADABLE):
        return False


async def check_not_erased(connection: NatsConnection, at: Address) -> bool:
    """Raise `Erased` where the mark of an erasure is in the key's place, encrypted or not; false: NATS did not say."""
    if not connection.is_connected:
        return False
    try:
        found = await connection.jetstream(timeout=LOOK_SECONDS).get_msg(
            subjects.KEY_STREAM, subject=subjects.key(at), direct=True
        )
    except (NotFoundError, NotPermitted):
        return True  # no key was ever made, or this user may not know
    except (APIError, *TRANSIENT):
        return False
    if found.data == DESTROYED:
        raise _erased(at)
    return True


def _erased(at: Address) -> Erased:
    return Erased(f"{at} was erased, and its key destroyed", address=str(at))


def is_taken(error: APIError) -> bool:
    """Tell whether a first key was refused because there is one."""
    return error.err_code in WRONG_LAST_SEQUENCES or error.description == PER_SUBJECT


_HEX = re.compile(r"[0-9a-fA-F]{64}")


def _id(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:KEY_ID_BYTES]


def _make(path: Path) -> None:
    """Make a tenant's key, on the disk before anything is wrapped with it; whoever is second finds the first one's."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    file = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, secrets.token_bytes(cipher.KEY_BYTES).hex().encode() + b"\n")
        os.fsync(file)
        os.link(partial, path)
    except FileExistsError:
        return
    finally:
        os.close(file)
        partial.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
