"""Anchors: now and then, one hash over the heads of all conversations of a tenant, kept outside NATS.

A chain of hashes cannot tell that its end is gone, or that somebody wrote all of it anew: an anchor can. Anchors are
numbered from 1, never overwritten, and each names the hash of the one before. Every 64th holds all heads, the others
those that moved. A head whose log went back is never replaced: its loss stays provable.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from protocol.errors import UNREADABLE, Damaged
from protocol.ids import Address, Token

from . import merkle
from .heads import Head, start

FULL_EVERY = 64
"""Reading back takes at most so many objects; 10,000 conversations at rest cost 2 MB in 64 anchors."""


class Seal(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What an anchor vouches for: `root` covers all `size` heads of the tenant, sorted by conversation."""

    tenant: str
    number: int
    time: str
    prev: bytes
    size: int
    root: bytes
    hash: bytes = b""


class Anchor(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="anchor.1", tag_field="anchor"):
    """One anchor as it is stored: the heads that moved since the one before, or all of them."""

    seal: Seal
    full: bool
    heads: tuple[Head, ...]


class Proof(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag="proof.1", tag_field="proof"):
    """One head, and that it is covered by a sealed root."""

    seal: Seal
    head: Head
    index: int
    path: tuple[bytes, ...]


class AnchorMark(msgspec.Struct, frozen=True, kw_only=True):
    """A head that an anchor vouches for."""

    anchor: int
    head: Head


class Flaw(msgspec.Struct, frozen=True, kw_only=True):
    """An anchor that is not as it was written, or not there."""

    anchor: int
    reason: str


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """The anchors of a tenant that are as they were written, at least the newest full one and those behind it."""

    tenant: Token
    anchors: tuple[Anchor, ...] = ()
    heads: Mapping[str, Head] = {}
    """By conversation, as of the newest."""
    flaws: tuple[Flaw, ...] = ()
    newest: int = 0
    """Number of the newest one that is there, sound or not."""

    def marks(self, conversation: str) -> tuple[AnchorMark, ...]:
        """Return every head of *conversation* in these anchors, in order."""
        return tuple(
            AnchorMark(anchor=anchor.seal.number, head=head)
            for anchor in self.anchors
            for head in anchor.heads
            if head.conversation == conversation
        )

    def proofs(self, conversation: str) -> tuple[Proof, ...]:
        """Return a proof for each of `marks`."""
        found: list[Proof] = []
        heads: dict[str, Head] = {}
        for anchor in self.anchors:
            heads = {**({} if anchor.full else heads), **{head.conversation: head for head in anchor.heads}}
            if conversation not in {head.conversation for head in anchor.heads}:
                continue
            names = sorted(heads)
            index = names.index(conversation)
            path = merkle.path([_leaf(anchor.seal.tenant, heads[name]) for name in names], index)
            found.append(Proof(seal=anchor.seal, head=heads[conversation], index=index, path=path))
        return tuple(found)


def encode(value: Anchor | Proof) -> bytes:
    """Return the bytes of an anchor or a proof."""
    return msgspec.msgpack.encode(value)


def decode_proof(body: bytes) -> Proof:
    """Return the proof in *body*. Raises `Damaged`."""
    try:
        proof = msgspec.msgpack.decode(body, type=Proof)
    except UNREADABLE as error:
        raise Damaged(f"not a readable proof: {error}"[:200]) from None
    if encode(proof) != body:
        raise Damaged("a proof is not written as we write it")
    return proof


def follow(book: Book, moved: Iterable[Head], *, time: str) -> Anchor:
    """Return the anchor that comes after *book*, with the heads that *moved*."""
    heads = {**book.heads, **{head.conversation: head for head in moved}}
    number = book.newest + 1
    full = number % FULL_EVERY == 1 or not book.anchors or book.anchors[-1].seal.number != book.newest
    changed = heads if full else {name: head for name, head in heads.items() if book.heads.get(name) != head}
    seal = Seal(
        tenant=book.tenant,
        number=number,
        time=time,
        prev=book.anchors[-1].seal.hash if book.anchors else b"",
        size=len(heads),
        root=_root(book.tenant, heads),
    )
    seal = msgspec.structs.replace(seal, hash=_hash_of(seal))
    return Anchor(seal=seal, full=full, heads=tuple(changed[name] for name in sorted(changed)))


