"""One recorded conversation with its artifacts and anchors, and every single fault that can be done to it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random

import msgspec

from actors.audit import anchors
from actors.audit.anchors import Book
from actors.audit.bundle import Bundle
from actors.audit.heads import Head, moved, start
from actors.audit.verify import Evidence, mentioned
from actors.core.apply_said import apply_said
from actors.core.state import State
from protocol import codec
from protocol.facts import ContextServed
from protocol.ids import Address, address
from storage.ports import Record
from tests.builders import COUNT, Talk, policy, sample, user

AT = address("recorded", "tests")
SEQ_STEP = 10
"""Other conversations stand between: an inserted record finds room, and a dropped one leaves no telling gap."""

MESSAGES = 90
ANCHOR_EVERY = 12
"""Records between two anchors."""


class SparseTalk(Talk):
    """A `Talk` in a stream that others use too."""

    def hear(self, body: bytes) -> None:
        seq = self.state.seq + SEQ_STEP
        self.records.append(Record(seq=seq, side="said", body=body))
        self.state = apply_said(self.state, body, seq=seq, count=COUNT)

    def land(self, commit: codec.Commit) -> None:
        super().land(commit)
        dense = self.records[-1]
        seq = (dense.seq // SEQ_STEP + 1) * SEQ_STEP
        self.records[-1] = replace(dense, seq=seq)
        position = msgspec.structs.replace(self.state.position, seq=seq, done_seq=seq)
        self.state = msgspec.structs.replace(self.state, position=position)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is left of a conversation, as a thief of the disks would hold it."""

    records: tuple[Record, ...]
    artifacts: Mapping[str, bytes]
    anchors: Mapping[int, bytes]
    state: State = field(compare=False)

    @property
    def book(self) -> Book:
        return anchors.read(AT.tenant, self.anchors)

    def evidence(self) -> Evidence:
        """Return what a live check would gather of it."""
        book = self.book
        lost = {
            sha256: "is not as it was stored"
            for sha256 in mentioned(AT, self.records)
            if hashlib.sha256(self.artifacts.get(sha256, b"?")).hexdigest() != sha256
        }
        return Evidence(at=AT, records=self.records, marks=book.marks(AT.conversation), flaws=book.flaws, lost=lost)

    def bundle(self) -> Bundle:
        return Bundle(
            at=AT,
            records=self.records,
            artifacts=dict(self.artifacts),
            proofs=self.book.proofs(AT.conversation),
        )


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One change, and where it was made."""

    name: str
    case: Case
    seqs: frozenset[int] = frozenset()
    where: frozenset[str] = frozenset()


@cache
def recorded() -> Case:
    """Play the sample, with messages that land while an actor decides, served views, and a tail without a commit."""
    talk = SparseTalk(policy(6000), at=AT)
    said = sample()[:MESSAGES]
    for index, message in enumerate(said[:-4]):
        talk.append(message)
        racing = talk.decided() if index % 9 == 3 else None
        if racing is not None:
            talk.append(user(f"by the way {index}"))
            talk.land(racing)
        talk.settle()
        if index % 7 == 6:
            seen = talk.view()
            served = ContextServed(
                upto=seen.upto,
                budget=6000,
                profile=seen.profile,
                view_hash=seen.hash,
                tokens=seen.tokens,
                level=seen.level,
            )
            talk.land(talk.sealed((served,)))
    for message in said[-4:]:
        talk.append(message)
    return Case(
        records=tuple(talk.records),
        artifacts={sha256: talk.bodies[sha256] for sha256 in mentioned(AT, talk.records)},
        anchors=anchored(talk.records),
        state=talk.state,
    )


def anchored(records: Sequence[Record], *, at: Address = AT) -> dict[int, bytes]:
    """Return the anchors that were written while *records* came in, other conversations beside them."""
    book, head, out = Book(tenant=at.tenant), start(at), {}
    for count, record in enumerate(records, 1):
        head = moved(head, record)
        if count % ANCHOR_EVERY and count < len(records):
            continue
        anchor = anchors.follow(book, [head, *_others(count)], time=f"2026-01-01T00:{count // 60:02}:{count % 60:02}Z")
        out[anchor.seal.number] = anchors.encode(anchor)
        book = anchors.extended(book, anchor)
    return out


def _others(count: int) -> list[Head]:
    """Return heads of conversations beside ours, each of which moves now and then."""
    made = [
        Head(
            conversation=name,
            version=count,
            hash=hashlib.sha256(f"{name}{count}".encode()).digest(),
            said_hash=b"s" * 32,
            log_hash=b"l" * 32,
            seq=count,
        )
        for name in ("aaa", "recorded-not", "zzz")
    ]
    return made[: 1 + count // ANCHOR_EVERY % 3]


def log_fault(case: Case, random: Random) -> Fault | None:
    """Return one fault in said messages or commits; none where it would change nothing.

    What is put behind the last record is no fault: anybody may go on from there.
    """
    records = list(case.records)
    index, other = random.randrange(len(records)), random.randrange(len(records))
    one = records[index]
    name = random.choice(
        ("flip", "drop", "swap", "neighbours", "insert", "forge", "truncate", "cut", "duplicate", "side")
    )
    seqs = {one.seq}
    if name == "flip":
        records[index] = replace(one, body=flipped(one.body, random))
    elif name == "drop":
        del records[index]
    elif name in ("swap", "neighbours"):
        other = other if name == "swap" else min(index + 1, len(records) - 1)
        two = records[other]
        seqs.add(two.seq)
        records[index] = replace(one, side=two.side, body=two.body)
        records[other] = replace(two, side=one.side, body=one.body)
    elif name in ("insert", "duplicate"):
        # a copy from elsewhere, or right behind the original
        copy = records[other] if name == "insert" else one
        seqs = {one.seq + random.randrange(1, SEQ_STEP)}
        records.insert(index + 1, replace(copy, seq=min(seqs)))
    elif name == "forge":
        body = codec.encode_said(codec.Said(writer="mallory", count=1, facts=()))
        seqs = {one.seq + 1}
        records.insert(index + 1, Record(seq=one.seq + 1, side="said", body=body))
    elif name == "truncate":
        records[index] = replace(one, body=one.body[: random.randrange(len(one.body))])
    elif name == "side":
        records[index] = replace(one, side="done" if one.side == "said" else "said")
    else:
        seqs = {record.seq for record in records[index:]}
        del records[index:]
    changed = replace(case, records=tuple(records))
    return (
        None
        if changed.records[: len(case.records)] == case.records
        else Fault(name=f"log {name}", case=changed, seqs=frozenset(seqs))
    )


def artifact_fault(case: Case, random: Random) -> Fault | None:
    """Return one fault in an artifact."""
    keys = sorted(case.artifacts)
    key, other = random.choice(keys), random.choice(keys)
    bodies, where = dict(case.artifacts), {key}
    name = random.choice(("flip", "drop", "swap", "truncate", "insert"))
    if name == "flip":
        bodies[key] = flipped(bodies[key], random)
    elif name == "drop":
        del bodies[key]
    elif name == "swap":
        bodies[key], bodies[other] = bodies[other], bodies[key]
        where.add(other)
    elif name == "truncate":
        bodies[key] = bodies[key][: random.randrange(len(bodies[key]))]
    else:
        at = random.randrange(len(bodies[key]) + 1)
        bodies[key] = bodies[key][:at] + random.randbytes(3) + bodies[key][at:]
    changed = replace(case, artifacts=bodies)
    places = frozenset(f"artifact {one}" for one in where)
    return None if changed == case else Fault(name=f"artifact {name}", case=changed, where=places)


def anchor_fault(case: Case, random: Random) -> Fault | None:
    """Return one fault in an anchor; the loss of the newest shows in a bundle alone."""
    numbers = sorted(case.anchors)
    number, other = random.choice(numbers), random.choice(numbers)
    bodies, where = dict(case.anchors), {number}
    name = random.choice(("flip", "drop", "swap", "truncate", "duplicate"))
    if name == "flip":
        bodies[number] = flipped(bodies[number], random)
    elif name == "drop":
        if number == numbers[-1]:
            return None
        del bodies[number]
        # the first to miss it says so
        where = {number, number + 1} if number == numbers[0] else {number}
    elif name == "swap":
        bodies[number], bodies[other] = bodies[other], bodies[number]
        where.add(other)
    elif name == "truncate":
        bodies[number] = bodies[number][: random.randrange(len(bodies[number]))]
    else:
        where = {numbers[-1] + 1}
        bodies[numbers[-1] + 1] = bodies[number]
    changed = replace(case, anchors=bodies)
    places = frozenset(f"anchor {one}" for one in where)
    return None if changed == case else Fault(name=f"anchor {name}", case=changed, where=places)


FAULTS: tuple[Callable[[Case, Random], Fault | None], ...] = (
    log_fault,
    log_fault,
    log_fault,
    artifact_fault,
    anchor_fault,
)


def fault(random: Random) -> Fault:
    """Return one fault of any kind that changes something."""
    while (made := random.choice(FAULTS)(recorded(), random)) is None:
        pass
    return made


def flipped(body: bytes, random: Random) -> bytes:
    """Return *body* with one bit turned."""
    at = random.randrange(len(body) * 8)
    changed = bytearray(body)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def resealed(records: Sequence[Record], index: int, change: Callable[[codec.Commit], codec.Commit]) -> list[Record]:
    """Return *records* with one commit changed and every later one sealed anew, as somebody with all keys would."""
    out = list(records)
    prev = b""
    for position in range(index, len(out)):
        if out[position].side == "said":
            continue
        commit = codec.decode_commit(out[position].body)
        commit = change(commit) if position == index else msgspec.structs.replace(commit, prev_hash=prev)
        sealed = codec.seal(commit)
        prev = sealed.hash
        out[position] = replace(out[position], body=codec.encode_commit(sealed))
    return out
