"""Anchors: RFC 6962 trees, numbered seals that are never overwritten, and what they refuse to vouch for."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.audit import anchors, merkle
from actors.audit.anchoring import Anchored, Anchoring, book_of
from actors.audit.anchors import AnchorMark, Book, Flaw, proven
from actors.audit.erasing import tombstone
from actors.audit.heads import Head, start
from actors.host.bootstrap import Runtime
from protocol import codec
from protocol.errors import Damaged, LogUnavailable, NotFound
from protocol.ids import Address, Token, address, fresh_id, token
from storage.encrypted import EncryptedLog
from storage.memory import MemoryAnchors, MemoryKeys, MemoryLog
from storage.ports import Anchors, Record
from storage.s3 import S3Anchors
from tests.audit.faults import AT, recorded
from tests.laws import LAWS

# Leaves and roots of the test tree that RFC 6962's reference implementation (certificate-transparency) publishes.
ENTRIES = [bytes.fromhex(text) for text in (
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
)]  # fmt: skip
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    3: "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    5: "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}


def by_the_rfc(leaves: Sequence[bytes]) -> bytes:
    """Return the root as section 2.1 writes it: split at the largest power of two below the size."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\1" + by_the_rfc(leaves[:split]) + by_the_rfc(leaves[split:])).digest()


def head_of(name: str, seq: int) -> Head:
    at = Address(Token("t"), Token(name))
    return msgspec.structs.replace(start(at), seq=seq, version=seq)


def grown(rounds: int, *, each: int = 3) -> dict[int, bytes]:
    """Return the bytes of *rounds* anchors of tenant t, in each of which other heads move."""
    book, out = Book(tenant=Token("t")), {}
    for number in range(1, rounds + 1):
        moving = [head_of(f"c{(number + one) % 7}", number) for one in range(each)]
        anchor = anchors.follow(book, moving, time="2026-01-01T00:00:00Z")
        out[number] = anchors.encode(anchor)
        book = anchors.extended(book, anchor)
    return out


@pytest.mark.parametrize("size", ROOTS)
def test_roots_are_those_of_the_reference(size: int) -> None:
    assert merkle.root([merkle.leaf(entry) for entry in ENTRIES[:size]]).hex() == ROOTS[size]


@LAWS
@given(st.lists(st.binary(max_size=4), max_size=40))
def test_every_root_is_the_one_of_the_rfc_and_every_path_leads_to_it(entries: list[bytes]) -> None:
    leaves = [merkle.leaf(entry) for entry in entries]
    root = merkle.root(leaves)
    assert root == by_the_rfc(leaves)
    for index, one in enumerate(leaves):
        along = merkle.path(leaves, index)
        assert merkle.climbed(one, index=index, size=len(leaves), along=along) == root
        assert merkle.climbed(one, index=index, size=len(leaves), along=(*along, root)) is None
        assert merkle.climbed(merkle.leaf(b"other"), index=index, size=len(leaves), along=along) != root
        if along:
            assert merkle.climbed(one, index=index, size=len(leaves), along=along[:-1]) is None
    assert merkle.climbed(root, index=len(leaves), size=len(leaves), along=()) is None


def test_a_node_is_never_a_leaf() -> None:
    left, right = merkle.leaf(b"a"), merkle.leaf(b"b")
    assert merkle.root([left, right]) != merkle.leaf(left + right)


def test_anchors_read_back_are_what_was_anchored() -> None:
    book = anchors.read(Token("t"), grown(150))
    assert (book.flaws, book.newest, len(book.anchors)) == ((), 150, 150)
    assert [anchor.seal.number for anchor in book.anchors if anchor.full] == [1, 65, 129]
    assert [mark.head.seq for mark in book.marks("c3")] == sorted({mark.head.seq for mark in book.marks("c3")})
    at = Address(Token("t"), Token("c3"))
    assert [proven(at, proof) for proof in book.proofs("c3")] == list(book.marks("c3"))


def test_only_the_newest_two_full_anchors_back_have_to_be_read() -> None:
    numbers = list(range(1, 151))
    assert anchors.numbers_needed(numbers) == list(range(65, 151))
    assert anchors.numbers_needed(numbers[:64]) == numbers[:64]
    assert anchors.numbers_needed([]) == []
    late = {number: body for number, body in grown(150).items() if number >= 65}
    whole = anchors.read(Token("t"), grown(150))
    assert anchors.read(Token("t"), late).heads == whole.heads


