"""Admitted: whose tokens are let in, for which tenant, which of its conversations, and until when.

One list serves the gateway and `jettison mcp`. It has the tokens' hashes alone.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from protocol.errors import Rejected

LOOPBACK = ("127.0.0.1", "::1", "localhost")
NEVER = "never"

_CONVERSATION = re.compile(r"[A-Za-z0-9_-]{1,64}\*?|\*")


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A caller's token, as it is known here."""

    sha256: bytes
    tenant: str
    until: float
    """By the clock of the world, in seconds."""
    conversations: tuple[str, ...] = ()
    """Their safe names, or how they begin, with a `*`; none: all of the tenant."""


def shown_by(token: str, admitted: Iterable[Admitted]) -> Admitted | None:
    """Return whose *token* it is; None for nobody's, and for one that has run out."""
    sha256 = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
    # all are compared: how long it takes tells nothing of which one fits
    found = [one for one in admitted if hmac.compare_digest(one.sha256, sha256)]
    return found[0] if token and found and found[0].until > time.time() else None


def admitted_in(text: str, *, key: str = "gateway.callers") -> tuple[Admitted, ...]:
    """Return the callers in *text*: a line each of tenant, SHA-256 of the token in hex, until when, conversations.

    Until when is ISO 8601, or `never`; it and the conversations may be left out. Raises `Rejected` with the line's
    number; what is on it is nobody's to read.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            found.append(_admitted(*words))
        except (TypeError, ValueError):
            raise Rejected(
                f"{key}, line {number}: a tenant, a SHA-256 in hex, until when (or never), and conversations"
            ) from None
    return tuple(found)


def _admitted(tenant: str, sha256: str, until: str = NEVER, *conversations: str) -> Admitted:
    hashed = bytes.fromhex(sha256)
    if len(hashed) != hashlib.sha256().digest_size or not all(map(_CONVERSATION.fullmatch, conversations)):
        raise ValueError
    ends = float("inf") if until == NEVER else datetime.fromisoformat(until).timestamp()
    return Admitted(sha256=hashed, tenant=tenant, until=ends, conversations=conversations)
