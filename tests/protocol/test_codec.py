"""Envelopes: what is written can be read for ever, and what cannot be read says so."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import codec
from protocol.account import Trim
from protocol.codec import Commit, Said
from protocol.errors import BadEnvelope
from protocol.facts import (
    Claim,
    CompactionRequested,
    ContextServed,
    ConversationOpened,
    DigestItem,
    DoneFact,
    Fate,
    HistoryCut,
    HookFired,
    MessagesAppended,
    SaidFact,
    SaidMessage,
)
from protocol.ids import address
from tests.laws import LAWS

whole = st.integers(0, 2**63)
chars = st.text(st.characters(codec="utf-8"), max_size=20)


def facts_of(union: Any) -> st.SearchStrategy[Any]:
    return st.one_of([st.from_type(kind) for kind in union.__args__])


for kind, strategy in {int: whole, str: chars, bytes: st.binary(max_size=20)}.items():
    st.register_type_strategy(kind, strategy)

saids = st.builds(Said, writer=chars, count=whole, facts=st.lists(facts_of(SaidFact), max_size=3).map(tuple))
commits = st.builds(
    Commit,
    facts=st.lists(facts_of(DoneFact), max_size=3).map(tuple),
    rules_version=st.sampled_from(codec.RULES_VERSIONS),
)

COMMIT = codec.seal(
    Commit(
        version=7,
        commit_id="id",
        writer="w",
        upto=3,
        prev_hash=b"p" * 32,
        said_hash=b"s" * 32,
        policy_hash="ph",
        rules_version="1",
        tokenizer="t",
        facts=(ContextServed(upto=3, budget=9, profile="openai-chat", view_hash="v", tokens=5, level="none"),),
    )
)


@given(saids)
@LAWS
def test_what_is_said_comes_back_equal(said: Said) -> None:
    assert codec.decode_said(codec.encode_said(said)) == said


@given(commits)
@LAWS
def test_a_sealed_commit_comes_back_equal(commit: Commit) -> None:
    sealed = codec.seal(commit)
    assert codec.decode_commit(codec.encode_commit(sealed)) == sealed


@given(st.binary(max_size=200))
@LAWS
def test_garbage_is_refused_and_nothing_else_happens(body: bytes) -> None:
    for decode in (codec.decode_said, codec.decode_commit):
        with pytest.raises(BadEnvelope):
            decode(body)


@given(saids, st.data())
@LAWS
def test_a_truncated_envelope_is_refused(said: Said, data: st.DataObject) -> None:
    body = codec.encode_said(said)
    with pytest.raises(BadEnvelope):
        codec.decode_said(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.data())
@LAWS
def test_a_commit_with_any_byte_changed_is_refused(data: st.DataObject) -> None:
    body = bytearray(codec.encode_commit(COMMIT))
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(BadEnvelope):
        codec.decode_commit(bytes(body))


@pytest.mark.parametrize(
    "value",
    [
        ["said.2", "w", 1, []],
        ["commit.1", "w", 1, []],
        ["said.1", "w", 1, [["MessagesAppended.2", []]]],
        ["said.1", "w", 1, [["HistoryCut.1", 1, [], [], "units", False, 1, 1]]],
        ["said.1", "w", "1", []],
        ["said.1", "w", 1],
        ["said.1"],
        [],
        {"envelope": "said.1"},
        ["said.1", "w", 1, [[[[]]]]],
        ["said.1", "w", -1.5, []],
    ],
)
def test_a_newer_or_foreign_envelope_is_refused(value: Any) -> None:
    with pytest.raises(BadEnvelope):
        codec.decode_said(msgspec.msgpack.encode(value))


def test_nesting_without_end_is_refused() -> None:
    for decode in (codec.decode_said, codec.decode_commit):
        with pytest.raises(BadEnvelope):
            decode(b"\x91" * 100_000)
        with pytest.raises(BadEnvelope):
            decode(b"\x94\xa6said.1" + b"\x91" * 100_000)


def test_text_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(BadEnvelope):
        codec.decode_said(b"\x94\xa6said.1\xa1\xff\x01\x90")


@pytest.mark.parametrize(
    ("field", "value"),
    {
        "version": 8,
        "commit_id": "other",
        "writer": "other",
        "upto": 4,
        "prev_hash": b"q" * 32,
        "said_hash": b"t" * 32,
        "policy_hash": "other",
        "rules_version": "2",
        "tokenizer": "other",
        "facts": (),
        "policy": b"{}",
    }.items(),
)
def test_the_hash_covers_every_field(field: str, value: object) -> None:
    changed = msgspec.structs.replace(COMMIT, **{field: value})
    assert codec.seal(changed).hash != COMMIT.hash
    with pytest.raises(BadEnvelope) as refused:
        codec.decode_commit(codec.encode_commit(changed))
    assert refused.value.fields == {"version": changed.version}


def test_the_list_of_covered_fields_is_whole() -> None:
    covered = {"version", "commit_id", "writer", "upto", "prev_hash", "said_hash", "policy_hash", "rules_version"}
    assert set(Commit.__struct_fields__) - {"hash"} == covered | {"tokenizer", "facts", "policy"}


def test_an_unsealed_commit_is_our_bug() -> None:
    with pytest.raises(AssertionError):
        codec.encode_commit(msgspec.structs.replace(COMMIT, hash=b""))


def test_an_older_writer_may_leave_out_trailing_fields_with_defaults() -> None:
    older = [
        "said.1",
        "w",
        1,
        [["ConversationOpened.1", "name"], ["CompactionRequested.1"], ["MessagesAppended.1", [[b"{}"]]]],
    ]
    assert codec.decode_said(msgspec.msgpack.encode(older)) == Said(
        writer="w",
        count=1,
        facts=(
            ConversationOpened(name="name"),
            CompactionRequested(),
            MessagesAppended(messages=(SaidMessage(raw=b"{}"),)),
        ),
    )
    assert msgspec.convert(["path", "/a", 3], DigestItem) == DigestItem(category="path", value="/a", number=3)


def test_a_newer_writer_may_append_fields() -> None:
    newer = ["said.1", "w", 1, [["CompactionRequested.1", 9, "why", "new field"]], 5, "new field"]
    assert codec.decode_said(msgspec.msgpack.encode(newer)) == Said(
        writer="w", count=1, facts=(CompactionRequested(budget=9, reason="why"),), at_ms=5
    )


def test_a_commit_from_before_a_fact_got_another_field_still_has_its_hash() -> None:
    older = ["commit.1", 1, "id", "w", 5, b"p", b"s", "h", "1", "t", [["HookFired.1", 3, "hook", "log"]], b"", b""]
    bare = msgspec.msgpack.encode(older)
    body = msgspec.msgpack.encode([*older[:-1], hashlib.sha256(bare).digest()])
    assert codec.decode_commit(body).facts == (HookFired(number=3, hook="hook", action="log", detail=""),)
    wider = body.replace(b"\x03\xa4hook", b"\xcc\x03\xa4hook")  # the same number in another width
    assert msgspec.msgpack.decode(wider) == msgspec.msgpack.decode(body)
    with pytest.raises(BadEnvelope):
        codec.decode_commit(wider)


def test_the_bytes_of_facts_never_change() -> None:
    said = Said(
        writer="w",
        count=2,
        facts=(
            MessagesAppended(messages=(SaidMessage(raw=b"{}", claims=(Claim(pointer="/c", sha256="s", bytes=1),)),)),
        ),
    )
    assert msgspec.msgpack.decode(codec.encode_said(said)) == [
        "said.1",
        "w",
        2,
        [["MessagesAppended.1", [[b"{}", [["/c", "s", 1]]]]]],
        0,
    ]
    cut = HistoryCut(
        boundary=1,
        dropped=(2,),
        trimmed=(Trim(number=3, pointer="/content", text="t", tokens=4),),
        level="shrink",
        digest_dropped=False,
        before_tokens=5,
        after_tokens=6,
        fates=(Fate(category="path", retained=7, recoverable=8, lost=9),),
    )
    trims = [[3, "/content", "t", 4]]
    written = msgspec.msgpack.decode(msgspec.msgpack.encode(cut))
    assert written == ["HistoryCut.1", 1, [2], trims, "shrink", False, 5, 6, [], [["path", 7, 8, 9]]]


def test_the_rolling_hash_covers_bodies_and_their_order() -> None:
    start = codec.genesis(address("c"))
    assert start != codec.genesis(address("d"))
    one_two = codec.roll(codec.roll(start, b"1"), b"2")
    assert one_two not in (codec.roll(codec.roll(start, b"2"), b"1"), codec.roll(start, b"12"))


def test_a_commit_id_follows_the_chain_and_the_step() -> None:
    ids = {codec.commit_id(prev_hash=before, step=step) for before in (b"a", b"b") for step in ("x", "y")}
    assert len(ids) == 4
    assert codec.commit_id(prev_hash=b"a", step="x") == codec.commit_id(prev_hash=b"a", step="x")
