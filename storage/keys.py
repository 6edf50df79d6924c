"""Keys: snapshots are encrypted with a secret of their conversation, so that one destroyed secret ends them all.

Of a stream that keeps two, the older ones stay on the disk until the server writes the file anew, and a large one is an
object that nothing names any more. The log itself needs no key: erasing overwrites each of its messages.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import zlib
from collections import OrderedDict

import msgspec
from nats.aio.client import Client as NatsConnection
from nats.js.errors import APIError, NotFoundError

from protocol import subjects
from protocol.connection import TRANSIENT
from protocol.errors import ArtifactDamaged, LogUnavailable, NotFound, Unavailable
from protocol.ids import Address
from protocol.limits import ENVELOPE_BYTES_MAX

from .jetstream import READ_SECONDS, WRONG_LAST_SEQUENCE
from .ports import Artifacts, Keys, Snapshots

KEY_BYTES = 32
NONCE_BYTES = 12
KEPT_MAX = 1024
COMPRESSION_LEVEL = 1
"""Of zlib: a state of 200 KB becomes a third in 3 ms; higher levels win a tenth for three times the time."""


class JetStreamKeys:
    """`Keys` beside the snapshots; whoever is second finds the first one's key."""

    def __init__(self, connection: NatsConnection) -> None:
        self._jetstream = connection.jetstream(timeout=READ_SECONDS)
        self._kept: OrderedDict[Address, bytes] = OrderedDict()

    async def key(self, at: Address) -> bytes:
        """See `Keys.key`."""
        found = self._kept.get(at) or await self._stored(at) or await self._made(at)
        self._kept[at] = found
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return found

    async def _made(self, at: Address) -> bytes:
        made = secrets.token_bytes(KEY_BYTES)
        try:
            await self._jetstream.publish(
                subjects.key(at), made, headers={"Nats-Expected-Last-Subject-Sequence": "0"}, timeout=READ_SECONDS
            )
        except APIError as error:
            found = await self._stored(at) if error.err_code == WRONG_LAST_SEQUENCE else None
            if found is None:
                raise LogUnavailable(f"the key of {at} cannot be kept: {error.description}") from None
            return found
        except TRANSIENT as error:
            raise LogUnavailable(f"the key of {at} cannot be kept: {type(error).__name__}") from None
        return made

    async def _stored(self, at: Address) -> bytes | None:
        try:
            message = await self._jetstream.get_msg(subjects.SNAPSHOT_STREAM, subject=subjects.key(at))
        except NotFoundError:
            return None
        except (APIError, *TRANSIENT) as error:
            raise LogUnavailable(f"the key of {at} cannot be read: {type(error).__name__}") from None
        found = message.data or b""
        return found if len(found) == KEY_BYTES else None


class Sealed(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """An encrypted snapshot: itself, or the SHA-256 of the artifact that holds it."""

    body: bytes = b""
    artifact: str = ""


class SealedSnapshots:
    """`Snapshots` that nobody can read without the conversation's key; large ones are artifacts.

    As in any `Snapshots`, losing one costs time only: what fails is not kept, or not found.
    """

    def __init__(self, snapshots: Snapshots, *, keys: Keys, artifacts: Artifacts) -> None:
        self._snapshots = snapshots
        self._keys = keys
        self._artifacts = artifacts

    async def put(self, at: Address, body: bytes) -> None:
        """See `Snapshots.put`."""
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 30 ms, and only who keeps one pays

        # before it is sealed: sealed bytes do not become smaller; in a thread: it may be a megabyte
        body = await asyncio.to_thread(zlib.compress, body, COMPRESSION_LEVEL)
        try:
            nonce = os.urandom(NONCE_BYTES)
            closed = nonce + AESGCM(await self._keys.key(at)).encrypt(nonce, body, str(at).encode())
            if len(closed) <= ENVELOPE_BYTES_MAX:
                sealed = Sealed(body=closed)
            else:
                sealed = Sealed(artifact=await self._artifacts.put(at.tenant, closed))
        except Unavailable:
            return
        await self._snapshots.put(at, msgspec.msgpack.encode(sealed))

    async def newest(self, at: Address) -> bytes | None:
        """See `Snapshots.newest`; one that the key does not open is none."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        stored = await self._snapshots.newest(at)
        if stored is None:
            return None
        try:
            sealed = msgspec.msgpack.decode(stored, type=Sealed)
            closed = sealed.body or await self._artifacts.get(at.tenant, sealed.artifact)
            key = await self._keys.key(at)
            # only who has the key can have written it: what it swells to is a state
            return zlib.decompress(AESGCM(key).decrypt(closed[:NONCE_BYTES], closed[NONCE_BYTES:], str(at).encode()))
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, InvalidTag, zlib.error):
            return None
        except (NotFound, ArtifactDamaged, Unavailable):
            return None

    async def artifact(self, at: Address) -> str:
        """Return the SHA-256 of the object that holds the newest one; empty if none does."""
        try:
            return msgspec.msgpack.decode(await self._snapshots.newest(at) or b"", type=Sealed).artifact
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return ""
