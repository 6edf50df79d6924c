"""Raw items: those of a digest or a ledger as the bytes that a snapshot has of them.

A state holds thousands of items for as long as it is warm, and only a compaction reads them. As objects they take
six times as much and were more than half of a state; to read them takes a hundredth of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from protocol.account import Account
from protocol.facts import DigestItem

from .text.recent import Recent

NO_ITEMS = b"\x90"
"""An empty list in MessagePack."""

READ_KEPT = 3
"""And as many before: a compaction reads ledger, digest before and digest after several times, and then none again."""

_ITEMS = msgspec.msgpack.Decoder(tuple[DigestItem, ...])


_read: Recent[bytes, tuple[DigestItem, ...]] = Recent(READ_KEPT)


def write_items(items: Iterable[DigestItem]) -> bytes:
    """Return *items* as bytes; equal ones as equal bytes. Who reads them next need not decode them."""
    items = tuple(items)
    raw = msgspec.msgpack.encode(items)
    _read.put(raw, items)
    return raw


def read_items(raw: bytes) -> tuple[DigestItem, ...]:
    """Return the items in *raw*."""
    items = _read.get(raw)
    if items is None:
        items = _ITEMS.decode(raw)
        _read.put(raw, items)
    return items


_ACCOUNT = msgspec.msgpack.Decoder(Account)


_accounts: Recent[bytes, Account] = Recent(READ_KEPT)


def write_account(account: Account) -> bytes:
    """Return *account* as bytes; equal ones as equal bytes. Who reads it next need not decode it."""
    raw = msgspec.msgpack.encode(account)
    _accounts.put(raw, account)
    return raw


def read_account(raw: bytes) -> Account:
    """Return the account in *raw*."""
    account = _accounts.get(raw)
    if account is None:
        account = _ACCOUNT.decode(raw)
        _accounts.put(raw, account)
    return account
