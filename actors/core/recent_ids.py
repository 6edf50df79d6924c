"""Recent ids: the ids of the newest calls, in one run of bytes; as texts of their own they take four times as much."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

NO_IDS = b"\n"
"""Each id is JSON, in which no line end stands, between two line ends."""


def among(ids: bytes, ident: str) -> bool:
    """Tell whether *ident* is one of *ids*."""
    return b"\n%b\n" % msgspec.json.encode(ident) in ids


def with_newer(ids: bytes, newer: Iterable[str], *, most: int) -> bytes:
    """Return the newest *most* of *ids* and *newer*."""
    out = ids + b"".join([b"%b\n" % msgspec.json.encode(ident) for ident in newer])
    start = 0
    for _ in range(out.count(b"\n") - 1 - most):
        start = out.index(b"\n", start + 1)
    return out[start:]
