"""Verify: judge a log, its anchors, its snapshot and its artifacts, and name the first thing that is wrong.

Decides only; `evidence.py` and `bundle.py` bring what it needs. The chain proves everything up to the newest commit.
What no chain can show (an end that is gone, a history written anew, messages after the newest commit) is proven by the
anchors, up to the newest of them; the verdict counts what stands behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from actors.core.state import initial, remember_writer
from actors.runtime.fold import folded
from actors.runtime.kept_states import opened
from actors.spill.part import MISSING_UPLOAD
from protocol import codec
from protocol.errors import UNREADABLE, BadEnvelope, JettisonError
from protocol.facts import MessagesAppended, ToolOutputSpilled, ToolOutputTrimmed
from protocol.ids import Address
from storage.ports import Record
from storage.tombstones import is_erasure

from .anchors import AnchorMark, Flaw
from .heads import Head, earlier
from .repairs import Repair, repairs_in
from .walk import Chain, Problem, at_place, walked


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """All that is left of a conversation."""

    at: Address
    records: Sequence[Record]
    marks: Sequence[AnchorMark] = ()
    """What anchors vouch for, in order."""
    flaws: Sequence[Flaw] = ()
    """Anchors that vouch for nothing."""
    snapshot: bytes = b""
    """A `Snapshot` that holds its state itself."""
    lost: Mapping[str, str] = {}
    """Artifacts that the log speaks of and that are not as they were stored: SHA-256 and what is wrong."""
    problems: Sequence[Problem] = ()
    """What was found wrong on the way, such as a damaged member of a bundle."""


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one conversation."""

    address: str
    ok: bool
    version: int
    head: str
    seq: int
    commits: int
    said: int
    artifacts: int
    anchors: int
    """Anchors that vouch for a head of it."""
    unanchored_messages: int
    """Envelopes that agents said and that neither a commit nor an anchor covers yet: their loss would not show."""
    unanchored_commits: int
    """Commits behind the newest anchor: changing one would show, cutting them off would not."""
    first: Problem | None
    problems: tuple[Problem, ...]
    erased: bool = False
    """Only the tombstone is left of it."""
    rules: dict[str, int] = {}
    """Commits by the version of the rules that decided them, up to the first that does not belong."""
    older_behind_newer: int = 0
    """Commits of older rules behind one of newer ones: two releases wrote at once, or somebody wrote them by hand."""
    repairs: tuple[Repair, ...] = ()
    """Places where it once was not as it was written; the log says so itself, for ever."""


def verify(evidence: Evidence) -> Verified:
    """Return the verdict on *evidence*."""
    at, records = evidence.at, evidence.records
    chain = walked(at, records)
    head = next(reversed(chain.at_seq.values()))
    erased = _tombstone(records)
    if erased is not None:
        anchored_seq, anchored = 0, _against_tombstone(erased, evidence.marks)
    else:
        anchored_seq, anchored = _against_anchors(at, evidence.marks, chain, records)
    sound = chain.problem is None and anchored is None
    found = [
        *([chain.problem] if chain.problem else []),
        *([anchored] if anchored else []),
        *(_behind(erased, records) if erased is not None and sound else []),
        *(_snapshot(at, evidence.snapshot, records) if sound and evidence.snapshot else []),
        *_artifacts(at, records, evidence.lost),
        *(Problem(what="anchor", where=f"anchor {flaw.anchor}", reason=flaw.reason) for flaw in evidence.flaws),
        *evidence.problems,
    ]
    covered = max([anchored_seq, *chain.covered.values()])
    return Verified(
        address=str(at),
        ok=not found,
        version=head.version,
        head=head.hash.hex(),
        seq=records[-1].seq if records else 0,
        commits=sum(record.side == "done" for record in records),
        said=sum(record.side == "said" for record in records),
        artifacts=len(mentioned(at, records)),
        anchors=len(evidence.marks),
        unanchored_messages=sum(record.side == "said" and record.seq > covered for record in records),
        unanchored_commits=sum(record.side == "done" and record.seq > anchored_seq for record in records),
        first=found[0] if found else None,
        problems=tuple(found),
        erased=erased is not None,
        rules=chain.rules,
        older_behind_newer=chain.older_behind_newer,
        repairs=repairs_in(records),
    )


def _tombstone(records: Sequence[Record]) -> codec.Commit | None:
    """Return the tombstone that the log begins with, if it was erased."""
    return codec.decode_commit(records[0].body) if records and is_erasure(records[0]) else None


def _against_tombstone(erased: codec.Commit, marks: Sequence[AnchorMark]) -> Problem | None:
    """Compare what anchors saw with what the tombstone follows; what lies before that is gone on purpose."""
    follows = {erased.version - 1: erased.prev_hash, erased.version: erased.hash}
    for mark in marks:
        if mark.head.version > erased.version or follows.get(mark.head.version, mark.head.hash) != mark.head.hash:
            reason = f"the tombstone does not follow what anchor {mark.anchor} saw"
            return at_place("rewritten", mark.head.version, 1, mark.head.seq, reason)
    return None


def _behind(erased: codec.Commit, records: Sequence[Record]) -> Iterable[Problem]:
    """Name what agents said behind the tombstone: nobody hears it, but it lies on the disk."""
    if len(records) > 1:
        count = len(records) - 1
        said = f"{count} envelope was" if count == 1 else f"{count} envelopes were"
        reason = f"behind its tombstone {said} said that nobody hears: erase again"
        yield at_place("messages", erased.version, records[1].seq, records[-1].seq, reason)


class Mention(msgspec.Struct, frozen=True, kw_only=True):
    """Where the log first speaks of an artifact."""

    version: int
    seq: int


