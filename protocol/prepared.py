"""Prepared: what is said, checked before anything is sent; the large parts of a message are uploaded."""

from __future__ import annotations

import asyncio
import hashlib
import time
import urllib.request
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from nats.aio.client import Client as NatsConnection

from .arguments import told
from .connection import until
from .envelopes import batches_of
from .errors import ArtifactsUnavailable, BadMessage, OutcomeUnknown
from .facts import Claim, SaidMessage
from .formats import messages
from .formats.cache_marks import without_marks
from .ids import Address
from .keys import check_not_erased
from .limits import CLAIM_BYTES_MIN, ENVELOPE_BYTES_MAX, INLINE_BYTES_MAX
from .newest import Newest
from .service_call import ask
from .service_messages import WAIT_SECONDS, UploadAsked

PUT_SECONDS = 4.0
"""For a sign of life of the store; a second try begins within it, and the whole takes no more than twice as long."""

DOWN_SECONDS = 15.0
"""A store that did not answer is left alone for so long."""

UPLOADS_REMEMBERED_MAX = 256

Batches = list[tuple[SaidMessage, ...]]


def ready(raws: Iterable[bytes]) -> Batches | None:
    """Return what `all_prepared` makes of messages in JSON; None where one is none, or has parts that are uploaded."""
    out = []
    for given in raws:
        try:
            raw, _, parsed = checked(0, messages.decode(given))
        except BadMessage:
            return None
        if len(raw) > ENVELOPE_BYTES_MAX or large_parts(raw, parsed):
            return None
        out.append(SaidMessage(raw=raw))
    return list(batches_of(out))


async def all_prepared(new: Iterable[Mapping[str, Any]], uploads: Uploads, *, declared: str, seconds: float) -> Batches:
    """Return *new* as `prepared` returns each, in envelopes. Raises as it."""
    said = [await prepared(index, one, uploads, declared=declared, seconds=seconds) for index, one in enumerate(new)]
    return list(batches_of(said))


async def prepared(
    index: int, message: Mapping[str, Any], uploads: Uploads, *, declared: str = "", seconds: float = WAIT_SECONDS
) -> SaidMessage:
    """Check one message of a conversation that *declared* its format, and upload its large parts.

    Who says where to has *seconds* for it.

    What the store does not take stays in the message, as long as that fits into one frame of the log. Cache marks are
    taken off.
    Raises `BadMessage`, `ArtifactsUnavailable`.
    """
    raw, plain, parsed = checked(index, message, declared=declared)
    claims: list[Claim] = []
    down: ArtifactsUnavailable | None = None
    inline: list[bytes] = []
    for pointer, body in large_parts(raw, parsed):
        try:
            claims.append(Claim(pointer=pointer, sha256=await uploads.put(body, seconds=seconds), bytes=len(body)))
        except ArtifactsUnavailable as error:
            down = error
            inline.append(body)
    raw = without_parts(plain, claims) if claims else raw
    if down is not None and len(raw) > INLINE_BYTES_MAX:
        raise down
    uploads.keep_inline(inline)
    if down is None and len(raw) > ENVELOPE_BYTES_MAX:
        raise BadMessage(
            f"message {index + 1} has {len(raw):,} bytes outside its texts; the limit is {ENVELOPE_BYTES_MAX:,}",
            at=f"/{index}",
        )
    return SaidMessage(raw=raw, claims=tuple(claims))


def large_parts(raw: bytes, parsed: messages.Message) -> list[tuple[str, bytes]]:
    """Return the pointers and bytes of the parts that a message of the bytes *raw* is said without."""
    if len(raw) < CLAIM_BYTES_MIN:
        return []
    # instructions and what the assistant said are not spilled: they stay in the log as long as they fit
    least = CLAIM_BYTES_MIN if parsed.role in ("user", "tool") or len(raw) > ENVELOPE_BYTES_MAX else len(raw) + 1
    bodies = [(part.pointer, part.text.encode("utf-8", "surrogatepass")) for part in parsed.parts]
    return [(pointer, body) for pointer, body in bodies if len(body) >= least]


