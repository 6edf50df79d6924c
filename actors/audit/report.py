"""Report: what the actors did with a conversation, read from its log."""

from __future__ import annotations

import msgspec

from actors.core.known_facts import known
from protocol import codec
from protocol.errors import Rejected
from protocol.facts import CompactionDeclined, DoneFact, MessageRepaired, StageFailed, ToolOutputSpilled
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


def _add(report: Report, fact: DoneFact, stored: set[str]) -> None:
    about = known(fact)
    if about.tokens == "fewer":
        before, after = about.measured
        _applied(report.stages[about.whose], getattr(fact, before), getattr(fact, after))
    match fact:
        case ToolOutputSpilled():
            report.estimated_parts += fact.estimated
            if fact.sha256 not in stored:
                stored.add(fact.sha256)
                report.artifacts += 1
                report.artifact_bytes += fact.bytes
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
