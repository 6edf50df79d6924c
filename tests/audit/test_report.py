"""The report counts steps, each by the outcome that spans, metrics and statistics give it too."""

from __future__ import annotations

from collections import Counter

import pytest

from actors.audit.report import report_of
from actors.audit.stats import conversation_stats
from actors.audit.trail import stage_of
from actors.core.outcome import outcome_of
from protocol import codec
from protocol.facts import CompactionDeclined
from protocol.ids import Address
from protocol.semconv import Outcome
from protocol.subjects import ACTORS
from storage.ports import Record
from tests.audit.recorded import recorded
from tests.audit.test_old_logs import kept
from tests.builders import AT

OUTCOMES: tuple[Outcome, ...] = ("applied", "declined", "rejected", "failed")


def old() -> tuple[Address, list[Record]]:
    bundle = kept("1337676")
    return bundle.at, list(bundle.records)


@pytest.mark.parametrize("log", ["recorded", "1337676"])
def test_each_step_is_counted_once_by_its_outcome_and_as_statistics_count_it(log: str) -> None:
    at, records = (AT, recorded().records) if log == "recorded" else old()
    report = report_of(records)
    commits = [codec.decode_commit(one.body) for one in records if one.side == "done"]
    steps = Counter[tuple[str, Outcome]]((stage_of(one), outcome_of(one.facts)) for one in commits)
    for actor in ACTORS:
        told = {name: getattr(report.stages[actor], name) for name in OUTCOMES}
        assert told == {name: steps[actor, name] for name in OUTCOMES}
    for name, counted in conversation_stats(at, records).stages.items():
        if name in report.stages:
            stage = report.stages[name]
            assert (stage.applied, stage.declined + stage.rejected, stage.failed) == (
                counted.applied,
                counted.declined,
                counted.failed,
            )
    assert report.commits == len(commits)


def test_a_refused_answer_is_told_as_rejected_and_is_no_decline() -> None:
    _, records = old()
    report = report_of(records)
    squeeze = report.stages["squeeze"]
    assert (squeeze.rejected, sum(" rejected at message " in reason for reason in report.reasons)) == (1, 1)
    facts = [fact for one in records if one.side == "done" for fact in codec.decode_commit(one.body).facts]
    asked = [fact for fact in facts if isinstance(fact, CompactionDeclined) and fact.attempts]
    assert report.reasons.count(f"squeeze rejected at message {asked[0].boundary}: {asked[0].reason}") == 1
