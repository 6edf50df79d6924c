"""Sizes: what a view's record tells of messages is what counting finds, and who folds by it gets the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from actors.audit.refolding import refolded
from actors.audit.replay import replay
from actors.core.apply_said import apply_said
from actors.core.seal import sealed
from actors.core.sizes import MESSAGES_MAX, PARTS_MAX, sizes_of
from actors.core.state import State, initial
from actors.model_info.tokens import tokenizer_for
from actors.runtime.fold import fold, recorded_sizes
from protocol import codec
from protocol.errors import BudgetRefused, NotReady
from protocol.facts import ContextServed, DoneFact, MessageSize
from protocol.policy import Policy
from storage.ports import Record
from tests.audit.recorded import serve, small
from tests.builders import Talk, assistant, result, user, words
from tests.core.providers import any_conversations
from tests.core.runs import any_policies
from tests.laws import LAWS


class Counted(Talk):
    """A conversation whose commits say by which tokenizer it is counted, as the workers' do."""

    tokenizer = tokenizer_for("").id

    def sealed(self, facts: tuple[DoneFact, ...], *, adopt: Policy | None = None) -> codec.Commit:
        """Return *facts* as the next commit."""
        return sealed(self.state, facts, rules=self.rules, writer="test", tokenizer=self.tokenizer, adopt=adopt)


def talked() -> Counted:
    """Return a conversation with calls and compactions, a view after each turn, and a message behind the last one."""
    talk = Counted(small())
    for turn in range(5):
        talk.play(user(f"ORD-{turn}4711 {words(150)}"), assistant("I look.", f"c{turn}"), result(f"c{turn}", words(90)))
        serve(talk)
    talk.append(user("And now?"))
    return talk


def counted(records: Sequence[Record]) -> State:
    """Return the fold of *records*, each for itself: what a later one tells of it is not known."""
    state = initial(codec.genesis(Counted(None).at))
    for record in records:
        state = fold(state, (record,))
    return state


def told(talk: Talk) -> list[MessageSize]:
    """Return all sizes that the log of *talk* tells."""
    return [size for fact in talk.facts if isinstance(fact, ContextServed) for size in fact.sizes]


def with_sizes(records: Sequence[Record], change: Any) -> list[Record]:
    """Return *records* with other sizes, sealed anew."""
    out: list[Record] = []
    prev: bytes | None = None
    for record in records:
        if record.side == "done":
            commit = codec.decode_commit(record.body)
            facts = tuple(
                replace(fact, sizes=tuple(map(change, fact.sizes))) if isinstance(fact, ContextServed) else fact
                for fact in commit.facts
            )
            commit = codec.seal(replace(commit, facts=facts, prev_hash=prev or commit.prev_hash))
            record, prev = Record(seq=record.seq, side="done", body=codec.encode_commit(commit)), commit.hash
        out.append(record)
    return out


@given(said=any_conversations(turns_max=6), wanted=any_policies(), data=st.data())
@LAWS
def test_a_log_folds_to_the_same_bytes_whether_its_sizes_are_read_or_counted(
    said: list[dict[str, Any]], wanted: Policy, data: st.DataObject
) -> None:
    talk = Counted(wanted)
    for message in said:
        talk.append(message)
        if data.draw(st.booleans()):
            talk.settle()
            try:
                serve(talk)
            except (BudgetRefused, NotReady):
                continue
    state = fold(initial(codec.genesis(talk.at)), talk.records)
    assert msgspec.msgpack.encode(state) == msgspec.msgpack.encode(counted(talk.records))


def test_each_message_is_told_once_with_the_first_view_after_it_and_then_nobody_counts_it() -> None:
    talk = talked()
    assert [size.number for size in told(talk)] == [3, 2, 1, 6, 5, 4, 9, 8, 7, 12, 11, 10, 15, 14, 13]
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return talk.count(text)

    sizes = recorded_sizes(talk.records)[talk.tokenizer]
    state = initial(codec.genesis(talk.at))
    for record in talk.records:
        if record.side == "said":
            state = apply_said(state, record.body, seq=record.seq, count=count, sizes=sizes)
    assert [text for text in asked if text] == ["And now?"]


def test_a_size_of_another_number_of_parts_leaves_out_none() -> None:
    talk = talked()
    fewer = with_sizes(talk.records, lambda size: replace(size, parts_tokens=()))
    state = fold(initial(codec.genesis(talk.at)), fewer)
    assert [len(entry.parts) for entry in state.live] == [len(entry.parts) for entry in talk.state.live]
    assert state.live_tokens == talk.state.live_tokens


def test_a_size_is_not_taken_for_another_message_nor_from_another_tokenizer() -> None:
    talk = talked()
    wrong = with_sizes(talk.records, lambda size: replace(size, check=size.check ^ 1, parts_tokens=(7,)))
    assert fold(initial(codec.genesis(talk.at)), wrong).live_tokens == talk.state.live_tokens
    elsewhere = Counted(small())
    elsewhere.tokenizer = "another@1"
    elsewhere.play(user(words(50)))
    serve(elsewhere)
    wrong = with_sizes(elsewhere.records, lambda size: replace(size, parts_tokens=(7,)))
    assert fold(initial(codec.genesis(talk.at)), wrong).live_tokens == elsewhere.state.live_tokens


def test_replay_tells_a_size_that_was_not_counted_so() -> None:
    talk = talked()
    assert replay(talk.at, talk.records).divergence is None
    wrong = with_sizes(talk.records, lambda size: replace(size, frame_tokens=size.frame_tokens + 1))
    found = replay(talk.at, wrong).divergence
    assert found is not None
    assert (found.fact, found.field) == ("ContextServed", "sizes")


def test_folding_again_finds_the_same_by_the_record() -> None:
    talk = talked()
    found, decided = refolded(talk.at, talk.records), replay(talk.at, talk.records)
    assert replace(found, folded_only=False) == replace(decided, decided_again=0)


def test_what_is_told_beside_one_view_is_bounded() -> None:
    talk = Counted(small())
    many = [{"type": "text", "text": "x"}] * (PARTS_MAX + 1)
    talk.append(user(many), *(user(str(number)) for number in range(MESSAGES_MAX + 10)))
    sizes = sizes_of(talk.state)
    assert len(sizes) == MESSAGES_MAX
    assert 1 not in [size.number for size in sizes]


class ServedBefore(msgspec.Struct, frozen=True, kw_only=True, array_like=True, tag_field="fact", tag="ContextServed.1"):
    """The fact as releases had it that told no sizes."""

    upto: int
    budget: int
    profile: str
    view_hash: str
    tokens: int
    level: str
    asked: int = 0
    unsent: tuple[int, ...] = ()


def test_releases_before_read_a_view_with_sizes_and_theirs_is_read_without() -> None:
    served = ContextServed(
        upto=3, budget=9, profile="p", view_hash="v", tokens=5, level="none", sizes=sizes_of(talked().state)
    )
    before = msgspec.msgpack.decode(msgspec.msgpack.encode(served), type=ServedBefore)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(before), type=ContextServed) == replace(served, sizes=())
