"""Report: what the actors did with a conversation, read from its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from actors.core.known_facts import known
from actors.core.outcome import outcome_of
from protocol import codec
from protocol.errors import Rejected
from protocol.facts import CompactionDeclined, DoneFact, MessageRepaired, StageFailed, ToolOutputSpilled
from protocol.subjects import ACTORS
from storage.ports import Record

from .trail import stage_of


class StageSteps(msgspec.Struct, kw_only=True):
    """All steps of one actor together, by their outcomes. Tokens are sums over all facts of theirs that won some."""

    applied: int = 0
    declined: int = 0
    rejected: int = 0
    """A model answered, and its answer was refused."""
    failed: int = 0
    before_tokens: int = 0
    after_tokens: int = 0


class Report(msgspec.Struct, kw_only=True):
    """One conversation."""

    stages: dict[str, StageSteps]
    artifacts: int = 0
    artifact_bytes: int = 0
    repairs: int = 0
    commits: int = 0
    estimated_parts: int = 0
    reasons: list[str] = []
    """Why stages declined or failed, or why a model's answer was refused, in order."""

    def line(self) -> str:
        """Return the report in one line for a person."""
        told = ", ".join(f"{name} {stage.applied}" for name, stage in self.stages.items())
        repairs = f", {self.repairs} repairs" if self.repairs else ""
        return f"{told}; {self.artifacts} artifacts ({self.artifact_bytes:,} bytes){repairs}"


def report_of(records: Iterable[Record]) -> Report:
    """Return the report of a conversation's *records*; what is no commit is passed by."""
    report = Report(stages={actor: StageSteps() for actor in ACTORS})
    stored: set[str] = set()
    for record in records:
        if record.side != "done":
            continue
        try:
            commit = codec.decode_commit(record.body)
        except Rejected:
            continue
        report.commits += 1
        stage = report.stages.get(stage_of(commit))
        if stage is not None:
            _add_step(stage, commit.facts)
        for fact in commit.facts:
            _add(report, fact, stored)
    return report


def _add_step(stage: StageSteps, facts: Sequence[DoneFact]) -> None:
    outcome = outcome_of(facts)
    stage.applied += outcome == "applied"
    stage.declined += outcome == "declined"
    stage.rejected += outcome == "rejected"
    stage.failed += outcome == "failed"
    for fact in facts:
        about = known(fact)
        if about.tokens == "fewer":
            before, after = about.measured
            stage.before_tokens += getattr(fact, before)
            stage.after_tokens += getattr(fact, after)


def _add(report: Report, fact: DoneFact, stored: set[str]) -> None:
    match fact:
        case ToolOutputSpilled():
            report.estimated_parts += fact.estimated
            if fact.sha256 not in stored:
                stored.add(fact.sha256)
                report.artifacts += 1
                report.artifact_bytes += fact.bytes
        case CompactionDeclined(reason=why) | StageFailed(error=why):
            report.reasons.append(f"{fact.stage} {outcome_of([fact])} at message {fact.boundary}: {why}")
        case MessageRepaired():
            report.repairs += 1
        case _:
            pass
