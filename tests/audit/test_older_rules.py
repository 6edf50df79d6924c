"""Replay reads which rules decided: today's steps are decided again, older ones rest, those of others are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as replaced

import msgspec
import pytest

from actors.audit.replay import Replayed, replay
from actors.audit.verify import Evidence, verify
from actors.cli.verify import verdict_text
from protocol import codec
from protocol.facts import HistoryDigested
from storage.ports import Record
from tests.audit.faults import resealed
from tests.audit.recorded import recorded

TALK = recorded()
OLD = codec.RULES_VERSION


def by_rules(version: str, *, first: int = 1, last: int = 10**9) -> list[Record]:
    """Return the log with the commits *first* to *last* written by other rules, and sealed by who has all keys."""
    prev = b""
    out = []
    for record in TALK.records:
        if record.side == "done":
            commit = codec.decode_commit(record.body)
            wanted = version if first <= commit.version <= last else commit.rules_version
            commit = codec.seal(
                msgspec.structs.replace(commit, prev_hash=prev or commit.prev_hash, rules_version=wanted, hash=b"")
            )
            prev = commit.hash
            record = replaced(record, body=codec.encode_commit(commit))
        out.append(record)
    return out


def softened(commit: codec.Commit) -> codec.Commit:
    """Return *commit* as rules that count otherwise would have decided it."""
    fact = next(fact for fact in commit.facts if isinstance(fact, HistoryDigested))
    other = msgspec.structs.replace(fact, before_tokens=fact.before_tokens + 1)
    return msgspec.structs.replace(commit, facts=(other,), hash=b"")


def digested(records: list[Record]) -> int:
    """Return where the last digest lies."""
    return [i for i, one in enumerate(records) if one.side == "done" and b"HistoryDigested" in one.body][-1]


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make this release one whose rules changed since the log was written."""
    monkeypatch.setattr(codec, "RULES_VERSIONS", (*codec.RULES_VERSIONS, "9"))
    monkeypatch.setattr(codec, "RULES_VERSION", "9")


def test_todays_steps_are_decided_again_and_a_difference_is_found() -> None:
    found = replay(TALK.at, resealed(TALK.records, digested(TALK.records), softened))
    assert found.divergence is not None
    assert (found.divergence.fact, found.rests) == ("HistoryDigested", {})


@pytest.mark.usefixtures("newer")
@pytest.mark.parametrize(
    "change", [lambda records: records, lambda records: resealed(records, digested(records), softened)]
)
def test_steps_of_older_rules_rest_on_the_record_and_are_counted_apart(
    change: Callable[[list[Record]], list[Record]],
) -> None:
    was = by_rules(OLD)
    found = replay(TALK.at, change(was))
    assert found.divergence is None
    assert found.decided_again == 0
    assert found.views > 5


@pytest.mark.usefixtures("newer")
def test_what_rests_is_what_would_have_been_decided_again() -> None:
    before = replay(TALK.at, by_rules("9"))
    found = replay(TALK.at, TALK.records)
    assert before.rests == {}
    assert found.rests == {OLD: before.decided_again}
    assert found.hash == TALK.state.hash.hex()


@pytest.mark.usefixtures("newer")
def test_in_a_log_of_both_only_todays_are_decided_again() -> None:
    half = TALK.state.version // 2
    found = replay(TALK.at, by_rules("9", first=half))
    assert found.divergence is None
    assert found.decided_again > 5
    assert found.rests[OLD] > 5
    forged = by_rules("9", first=half)
    assert replay(TALK.at, resealed(forged, digested(forged), softened)).divergence is not None


@pytest.mark.usefixtures("newer")
def test_a_served_view_of_older_rules_is_rebuilt_all_the_same() -> None:
    def forged(commit: codec.Commit) -> codec.Commit:
        fact = msgspec.structs.replace(commit.facts[0], view_hash="0" * 64)
        return msgspec.structs.replace(commit, facts=(fact,), hash=b"")

    served = [i for i, one in enumerate(TALK.records) if one.side == "done" and b"ContextServed" in one.body]
    found = replay(TALK.at, resealed(TALK.records, served[-1], forged))
    assert found.divergence is not None
    assert found.divergence.field == "view_hash"


def test_a_made_up_version_does_not_end_the_checking() -> None:
    found = replay(TALK.at, by_rules("0", first=7, last=7))
    assert found.divergence is not None
    assert (found.divergence.version, found.divergence.field) == (7, "rules_version")
    assert "rules '0'" in found.divergence.reason
    verdict = verify(Evidence(at=TALK.at, records=by_rules("0", first=7, last=7)))
    assert verdict.first is not None
    assert (verdict.ok, verdict.first.what, verdict.first.version) == (False, "rules", 7)


@pytest.mark.usefixtures("newer")
def test_verify_says_which_rules_decided() -> None:
    half = TALK.state.version // 2
    verdict = verify(Evidence(at=TALK.at, records=by_rules("9", first=half)))
    assert verdict.ok
    assert verdict.rules == {OLD: half - 1, "9": TALK.state.version - half + 1}
    assert verdict.older_behind_newer == 0


@pytest.mark.usefixtures("newer")
def test_an_older_step_behind_newer_ones_is_counted_since_somebody_may_have_written_it_by_hand() -> None:
    verdict = verify(Evidence(at=TALK.at, records=by_rules("9", last=TALK.state.version - 3)))
    assert (verdict.ok, verdict.older_behind_newer) == (True, 3)
    assert "3 commits of older rules, which replay takes as they are (3 behind newer ones)" in verdict_text(verdict)


def test_a_replay_of_todays_rules_rests_on_nothing() -> None:
    found = replay(TALK.at, TALK.records)
    assert isinstance(found, Replayed)
    assert (found.divergence, found.rests) == (None, {})