def without_parts(plain: Mapping[str, Any], claims: Iterable[Claim]) -> bytes:
    """Return the bytes of a message without what its *claims* stand for."""
    return messages.encode(messages.with_leaves(plain, dict.fromkeys((one.pointer for one in claims), "")))


def checked(
    index: int, message: Mapping[str, Any], *, declared: str = ""
) -> tuple[bytes, dict[str, Any], messages.Message]:
    """Return the bytes of one message, and what is read from them. Raises `BadMessage`.

    Its sentence counts messages from one, as all that people read; `at` points into the list.
    """
    if not isinstance(message, Mapping):
        raise BadMessage(
            f"message {index + 1} must be an object, not {told(message)}: give a dict as the provider's API has it",
            at=f"/{index}",
        )
    try:
        raw = messages.encode(without_marks(message))
        messages.check_size(raw)
        # read back from the bytes: what cannot be read is never sent
        plain = messages.decode(raw)
        parsed = messages.parse(plain)
        if not declared:
            messages.check_known(plain)
    except BadMessage as error:
        raise BadMessage(f"message {index + 1}: {error}", at=f"/{index}{error.fields.get('at', '')}") from None
    return raw, plain, parsed


class Uploads:
    """What one conversation uploaded lately: the same bytes again are prepared as they were the first time.

    An append that is repeated is then the same one, and while the store is down nobody waits for it each time.
    """

    def __init__(self, connection: NatsConnection, at: Address) -> None:
        self._connection = connection
        self._at = at
        self._known: Newest[str, bool] = Newest(UPLOADS_REMEMBERED_MAX)
        self._down_until = 0.0

    async def put(self, body: bytes, *, seconds: float = WAIT_SECONDS) -> str:
        """Store *body* and return its SHA-256. Raises `Erased`; `ArtifactsUnavailable`, at once where it just did."""
        sha256 = hashlib.sha256(body).hexdigest()
        there = self._known.get(sha256)
        if there is False or (there is None and time.monotonic() < self._down_until):
            raise ArtifactsUnavailable(f"S3 takes no large parts now: one of {len(body):,} bytes waits for it")
        if there is None:
            await check_not_erased(self._connection, self._at)
            try:
                asked = UploadAsked(sha256=sha256, bytes=len(body))
                answer, _ = await ask(self._connection, self._at, "upload", asked, seconds)
                await uploaded(answer.url, body)
            except ArtifactsUnavailable:
                self._down_until = time.monotonic() + DOWN_SECONDS
                raise
            self._known[sha256] = True
        return sha256

    def keep_inline(self, bodies: Iterable[bytes]) -> None:
        """Remember that *bodies* went into the log with their message."""
        for body in bodies:
            self._known[hashlib.sha256(body).hexdigest()] = False


async def uploaded(url: str, body: bytes) -> None:
    """Put *body* to *url*. Raises `ArtifactsUnavailable` within seconds of a store that is down or hangs."""
    if not url.startswith(("https://", "http://")):
        raise ArtifactsUnavailable("the service named a place for a large part that is no store")
    request = urllib.request.Request(url, data=body, method="PUT")  # noqa: S310  # looked at above
    try:
        # the same bytes under the same name: a repeat is harmless
        await until(
            lambda: asyncio.to_thread(_put, request), deadline_seconds=PUT_SECONDS, what="upload of a large part"
        )
    except OutcomeUnknown:
        host = urlsplit(url).netloc.rpartition("@")[2]
        size = f"{len(body):,} bytes"
        raise ArtifactsUnavailable(f"S3 at {host} did not take a large part of {size}; is it running?") from None


def _put(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=PUT_SECONDS) as response:  # noqa: S310  # `uploaded` looked at it
        response.read()