def test_a_proof_proves_its_own_conversation_and_head_alone() -> None:
    book = anchors.read(AT.tenant, recorded().anchors)
    proof = book.proofs(AT.conversation)[-1]
    assert proven(AT, proof) == AnchorMark(anchor=proof.seal.number, head=book.heads[AT.conversation])
    other = msgspec.structs.replace(proof, head=msgspec.structs.replace(proof.head, version=1))
    assert isinstance(proven(AT, other), Flaw)
    assert isinstance(proven(address("aaa", "tests"), proof), Flaw)
    forged = msgspec.structs.replace(proof, seal=msgspec.structs.replace(proof.seal, size=proof.seal.size + 1))
    assert isinstance(proven(AT, forged), Flaw)
    assert anchors.decode_proof(anchors.encode(proof)) == proof
    with pytest.raises(Damaged):
        anchors.decode_proof(anchors.encode(proof) + b"\0")


def test_after_a_damaged_anchor_the_next_is_full_and_forgets_nobody() -> None:
    stored = grown(5)
    stored[5] = stored[5][:-1]
    book = anchors.read(Token("t"), stored)
    assert book.flaws == (Flaw(anchor=5, reason="is not readable"),)
    after = anchors.follow(book, [head_of("new", 9)], time="later")
    assert (after.full, after.seal.number) == (True, 6)
    assert {head.conversation for head in after.heads} == {*book.heads, "new"}
    stored[6] = anchors.encode(after)
    assert anchors.read(Token("t"), stored).flaws == book.flaws


# The shell ----------------------------------------------------------------------------------


@pytest.fixture(params=["memory", "s3"])
def store(request: pytest.FixtureRequest, running: Runtime) -> Anchors:
    return MemoryAnchors() if request.param == "memory" else S3Anchors(running.bucket)


@pytest.fixture
def tenant() -> Token:
    return token(f"anchored-{fresh_id()[:8]}")


async def test_an_anchor_is_never_overwritten(store: Anchors, tenant: Token) -> None:
    assert await store.numbers(tenant) == []
    assert await store.put(tenant, 1, b"first")
    assert not await store.put(tenant, 1, b"second")
    assert await store.put(tenant, 12, b"twelfth")
    assert await store.get(tenant, 1) == b"first"
    assert await store.numbers(tenant) == [1, 12]
    assert tenant in await store.tenants()
    assert await store.numbers(token(f"{tenant}x")) == []
    with pytest.raises(NotFound):
        await store.get(tenant, 2)


async def test_the_oldest_anchor_is_that_of_the_tenant_who_waits_longest(store: Anchors, tenant: Token) -> None:
    await store.put(tenant, 1, b"first")
    first = await store.oldest()
    await store.put(token(f"{tenant}x"), 1, b"of another one, and younger")
    assert first is not None
    assert await store.oldest() == first


async def test_of_many_writers_of_a_number_one_wins(store: Anchors, tenant: Token) -> None:
    won = await asyncio.gather(*(store.put(tenant, 1, b"%d" % writer) for writer in range(8)))
    assert won.count(True) == 1
    assert await store.get(tenant, 1) == b"%d" % won.index(True)


async def test_more_than_one_page_of_anchors_is_listed(running: Runtime, tenant: Token) -> None:
    store = S3Anchors(running.bucket)
    for first in range(1, 1101, 20):  # each has its time, and all at once would take that of the last one
        await asyncio.gather(*(store.put(tenant, number, b"x") for number in range(first, first + 20)))
    assert await store.numbers(tenant) == list(range(1, 1101))


async def said(log: MemoryLog, at: Address, text: bytes) -> None:
    await log.say(at, text, message_id=fresh_id(), headers={})


async def test_a_round_anchors_what_moved_and_nothing_twice(store: Anchors, tenant: Token) -> None:
    log = MemoryLog()
    one, two = Address(tenant, token("one")), Address(tenant, token("two"))
    await said(log, one, b"1")
    await said(log, two, b"2")
    anchoring = Anchoring(log=log, anchors=store)
    (first,) = await anchoring.all_tenants()
    assert (first.number, first.conversations, first.moved, first.refused) == (1, 2, 2, {})
    assert await anchoring.all_tenants() == [msgspec.structs.replace(first, moved=0)]
    await said(log, two, b"3")
    # another process goes on from what is stored
    (second,) = await Anchoring(log=log, anchors=store).all_tenants()
    assert (second.number, second.conversations, second.moved) == (2, 2, 1)
    book = await book_of(tenant, store)
    assert [mark.head.seq for mark in book.marks("two")] == [2, 3]
    # and the first one notices that it was overtaken
    await said(log, one, b"4")
    (third,) = await anchoring.all_tenants()
    assert (third.number, third.moved) == (3, 1)
    assert (await book_of(tenant, store)).flaws == ()


