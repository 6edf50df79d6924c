"""A damaged log goes on: whatever single fault was done to it, nothing readable that was said is dropped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import msgspec
import pytest

from actors.audit.heads import positions
from actors.audit.repair_plan import RepairPlan, dense, plan
from actors.audit.repairing import repaired
from actors.audit.repairs import Repair
from actors.audit.replay import replay
from actors.audit.verify import Evidence, Verified, verify
from actors.cli.verify import verdict_text
from actors.runtime.fold import folded
from protocol import codec
from protocol.errors import BadEnvelope, Rejected
from protocol.facts import ConversationRepaired
from storage.ports import Record
from tests.audit.faults import AT, Case, Fault, log_fault, recorded
from tests.builders import Talk, policy, user

FAULTS = int(os.environ.get("TESTS_FAULTS", "160")) // 4
SEED = int(os.environ.get("TESTS_SEED", "20261122"))


def faults() -> list[Fault]:
    random = Random(SEED)
    made = [log_fault(recorded(), random) for _ in range(FAULTS)]
    return [one for one in made if one is not None]


def planned(case: Case, *copies: Sequence[Record]) -> RepairPlan:
    return plan(AT, case.records, marks=case.book.marks(AT.conversation), copies=copies)


def done(case: Case, wanted: RepairPlan) -> list[Record]:
    """Return the log after *wanted* was carried out, as `Repairing` does it."""
    commit = repaired(AT, wanted, by="test", export="e" * 64, at_ms=7)
    last = Record(seq=10**6, side="done", body=codec.encode_commit(commit))
    if not wanted.rewritten:
        return [*wanted.records, last]
    places = [place for record in (*wanted.records, *case.records) for place in positions(record)]
    again = dense((*wanted.records, replace(last, seq=max(places) + 1)))
    return [replace(record, seq=record.seq + 10**6) for record in again]


def judged(case: Case, records: Sequence[Record]) -> Verified:
    return verify(Evidence(at=AT, records=records, marks=case.book.marks(AT.conversation)))


def readable(records: Sequence[Record]) -> set[bytes]:
    found = set()
    for record in records:
        try:
            if record.side == "said":
                codec.decode_said(record.body)
                found.add(record.body)
        except BadEnvelope:
            continue
    return found


@pytest.mark.parametrize("made", faults(), ids=lambda made: made.name)
def test_after_every_fault_a_log_goes_on_or_says_that_only_a_copy_helps(made: Fault) -> None:
    try:
        wanted = planned(made.case)
    except Rejected:
        with pytest.raises(Rejected, match="--from"):
            planned(made.case)
        return
    assert wanted.problem, "every fault is found"
    records = done(made.case, wanted)
    found = judged(made.case, records)
    assert found.first is None
    assert [one.version for one in found.repairs] == [wanted.version + 1]
    assert readable(made.case.records) <= readable(records)
    assert replay(AT, records).divergence is None
    assert folded(AT, records).version == wanted.version + 1


@pytest.mark.parametrize("made", faults(), ids=lambda made: made.name)
def test_with_a_copy_every_fault_is_undone(made: Fault) -> None:
    wanted = planned(made.case, recorded().records)
    records = done(made.case, wanted)
    found = judged(made.case, records)
    assert found.first is None
    assert len(found.repairs) == 1
    assert {one.body for one in recorded().records} <= {one.body for one in records}
    assert wanted.unreadable == ()
    assert (wanted.missing, wanted.gone) == ((), ())


def test_a_verdict_tells_all_that_a_repair_wrote_down() -> None:
    assert set(ConversationRepaired.__struct_fields__) <= set(Repair.__struct_fields__)


def test_an_untouched_log_needs_no_repair() -> None:
    assert (planned(recorded()).problem, planned(recorded()).dropped) == ("", ())


def test_what_nobody_has_is_named() -> None:
    case = recorded()
    said = [index for index, record in enumerate(case.records) if record.side == "said"]
    gone, torn = said[40], said[50]
    records = list(case.records)
    lost = codec.decode_said(records[gone].body)
    records[torn] = replace(records[torn], body=records[torn].body[:9])
    damaged = replace(case, records=tuple(record for index, record in enumerate(records) if index != gone))
    wanted = planned(damaged)
    assert wanted.unreadable == (records[torn].seq,)
    assert (lost.writer, lost.count, lost.count) in wanted.missing
    (repair,) = judged(damaged, done(damaged, wanted)).repairs
    assert (repair.unreadable, repair.missing) == (wanted.unreadable, wanted.missing)


def test_a_copy_that_ends_before_the_damage_changes_nothing_and_one_that_reaches_behind_it_is_continued() -> None:
    case = recorded()
    done_at = [index for index, record in enumerate(case.records) if record.side == "done"]
    broken = list(case.records)
    broken[done_at[30]] = replace(broken[done_at[30]], body=b"?" + broken[done_at[30]].body[1:])
    damaged = replace(case, records=tuple(broken))
    short = planned(damaged, case.records[: done_at[20]])
    assert (short.rewritten, short.version) == (False, 30)
    long = planned(damaged, case.records[: done_at[40]])
    assert (long.rewritten, long.from_copy, len(long.records)) == (True, 1, len(case.records))
    assert [one.body for one in long.records] == [one.body for one in case.records]


def test_a_repaired_log_is_repaired_again() -> None:
    case = recorded()
    done_at = [index for index, record in enumerate(case.records) if record.side == "done"]
    broken = list(case.records)
    broken[done_at[30]] = replace(broken[done_at[30]], body=b"garbage")
    first = replace(case, records=tuple(broken))
    once = done(first, planned(first))
    second = replace(case, records=(*once, Record(seq=10**6 + 1, side="done", body=b"garbage")))
    twice = planned(second)
    found = judged(second, done(second, replace_last(twice)))
    assert (found.first, [one.version for one in found.repairs]) == (None, [31, 32])


def replace_last(wanted: RepairPlan) -> RepairPlan:
    """Return *wanted* with its end in front of where `done` writes."""
    assert isinstance(codec.decode_commit(wanted.records[-1].body).facts[0], ConversationRepaired)
    records = (*wanted.records[:-1], replace(wanted.records[-1], seq=10**6 - 1))
    return msgspec.structs.replace(wanted, records=records)


def test_a_copy_of_another_history_is_refused() -> None:
    case = recorded()
    other = Talk(policy(9000), at=AT)
    other.play(user("something else"))
    with pytest.raises(Rejected, match="another history"):
        planned(replace(case, records=case.records[:50]), other.records)


def test_a_log_whose_server_was_put_back_goes_on_where_the_anchors_saw_more() -> None:
    case = recorded()
    end = case.records[len(case.records) // 3]
    rest = tuple(record for record in case.records if record.seq <= end.seq)
    wanted = planned(replace(case, records=rest))
    commit = repaired(AT, wanted, by="test", export="e" * 64, at_ms=7)
    # the server counts on from where its copy ends: the repair stands before what the anchors saw
    anew = [*wanted.records, Record(seq=wanted.records[-1].seq + 1, side="done", body=codec.encode_commit(commit))]
    assert anew[-1].seq < case.book.marks(AT.conversation)[-1].head.seq
    verdict = judged(case, anew)
    assert (verdict.problems, len(verdict.repairs), verdict.repairs[0].anchor) == ((), 1, wanted.anchor)
    (gone,), saw = verdict.repairs[0].gone, case.book.marks(AT.conversation)[-1]
    assert gone == (end.seq, saw.head.seq, saw.anchor)
    told = f"lost: what stood behind position {end.seq}, up to {saw.head.seq}, seen by anchor {saw.anchor}; not here;"
    assert told in verdict_text(verdict)
    # an anchor that comes later is not excused by it
    later = [msgspec.structs.replace(one, anchor=wanted.anchor + 1) for one in case.book.marks(AT.conversation)[-1:]]
    assert not verify(Evidence(at=AT, records=anew, marks=later)).ok
