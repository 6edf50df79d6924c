"""Merkle trees as in RFC 6962 (2.1): one hash for a list, and a short proof for each entry of it.

Leaves and nodes are hashed with different first bytes, so that no node can be shown as a leaf. Own code: of the
kept libraries one is under the GPL and the others bring a database along, and this is forty lines.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

EMPTY = hashlib.sha256(b"").digest()


def leaf(entry: bytes) -> bytes:
    """Return the hash of one entry."""
    return hashlib.sha256(b"\0" + entry).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the hash of the whole list of leaf hashes."""
    level = list(leaves)
    if not level:
        return EMPTY
    # the same tree as the RFC's split at the largest power of two: an odd one out goes up as it is
    while len(level) > 1:
        level = _above(level)
    return level[0]


def path(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """Return the hashes that lead from the leaf at *index* to the root."""
    assert 0 <= index < len(leaves)
    level, out = list(leaves), []
    while len(level) > 1:
        beside = index ^ 1
        if beside < len(level):
            out.append(level[beside])
        level, index = _above(level), index // 2
    return tuple(out)


def climbed(start: bytes, *, index: int, size: int, along: Sequence[bytes]) -> bytes | None:
    """Return the root that *along* leads to from the leaf hash *start*; None where the path has another length."""
    if not 0 <= index < size:
        return None
    reached, left = start, list(along)
    while size > 1:
        if index ^ 1 < size:
            if not left:
                return None
            beside = left.pop(0)
            reached = _node(beside, reached) if index % 2 else _node(reached, beside)
        index, size = index // 2, (size + 1) // 2
    return None if left else reached


def _above(level: Sequence[bytes]) -> list[bytes]:
    paired = [_node(level[at], level[at + 1]) for at in range(0, len(level) - 1, 2)]
    return [*paired, *level[len(paired) * 2 :]]


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
