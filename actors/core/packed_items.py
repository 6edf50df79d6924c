"""Packed items: the items of a digest or a ledger, and accounts, as the bytes that a snapshot has of them.

A state holds thousands of items for as long as it is warm, and only a compaction reads them. As objects they take
six times as much and were more than half of a state; to read them takes a hundredth of a compaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

import msgspec

from protocol.account import Account
from protocol.facts import DigestItem

from .text.recent import Recent

Value = TypeVar("Value")

NO_ITEMS = b"\x90"
"""An empty list in MessagePack."""

READ_KEPT = 3
"""And as many before: a compaction reads ledger, digest before and digest after several times, and then none again."""


class _Packed(Generic[Value]):
    """How values of one type are packed; of the newest ones it is remembered what they are."""

    def __init__(self, kind: type[Value]) -> None:
        self._decoder = msgspec.msgpack.Decoder(kind)
        self._read: Recent[bytes, Value] = Recent(READ_KEPT)

    def write(self, value: Value) -> bytes:
        raw = msgspec.msgpack.encode(value)
        self._read.put(raw, value)
        return raw

    def read(self, raw: bytes) -> Value:
        return self._read.found(raw, self._decoder.decode)


_items = _Packed(tuple[DigestItem, ...])
_accounts = _Packed(Account)


def write_items(items: Iterable[DigestItem]) -> bytes:
    """Return *items* as bytes; equal ones as equal bytes. Who reads them next need not decode them."""
    return _items.write(tuple(items))


def read_items(raw: bytes) -> tuple[DigestItem, ...]:
    """Return the items in *raw*."""
    return _items.read(raw)


def write_account(account: Account) -> bytes:
    """Return *account* as bytes; equal ones as equal bytes. Who reads it next need not decode it."""
    return _accounts.write(account)


def read_account(raw: bytes) -> Account:
    """Return the account in *raw*."""
    return _accounts.read(raw)