def extended(book: Book, anchor: Anchor) -> Book:
    """Return *book* with its newest *anchor*."""
    kept = () if anchor.full else book.anchors
    heads = {**({} if anchor.full else book.heads), **{head.conversation: head for head in anchor.heads}}
    return msgspec.structs.replace(book, anchors=(*kept, anchor), heads=heads, newest=anchor.seal.number)


def read(tenant: Token, bodies: Mapping[int, bytes]) -> Book:
    """Return the anchors in *bodies*, by number, with all that is wrong with them.

    What stands behind a flaw counts again from the next full one on.
    """
    book = Book(tenant=tenant)
    flaws: list[Flaw] = []
    good: list[Anchor] = []
    for number in sorted(bodies):
        flaws += [Flaw(anchor=gap, reason="is not there") for gap in range(book.newest + 1, number) if book.newest]
        anchor = _decoded(bodies[number])
        reason = "is not readable" if anchor is None else _flaw(book, anchor, number)
        if anchor is None or reason:
            flaws.append(Flaw(anchor=number, reason=reason))
            book = Book(tenant=tenant, newest=number, heads=book.heads)
            continue
        good.append(anchor)
        book = extended(book, anchor)
    return msgspec.structs.replace(book, anchors=tuple(good), flaws=tuple(flaws))


def proven(at: Address, proof: Proof) -> AnchorMark | Flaw:
    """Return the head that *proof* vouches for, or what is wrong with it."""
    number = proof.seal.number
    reached = merkle.climbed(_leaf(at.tenant, proof.head), index=proof.index, size=proof.seal.size, along=proof.path)
    if proof.seal.tenant != at.tenant or proof.head.conversation != at.conversation:
        return Flaw(anchor=number, reason="is about another conversation")
    if _hash_of(proof.seal) != proof.seal.hash:
        return Flaw(anchor=number, reason="does not match its hash")
    if reached != proof.seal.root:
        return Flaw(anchor=number, reason="does not cover this head: the path does not lead to the root")
    return AnchorMark(anchor=number, head=proof.head)


def known(book: Book, at: Address) -> Head:
    """Return the newest anchored head of *at*, or the start."""
    return book.heads.get(at.conversation) or start(at)


def _decoded(body: bytes) -> Anchor | None:
    try:
        anchor = msgspec.msgpack.decode(body, type=Anchor)
    except UNREADABLE:
        return None
    return anchor if encode(anchor) == body else None


def _flaw(book: Book, anchor: Anchor, number: int) -> str:
    """Return the fault of *anchor* behind *book*; empty if it has none."""
    seal = anchor.seal
    if (seal.tenant, seal.number) != (book.tenant, number):
        return f"says it is number {seal.number} of {seal.tenant:.64}"
    if _hash_of(seal) != seal.hash:
        return "does not match its hash"
    if book.anchors and seal.prev != book.anchors[-1].seal.hash:
        return "does not follow from the one before it"
    if not anchor.full and not book.anchors:
        return "rests on anchors that are damaged or gone"
    heads = extended(book, anchor).heads
    if len(heads) != seal.size or _root(seal.tenant, heads) != seal.root:
        return "holds other heads than its root"
    return ""


def _root(tenant: str, heads: Mapping[str, Head]) -> bytes:
    return merkle.root([_leaf(tenant, heads[name]) for name in sorted(heads)])


def _leaf(tenant: str, head: Head) -> bytes:
    return merkle.leaf(msgspec.msgpack.encode((tenant, head)))


def _hash_of(seal: Seal) -> bytes:
    return hashlib.sha256(msgspec.msgpack.encode(msgspec.structs.replace(seal, hash=b""))).digest()


def numbers_needed(numbers: Sequence[int]) -> Sequence[int]:
    """Return the newest of the stored *numbers*, back over two full anchors."""
    # full ones are also written after a loss; the regular ones alone bound the reading
    if not numbers:
        return numbers
    newest = numbers[-1]
    first = max(1, newest - (newest - 1) % FULL_EVERY - FULL_EVERY)
    return [number for number in numbers if number >= first]
