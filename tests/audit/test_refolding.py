"""Folding again finds each kind of forgery: in the chain, in a kept state, in what was served. It decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from actors.audit.bundle import Bundle, packed
from actors.audit.refolding import refolded
from actors.audit.replay import is_view, replay
from actors.core.state import State
from actors.runtime.kept_states import STATE_SCHEMA, Snapshot
from protocol import codec
from protocol.policy import Policy
from storage.ports import Record
from tests.audit.faults import resealed
from tests.audit.recorded import serve, small
from tests.builders import Talk, assistant, user, words
from tests.cli.test_cli import jettison


class Kept(Talk):
    """A conversation that remembers each of its states."""

    def __init__(self, wanted: Policy) -> None:
        self.states: list[State] = []
        super().__init__(wanted)

    def hear(self, body: bytes) -> None:
        """Hear and remember."""
        super().hear(body)
        self.states.append(self.state)

    def land(self, commit: codec.Commit) -> None:
        """Land and remember."""
        super().land(commit)
        self.states.append(self.state)


@cache
def talked() -> Kept:
    """Return a conversation with compactions, a view after each turn, and messages behind the last commit."""
    talk = Kept(small())
    for turn in range(5):
        talk.play(user(f"ORD-{turn}4711 {words(150)}"), assistant(f"Yes, {turn}. {words(80)}"))
        serve(talk)
    talk.append(user("And now?"))
    return talk


def kept(state: State) -> bytes:
    """Return *state* as a snapshot."""
    return msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA, state=msgspec.msgpack.encode(state)))


def served_at(records: Sequence[Record]) -> int:
    """Return the place of the second view among *records*."""
    places = [at for at, one in enumerate(records) if one.side == "done" and is_view(codec.decode_commit(one.body))]
    return places[1]


def test_a_sound_log_folds_to_what_replay_finds_and_nothing_is_decided() -> None:
    talk = talked()
    found, decided = refolded(talk.at, talk.records), replay(talk.at, talk.records)
    assert found.divergence is None
    assert (found.decided_again, found.folded_only, found.views, found.states) == (0, True, 5, 0)
    assert decided.decided_again
    assert replace(found, folded_only=False) == replace(decided, decided_again=0)


def test_each_state_that_could_have_been_kept_is_the_folds() -> None:
    talk = talked()
    states = [state for state in talk.states if state.version]
    assert any(state.seq > state.position.done_seq for state in states), "no message is behind a commit"
    for state in states:
        found = refolded(talk.at, talk.records, snapshot=kept(state))
        assert (found.divergence, found.states) == (None, 1)


FORGED: dict[str, Callable[[State], State]] = {
    "tokens of the view": lambda one: replace(one, shown=replace(one.shown, live_tokens=one.live_tokens + 1)),
    "a message": lambda one: replace(one, shown=replace(one.shown, live=one.live[1:])),
    "what is heard": lambda one: replace(one, heard=replace(one.heard, messages=one.messages + 1)),
    "the ledger": lambda one: replace(one, shown=replace(one.shown, raw_ledger=b"")),
    "the policy": lambda one: replace(one, terms=replace(one.terms, policy_hash="0" * 64)),
    "the place": lambda one: replace(one, position=replace(one.position, said_hash=b"0" * 32)),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_kept_state_that_somebody_changed_is_found(what: str) -> None:
    talk = talked()
    state = next(one for one in talk.states if one.version > 6 and one.shown.raw_ledger)
    forged = FORGED[what](state)
    assert forged != state
    found = refolded(talk.at, talk.records, snapshot=kept(forged)).divergence
    assert found is not None
    assert (found.version, found.field) == (state.version, "snapshot")


def test_a_kept_state_that_is_ahead_of_the_log_or_unreadable_is_found_and_an_older_schema_is_nobodys() -> None:
    talk = talked()
    cut = talk.records[: served_at(talk.records)]
    ahead = refolded(talk.at, cut, snapshot=kept(talk.state)).divergence
    assert ahead is not None
    assert (ahead.version, ahead.field) == (talk.state.version, "snapshot")
    torn = refolded(talk.at, talk.records, snapshot=kept(talk.state)[:-9]).divergence
    assert torn is not None
    assert torn.field == "snapshot"
    old = msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA - 1, state=b""))
    assert refolded(talk.at, talk.records, snapshot=old).divergence is None


def changed(record: Record) -> Record:
    """Return *record* with one bit of another."""
    middle = len(record.body) // 2
    return replace_body(record, record.body[:middle] + bytes([record.body[middle] ^ 1]) + record.body[middle + 1 :])


def replace_body(record: Record, body: bytes) -> Record:
    """Return *record* with another *body*."""
    return Record(seq=record.seq, side=record.side, body=body, headers=record.headers, time=record.time)


def _at(records: Sequence[Record], side: str) -> int:
    return [index for index, one in enumerate(records) if one.side == side][2]


BROKEN: dict[str, Callable[[list[Record]], list[Record]]] = {
    "a message is changed": lambda all: [changed(one) if at == _at(all, "said") else one for at, one in enumerate(all)],
    "a commit is changed": lambda all: [changed(one) if at == _at(all, "done") else one for at, one in enumerate(all)],
    "a message is gone": lambda all: [one for at, one in enumerate(all) if at != _at(all, "said")],
    "a commit is gone": lambda all: [one for at, one in enumerate(all) if at != _at(all, "done")],
    "a commit is written anew": lambda all: resealed_only(all, _at(all, "done")),
}


def resealed_only(records: list[Record], index: int) -> list[Record]:
    """Return *records* with one commit written anew under its own right hash, and none behind it."""
    commit = replace(codec.decode_commit(records[index].body), writer="somebody")
    body = codec.encode_commit(codec.seal(commit))
    return [*records[:index], replace_body(records[index], body), *records[index + 1 :]]


@pytest.mark.parametrize("what", BROKEN)
def test_a_chain_that_does_not_hold_is_found(what: str) -> None:
    talk = talked()
    found = refolded(talk.at, BROKEN[what](list(talk.records))).divergence
    assert found is not None
    assert found.field == "chain"


@pytest.mark.parametrize(("field", "value"), [("view_hash", "0" * 64), ("tokens", 1), ("upto", 1), ("level", "floor")])
def test_what_was_told_of_a_served_view_is_found_where_the_whole_chain_behind_it_was_written_anew(
    field: str, value: object
) -> None:
    talk = talked()
    index = served_at(talk.records)

    def forge(commit: codec.Commit) -> codec.Commit:
        return replace(commit, facts=(replace(commit.facts[0], **{field: value}),))

    records = resealed(talk.records, index, forge)
    found = refolded(talk.at, records).divergence
    version = codec.decode_commit(talk.records[index].body).version
    assert found is not None
    assert (found.version, found.fact, found.field) == (version, "ContextServed", field)


def test_a_folder_of_bundles_is_folded_again_with_their_snapshots(tmp_path: Path) -> None:
    talk = talked()
    sound = Bundle(at=talk.at, records=tuple(talk.records), snapshot=kept(talk.states[-1]))
    (tmp_path / "sound.tar").write_bytes(packed(sound))
    fine = jettison("replay", str(tmp_path), "--fold", "--verify", "--json")
    assert fine.returncode == 0, fine.stderr
    told = json.loads(fine.stdout)
    assert (told["folded_only"], told["states"], told["decided_again"], told["divergence"]) == (True, 1, 0, None)

    forged = replace(sound, snapshot=kept(FORGED["what is heard"](talk.states[-1])))
    (tmp_path / "sound.tar").write_bytes(packed(forged))
    different = jettison("replay", str(tmp_path / "sound.tar"), "--fold", "--verify")
    assert different.returncode == 3
    assert "folded, nothing decided again; rebuilt 5 served views, compared 1 kept state" in different.stdout
    assert "DIFFERENT at version" in different.stdout
    assert jettison("replay", str(tmp_path), "--fold", "--strict").returncode == 2
