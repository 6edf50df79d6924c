"""Ids that can stand in a subject, a key or a file name without ever changing its meaning."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import NewType

import msgspec

from .errors import BadId
from .limits import ID_CHARS_MAX

Token = NewType("Token", str)
"""An id in its safe form: `[A-Za-z0-9_-]{1,64}`."""

PLAIN_LETTERS = re.compile(r"[A-Za-z0-9_-]+")
"""What ids are made of, ours, those of providers' calls and names of users alike: no place reads anything into it."""

_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENCODED_PREFIX, _HASHED_PREFIX = "e--", "h--"
_ENCODED_BYTES_MAX = (ID_CHARS_MAX - len(_ENCODED_PREFIX)) * 3 // 4


def token(name: str, argument: str = "an id") -> Token:
    """Return the safe form of *name*: itself where it is safe, else encoded, else hashed.

    Different names never share a token: names that look encoded are encoded again. Surrogates, dots,
    spaces, wildcards and names of any length are fine; an empty one raises `BadId`, which names its *argument*.
    """
    if not isinstance(name, str) or not name:
        told = f"{argument} must be a non-empty text such as 'ticket-4312', not {name!r:.40}"
        raise BadId(told, id=repr(name)[:80])
    if _PLAIN.match(name) and not name.startswith((_ENCODED_PREFIX, _HASHED_PREFIX)):
        return Token(name)
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) <= _ENCODED_BYTES_MAX:
        return Token(_ENCODED_PREFIX + _base64url(raw))
    return Token(_HASHED_PREFIX + _base64url(hashlib.sha256(raw).digest()))


def is_token(text: str) -> bool:
    """Tell whether *text* is in the safe form of an id, as whoever encoded it made it."""
    return _PLAIN.match(text) is not None


def name_of(safe: Token) -> str:
    """Return the name that *safe* stands for; of one that was hashed, or is no safe form, *safe* itself."""
    try:
        raw = base64.urlsafe_b64decode(safe.removeprefix(_ENCODED_PREFIX) + "==")
        name = raw.decode("utf-8", "surrogatepass")
    except ValueError:
        return safe
    return name if name and token(name) == safe else safe


class Address(msgspec.Struct, frozen=True, order=True):
    """One conversation of one tenant, both as safe tokens; the aggregate of the log."""

    tenant: Token
    conversation: Token

    def __str__(self) -> str:
        return f"{self.tenant}/{self.conversation}"


def address(conversation: str, tenant: str = "default") -> Address:
    """Return the address of *conversation* of *tenant*, whatever characters their names have."""
    return Address(tenant=token(tenant, "tenant"), conversation=token(conversation, "conversation"))


def written_address(text: str) -> Address:
    """Return the address that a person typed as `conversation` or `tenant/conversation`.

    A part that is already a safe token (`e--…`, `h--…`) is taken as it is, so that what a program
    prints can be typed back.
    """
    tenant, slash, conversation = text.partition("/")
    if not slash:
        tenant, conversation = "default", text
    return Address(tenant=_typed(tenant), conversation=_typed(conversation))


def fresh_id() -> str:
    """Return 128 unguessable bits: a squatted message id would make another's message vanish."""
    return secrets.token_urlsafe(16)


def is_sha256(text: str) -> bool:
    """Tell whether *text* is a SHA-256 in hex, as artifacts are named."""
    return _SHA256.fullmatch(text) is not None


def _typed(name: str) -> Token:
    if isinstance(name, str) and _PLAIN.match(name):
        return Token(name)
    return token(name)


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
