"""Report: what the actors did with a conversation, read from its log."""

from __future__ import annotations

import msgspec

from protocol import codec
from protocol.errors import Rejected
from protocol.facts import (
    CompactionDeclined,
    DigestSqueezed,
    HistoryCut,
    HistoryDigested,
    HistorySummarized,
    MessageRepaired,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.ids import Address
from protocol.subjects import ACTORS
from storage.ports import EventLog


class Stage(msgspec.Struct, kw_only=True):
    """All steps of one actor together. Tokens are sums over its applied steps."""

    applied: int = 0
    declined: int = 0
    failed: int = 0
    before_tokens: int = 0
    after_tokens: int = 0


class Report(msgspec.Struct, kw_only=True):
    """One conversation."""

    stages: dict[str, Stage]
    artifacts: int = 0
    artifact_bytes: int = 0
    repairs: int = 0
    commits: int = 0
    estimated_parts: int = 0
    reasons: list[str] = []
    """Why stages declined or failed, in order."""

    def line(self) -> str:
        """Return the report in one line for a person."""
        told = ", ".join(f"{name} {stage.applied}" for name, stage in self.stages.items())
        repairs = f", {self.repairs} repairs" if self.repairs else ""
        return f"{told}; {self.artifacts} artifacts ({self.artifact_bytes:,} bytes){repairs}"


async def report_of(log: EventLog, at: Address) -> Report:
    """Return the report of *at*. Raises `LogUnavailable`."""
    report = Report(stages={actor: Stage() for actor in ACTORS})
    stored: set[str] = set()
    for record in await log.read(at, after=0):
        if record.side != "done":
            continue
        try:
            commit = codec.decode_commit(record.body)
        except Rejected:
            continue
        report.commits += 1
        for fact in commit.facts:
            _add(report, fact, stored)
    return report


def _add(report: Report, fact: object, stored: set[str]) -> None:
    match fact:
        case ToolOutputSpilled():
            _applied(report.stages["spill"], fact.tokens, fact.text_tokens)
            report.estimated_parts += fact.estimated
            if fact.sha256 not in stored:
                stored.add(fact.sha256)
                report.artifacts += 1
                report.artifact_bytes += fact.bytes
        case ToolOutputTrimmed():
            _applied(report.stages["spill"], fact.tokens, fact.text_tokens)
        case HistoryDigested():
            _applied(report.stages["digest"], fact.before_tokens, fact.after_tokens)
        case DigestSqueezed() | HistorySummarized():
            _applied(report.stages["squeeze"], fact.before_tokens, fact.after_tokens)
        case HistoryCut():
            _applied(report.stages["cut"], fact.before_tokens, fact.after_tokens)
        case CompactionDeclined():
            report.stages[fact.stage].declined += 1
            report.reasons.append(f"{fact.stage} declined at message {fact.boundary}: {fact.reason}")
        case StageFailed():
            report.stages[fact.stage].failed += 1
            report.reasons.append(f"{fact.stage} failed at message {fact.boundary}: {fact.error}")
        case MessageRepaired():
            report.repairs += 1
        case _:
            pass


def _applied(stage: Stage, before: int, after: int) -> None:
    stage.applied += 1
    stage.before_tokens += before
    stage.after_tokens += after