def mentioned(at: Address, records: Iterable[Record]) -> dict[str, Mention]:
    """Return the artifacts that *records* rely on, without uploads that the log says never came."""
    found: dict[str, Mention] = {}
    claimed: dict[tuple[int, str], str] = {}
    number = version = 0
    writers = initial(codec.genesis(at))
    for record in records:
        try:
            if record.side == "done":
                commit = codec.decode_commit(record.body)
                version = commit.version
                for fact in commit.facts:
                    if isinstance(fact, ToolOutputSpilled):
                        found.setdefault(fact.sha256, Mention(version=version, seq=record.seq))
                    elif isinstance(fact, ToolOutputTrimmed) and fact.reason == MISSING_UPLOAD:
                        found.pop(claimed.get((fact.number, fact.pointer), ""), None)
                continue
            envelope = codec.decode_said(record.body)
        except BadEnvelope:
            continue
        heard = remember_writer(writers, envelope.writer, envelope.count)
        if heard is None:
            continue
        writers = heard
        for said in (fact for fact in envelope.facts if isinstance(fact, MessagesAppended)):
            for message in said.messages:
                number += 1
                if not all(claim.names_upload for claim in message.claims):
                    continue  # an agent may announce anything, and the message was refused
                for claim in message.claims:
                    claimed[number, claim.pointer] = claim.sha256
                    found.setdefault(claim.sha256, Mention(version=version, seq=record.seq))
    return found


def _against_anchors(
    at: Address, marks: Sequence[AnchorMark], chain: Chain, records: Sequence[Record]
) -> tuple[int, Problem | None]:
    """Return up to where anchors vouch for the log, and where it first is not what one of them saw.

    What lies behind the place where the chain breaks by itself is not looked at.
    """
    broken_seq = chain.problem.first_seq if chain.problem else None
    last_seq = records[-1].seq if records else 0
    before = list(earlier(at, records)) if marks else []
    repairs = repairs_in(records) if marks else ()
    sure, sure_seq = chain.at_seq[0], 0
    for mark in marks:
        imported = (heads[mark.head.seq] for heads in before if mark.head.seq in heads)
        if chain.at_seq.get(mark.head.seq) == mark.head:
            sure, sure_seq = mark.head, mark.head.seq
        elif here := next((seq for head, seq in imported if head == mark.head), 0):
            sure, sure_seq = chain.at_seq.get(here, sure), here
        elif any(repair.replaced(mark.head, anchor=mark.anchor) for repair in repairs):
            continue
        elif broken_seq is not None and mark.head.seq >= broken_seq:
            break
        else:
            # of an end that is gone, the newest anchor saw the most
            saw = mark if mark.head.seq <= last_seq else marks[-1]
            return sure_seq, _differs(saw, chain.at_seq.get(saw.head.seq), sure=sure, chain=chain, last_seq=last_seq)
    return sure_seq, None


def _differs(mark: AnchorMark, here: Head | None, *, sure: Head, chain: Chain, last_seq: int) -> Problem:
    """Say what happened between the head *sure* and the one that *mark* saw."""
    saw, number = mark.head, mark.anchor
    if last_seq == 0:
        return at_place("gone", 1, 1, saw.seq, f"nothing is left of it; anchor {number} saw version {saw.version}")
    if last_seq < saw.seq:
        left = chain.at_seq[last_seq]
        reason = f"the log ends at {last_seq} (version {left.version}); anchor {number} saw {saw.seq} ({saw.version})"
        return at_place("truncated", min(left.version + 1, max(saw.version, 1)), last_seq + 1, saw.seq, reason)
    if here is None:
        here = chain.at_seq[max(seq for seq in chain.at_seq if seq < saw.seq)]
    if here.version == saw.version and here.hash == saw.hash:
        if here.said_hash == saw.said_hash:
            reason = f"messages and commits are in another order than anchor {number} saw"
            return at_place("order", saw.version, sure.seq + 1, saw.seq, reason)
        # the commit vouches for the messages that it covers
        covered = chain.covered[max(seq for seq in chain.covered if seq <= saw.seq)]
        reason = f"the messages are not those that anchor {number} saw"
        return at_place("messages", saw.version, max(covered, sure.seq) + 1, saw.seq, reason)
    return at_place(
        "rewritten", sure.version + 1, sure.seq + 1, saw.seq, f"commits are not those that anchor {number} saw"
    )


def _snapshot(at: Address, body: bytes, records: Sequence[Record]) -> list[Problem]:
    """Compare a snapshot with the fold of the log; what is of another schema is never used and not judged."""
    try:
        if (state := opened(body)) is None:
            return []
    except UNREADABLE as error:
        return [Problem(what="snapshot", where="snapshot", reason=f"is not readable: {error}"[:200])]
    if not records or state.seq > records[-1].seq:
        left = records[-1].seq if records else 0
        reason = f"the log ends at {left}, the snapshot was taken at {state.seq}"
        return [at_place("truncated", state.version, left + 1, state.seq, reason)]
    try:
        again = folded(at, [record for record in records if record.seq <= state.seq])
    except JettisonError as error:
        return [Problem(what="snapshot", where="snapshot", version=state.version, reason=str(error))]
    if again != state:
        reason = f"is not what the log folds to at version {again.version}"
        return [Problem(what="snapshot", where="snapshot", version=again.version, last_seq=again.seq, reason=reason)]
    return []


def _artifacts(at: Address, records: Sequence[Record], lost: Mapping[str, str]) -> list[Problem]:
    if not lost:
        return []
    return [
        Problem(
            what="artifact",
            version=mention.version,
            first_seq=mention.seq,
            last_seq=mention.seq,
            where=f"artifact {sha256}",
            reason=lost[sha256],
        )
        for sha256, mention in mentioned(at, records).items()
        if sha256 in lost
    ]