class TornLog(MemoryLog):
    """A log from whose end somebody took records."""

    def tear(self, at: Address, keep: int) -> None:
        del self._records[at][keep:]
        if not keep:
            del self._records[at]

    def forge(self, at: Address, record: Record) -> None:
        self._records[at].append(record)


async def test_what_went_back_is_refused_and_its_head_is_kept(tenant: Token) -> None:
    log, store = TornLog(), MemoryAnchors()
    torn, gone, fine = (Address(tenant, token(name)) for name in ("torn", "gone", "fine"))
    for at in (torn, torn, gone, fine):
        await said(log, at, b"x")
    anchoring = Anchoring(log=log, anchors=store)
    await anchoring.all_tenants()
    before = await book_of(tenant, store)
    log.tear(torn, 1)
    log.tear(gone, 0)
    await said(log, fine, b"more")
    (done,) = await anchoring.all_tenants()
    assert (done.moved, list(done.refused)) == (1, ["torn"])
    after = await book_of(tenant, store)
    assert (after.heads["torn"], after.heads["gone"]) == (before.heads["torn"], before.heads["gone"])
    assert after.heads["fine"] != before.heads["fine"]


async def test_a_commit_that_does_not_follow_is_never_anchored(tenant: Token) -> None:
    log, store = TornLog(), MemoryAnchors()
    at = Address(tenant, token("chain"))
    await said(log, at, b"x")
    await Anchoring(log=log, anchors=store).all_tenants()
    foreign = next(record for record in recorded().records if record.side == "done")
    log.forge(at, Record(seq=99, side="done", body=foreign.body))
    (done,) = await Anchoring(log=log, anchors=store).all_tenants()
    assert (done.moved, done.number) == (0, 1)
    assert list(done.refused) == ["chain"]
    assert codec.decode_commit(foreign.body).version == 1


async def test_without_any_conversation_there_is_no_anchor() -> None:
    assert await Anchoring(log=MemoryLog(), anchors=MemoryAnchors()).all_tenants() == []


async def test_a_tenant_whose_log_is_refused_from_the_start_has_no_anchor(tenant: Token) -> None:
    log = TornLog()
    at = Address(tenant, token("odd"))
    await said(log, at, b"x")
    log.forge(at, Record(seq=1, side="done", body=b"no commit"))
    (done,) = await Anchoring(log=log, anchors=MemoryAnchors()).all_tenants()
    assert done == Anchored(
        tenant=tenant, number=0, root="", conversations=0, moved=0, refused={"odd": done.refused["odd"]}
    )


class Down(MemoryLog):
    """A log that is lost while it is read."""

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        raise LogUnavailable("the connection is lost")


async def test_a_log_that_goes_down_amid_a_round_is_bad_luck_that_who_anchors_waits_out() -> None:
    log = Down()
    for name in ("one", "two"):
        await log.say(address(name), b"x", message_id=name, headers={})
    with pytest.raises(LogUnavailable):
        await Anchoring(log=log, anchors=MemoryAnchors()).all_tenants()


async def test_a_conversation_whose_key_is_not_here_keeps_no_other_from_being_anchored() -> None:
    store, keys = MemoryLog(), MemoryKeys()
    await EncryptedLog(store, keys=keys).say(address("ours"), b"x", message_id="one", headers={})
    await EncryptedLog(store, keys=MemoryKeys()).say(address("theirs"), b"x", message_id="two", headers={})
    (done,) = await Anchoring(log=EncryptedLog(store, keys=keys), anchors=MemoryAnchors()).all_tenants()
    assert (done.conversations, done.moved, list(done.refused)) == (1, 1, ["theirs"])
    assert "restore the stream of keys" in done.refused["theirs"]


async def test_a_conversation_that_is_erased_once_more_is_anchored_again() -> None:
    log, store = MemoryLog(), MemoryAnchors()
    anchoring = Anchoring(log=log, anchors=store)
    stone = tombstone(AT, recorded().records, by="test", at_ms=7)
    await log.append(AT, codec.encode_commit(stone), expected_seq=0, commit_id="stone", headers={})
    await log.say(AT, b"said by who does not know", message_id="late", headers={})
    (first,) = await anchoring.all_tenants()
    del log._records[AT][1]
    (second,) = await anchoring.all_tenants()
    assert (first.moved, second.moved, second.refused) == (1, 1, {})
    # another tombstone is another history
    other = tombstone(AT, recorded().records[:9], by="test", at_ms=8)
    log._records[AT] = [Record(seq=5, side="done", body=codec.encode_commit(other))]
    (third,) = await anchoring.all_tenants()
    assert list(third.refused) == [AT.conversation]
