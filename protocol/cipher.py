"""Cipher: AES-256-GCM, so that what is kept is read with the key of its conversation alone.

The package `cryptography` is imported when something is encrypted, and not before: who needs no key waits for none.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Literal

from .codec import ENCRYPTED
from .errors import Rejected
from .ids import Address

KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16

Side = Literal["said", "done"]


@dataclass(frozen=True)
class Key:
    """32 secret bytes, made ready once: that costs more than to encrypt a message."""

    secret: bytes = field(repr=False)
    _aes: Any = field(init=False, repr=False, compare=False)
    _invalid: type[Exception] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 30 ms, and only who encrypts pays
        except ImportError:
            raise Rejected("encryption needs the package cryptography: pip install cryptography") from None
        object.__setattr__(self, "_aes", AESGCM(self.secret))
        object.__setattr__(self, "_invalid", InvalidTag)

    def encrypt(self, body: bytes, context: str) -> bytes:
        """Return *body* under a random nonce; it is opened with the same key and *context* only."""
        nonce = os.urandom(NONCE_BYTES)
        return nonce + bytes(self._aes.encrypt(nonce, body, context.encode()))

    def decrypt(self, closed: bytes, context: str) -> bytes | None:
        """Return the decrypted bytes; None for another key, another context, and changed bytes."""
        if len(closed) < NONCE_BYTES + TAG_BYTES:
            return None
        try:
            return bytes(self._aes.decrypt(closed[:NONCE_BYTES], closed[NONCE_BYTES:], context.encode()))
        except self._invalid:
            return None


def record(body: bytes, *, key: Key, at: Address, side: Side) -> bytes:
    """Return *body* as it is kept in the log of *at*; moved to another conversation or side, it does not open."""
    return ENCRYPTED + key.encrypt(body, f"{side} {at}")


def opened(kept: bytes, *, key: Key, at: Address, side: Side) -> bytes:
    """Return the body of an encrypted record. One that does not open comes back as it is: it is no envelope."""
    body = key.decrypt(kept[len(ENCRYPTED) :], f"{side} {at}")
    return kept if body is None else body
