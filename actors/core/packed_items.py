"""Raw items: those of a digest or a ledger as the bytes that a snapshot has of them.

A state holds thousands of items for as long as it is warm, and only a compaction reads them. As objects they take
six times as much and were more than half of a state; to read them takes a hundredth of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from protocol.account import Account
from protocol.facts import DigestItem

NO_ITEMS = b"\x90"
"""An empty list in MessagePack."""

READ_KEPT = 4
"""A compaction reads the ledger, the digest before and the one after several times each, and then none again."""

_ITEMS = msgspec.msgpack.Decoder(tuple[DigestItem, ...])


def write_items(items: Iterable[DigestItem]) -> bytes:
    """Return *items* as bytes; equal ones as equal bytes."""
    return msgspec.msgpack.encode(tuple(items))


@lru_cache(maxsize=READ_KEPT)
def read_items(raw: bytes) -> tuple[DigestItem, ...]:
    """Return the items in *raw*."""
    return _ITEMS.decode(raw)


_ACCOUNT = msgspec.msgpack.Decoder(Account)


def write_account(account: Account) -> bytes:
    """Return *account* as bytes; equal ones as equal bytes."""
    return msgspec.msgpack.encode(account)


@lru_cache(maxsize=READ_KEPT)
def read_account(raw: bytes) -> Account:
    """Return the account in *raw*."""
    return _ACCOUNT.decode(raw)
