"""Callers: who asks, for which tenant, and with whose key the provider is asked.

A caller's own credential is forwarded, never kept: what tells two callers apart is its hash. Where the gateway has keys
of its own, callers show tokens of the gateway's instead, of which it knows the hashes alone.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from protocol.errors import Rejected

from .apis import Host
from .headers import CREDENTIALS, Header, value_of

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who asks: `partition` parts what callers of one tenant must not share."""

    tenant: str
    partition: str
    shared: bool = False
    """The provider is asked with a key that other tenants are served with too."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A caller's token, as the gateway knows it."""

    sha256: bytes
    tenant: str
    until: float
    """By the clock of the world, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Callers:
    """Who may ask. Without *own* keys everybody may, with a credential of his own."""

    tenant: str
    own: Mapping[Host, str]
    admitted: tuple[Admitted, ...] = ()

    def caller(self, headers: tuple[Header, ...], host: Host) -> Caller | None:
        """Return who asks *host*; None for who may not."""
        shown = credential(headers)
        sha256 = hashlib.sha256(shown.encode("utf-8", "surrogatepass")).digest()
        if not self.own.get(host) or not self.admitted:
            return Caller(tenant=self.tenant, partition=sha256.hex()[:32])
        # all are compared: how long it takes tells nothing of which one fits
        found = [one for one in self.admitted if hmac.compare_digest(one.sha256, sha256)]
        if not shown or not found or found[0].until <= time.time():
            return None
        return Caller(tenant=found[0].tenant, partition=found[0].tenant, shared=True)

    def headers_for(self, headers: list[Header], host: Host) -> list[Header]:
        """Return *headers* as the provider gets them: with the gateway's key where there is one, and no other's."""
        key = self.own.get(host)
        if not key:
            return headers
        left = [(name, value) for name, value in headers if name.lower() not in CREDENTIALS]
        if host == "anthropic":
            return [*left, (b"x-api-key", key.encode())]
        return [*left, (b"authorization", b"Bearer " + key.encode())]


def credential(headers: tuple[Header, ...]) -> str:
    """Return what a caller shows of himself, whichever header holds it."""
    shown = value_of(headers, "authorization")
    scheme, _, given = shown.partition(" ")
    bearer = given.strip() if scheme.lower() == "bearer" else shown
    return value_of(headers, "x-api-key") or bearer or value_of(headers, "api-key")


def admitted_in(text: str) -> tuple[Admitted, ...]:
    """Return the callers in *text*: a line each of tenant, SHA-256 of the token in hex, and until when (ISO 8601).

    Raises `Rejected` with the line's number; what is on it is nobody's to read.
    """
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            tenant, sha256, *until = words
            ends = datetime.fromisoformat(until[0]).timestamp() if until else float("inf")
            found.append(Admitted(sha256=bytes.fromhex(sha256), tenant=tenant, until=ends))
            valid = len(until) <= 1 and len(found[-1].sha256) == hashlib.sha256().digest_size
        except ValueError:
            valid = False
        if not valid:
            raise Rejected(f"gateway.callers, line {number}: a tenant, a SHA-256 in hex, and until when (or never)")
    return tuple(found)


def check_open(callers: Callers, listen: str) -> None:
    """Raise `Rejected` where strangers could spend the gateway's own keys."""
    if any(callers.own.values()) and not callers.admitted and listen not in LOOPBACK:
        raise Rejected(
            "gateway.listen is an address that others reach, and the gateway has keys of its own: "
            "set JETTISON_GATEWAY__CALLERS_FILE to the callers' tokens, or listen on 127.0.0.1",
            key="gateway.callers",
        )
