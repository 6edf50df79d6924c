"""Prepared: what is said, checked before anything is sent; the large parts of a message are uploaded."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .connection import until
from .errors import ArtifactsUnavailable, BadMessage, OutcomeUnknown, Rejected
from .facts import Claim, SaidMessage
from .formats import messages
from .limits import CLAIM_BYTES_MIN, ENVELOPE_BYTES_MAX


async def prepared(index: int, message: Mapping[str, Any], *, upload: Callable[[bytes], Awaitable[str]]) -> SaidMessage:
    """Check one message, and *upload* its large parts, which returns the name of each. Raises `BadMessage`."""
    if not isinstance(message, Mapping):
        raise BadMessage(f"message {index} must be an object, not {type(message).__name__}", at=f"/{index}")
    try:
        raw = messages.encode(message)
        messages.check_size(raw)
        # read back from the bytes: what cannot be read is never sent
        plain = messages.decode(raw)
        parsed = messages.parse(plain)
    except BadMessage as error:
        raise BadMessage(f"message {index}: {error}", at=f"/{index}{error.fields.get('at', '')}") from None
    if len(raw) < CLAIM_BYTES_MIN:
        return SaidMessage(raw=raw)
    claims, texts = [], {}
    # instructions and what the assistant said are not spilled: they stay in the log as long as they fit
    least = CLAIM_BYTES_MIN if parsed.role in ("user", "tool") or len(raw) > ENVELOPE_BYTES_MAX else len(raw) + 1
    for part in parsed.parts:
        body = part.text.encode("utf-8", "surrogatepass")
        if len(body) >= least:
            claims.append(Claim(pointer=part.pointer, sha256=await upload(body), bytes=len(body)))
            texts[part.pointer] = ""
    raw = messages.encode(messages.with_leaves(plain, texts)) if claims else raw
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise BadMessage(
            f"message {index} has {len(raw):,} bytes outside its texts; the limit is {ENVELOPE_BYTES_MAX:,}",
            at=f"/{index}",
        )
    return SaidMessage(raw=raw, claims=tuple(claims))


async def stored(url: str, body: bytes, *, deadline_seconds: float) -> None:
    """Put *body* to *url*. Raises `ArtifactsUnavailable`."""
    request = urllib.request.Request(url, data=body, method="PUT")

    async def attempt() -> int:
        await asyncio.to_thread(_put, request)
        return 1

    try:
        # the same bytes under the same name: a repeat is harmless
        await until(attempt, deadline_seconds=deadline_seconds, what="upload of a large part")
    except OutcomeUnknown as error:
        raise ArtifactsUnavailable(f"a large part could not be stored: {error}") from None


def check_counts(**counts: int) -> None:
    """Raise `Rejected` for what cannot be a number of tokens."""
    for name, value in counts.items():
        if value < 0:
            raise Rejected(f"{name} is a number of tokens, and cannot be {value}")


def _put(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=30) as response:
        response.read()
