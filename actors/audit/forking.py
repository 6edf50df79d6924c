"""Forking: begin a conversation as a copy of another one at a version.

The hashes cover the address, so every commit is sealed anew; what was said is copied byte for byte. The copy needs
nothing of its parent: it is replayed, verified, exported and erased by itself. Artifacts belong to the tenant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from actors.core.seal import step_name
from actors.runtime.conversations import Conversations
from actors.runtime.copied import COPIED_HEADER
from actors.runtime.fold import Decision, check_place, check_said, decisions, version_of
from protocol import codec
from protocol.errors import NotFound, Rejected
from protocol.facts import ConversationForked
from protocol.ids import Address, address
from protocol.service_messages import ForkAsked, Forked
from storage.ports import Artifacts, EventLog, Record

from .bundle import Bundle
from .heads import ORIGIN_HEADER
from .importing import imported
from .trail import trail


class Forking(msgspec.Struct, frozen=True, kw_only=True):
    """Who makes forks, in a stack whose actors work meanwhile."""

    conversations: Conversations
    log: EventLog
    artifacts: Artifacts

    async def fork(self, at: Address, asked: ForkAsked, *, to: Address | None = None) -> Forked:
        """Begin the conversation that *asked* names, or *to*, with the history of *at*. Again it writes nothing.

        Raises `NotFound`, `Erased`, `Rejected` where another history stands there, `BadId`, `Unavailable`.
        """
        check_place(version=asked.version, upto=asked.upto)
        to = to or Address(tenant=at.tenant, conversation=address(asked.name).conversation)
        state = await self.conversations.living(at)
        if not state.version:
            raise NotFound(f"there is no version of {at}", address=str(at))
        check_said(at, state, upto=asked.upto)
        records = await self.log.read(at, after=0)
        found, copies = await asyncio.to_thread(_copied, at, records, asked, to)
        bundle = Bundle(at=to, records=copies)
        written = await imported(bundle, log=self.log, artifacts=self.artifacts, taken="choose another name")
        if written.records:
            await self.conversations.renew(to)
        return Forked(
            address=str(to),
            parent=str(at),
            version=found.commit.version,
            records=written.records,
            upto=found.before.messages,
        )


def _copied(
    at: Address, records: Sequence[Record], asked: ForkAsked, to: Address
) -> tuple[Decision, tuple[Record, ...]]:
    found = version_of(at, decisions(at, records), version=asked.version, upto=asked.upto)
    return found, forked(at, records, version=found.commit.version, new=to, name=asked.name)


def forked(at: Address, records: Sequence[Record], *, version: int, new: Address, name: str) -> tuple[Record, ...]:
    """Return the log with which *new*, called *name*, begins: that of *at* up to *version*, and where it is from.

    Raises `Rejected` for another tenant, `NotFound` if *at* has no such version.
    """
    if new.tenant != at.tenant:
        raise Rejected(f"a fork stays with its tenant: {new} is not of {at.tenant}", address=str(new))
    if new == at:
        raise Rejected(f"{at} cannot be a fork of itself", address=str(at))
    copies: list[Record] = []
    sequences = {0: 0}
    hash_ = said_hash = codec.genesis(new)
    waiting = [record for record in records if record.side == "said"]
    decision: Decision | None = None
    for decision in trail(at, records, upto=version):
        seen = decision.before.position.said_seq
        for record in _taken(waiting, seen):
            copies.append(_placed(record, len(copies) + 1, record.body))
            sequences[record.seq] = len(copies)
            said_hash = codec.roll(said_hash, record.body)
        commit = _sealed(decision.commit, prev_hash=hash_, said_hash=said_hash, upto=sequences[seen])
        hash_ = commit.hash
        copies.append(_placed(decision.record, len(copies) + 1, codec.encode_commit(commit)))
    assert decision is not None, "trail refuses what has no version"
    marker = ConversationForked(name=name, parent=str(at), version=version, hash=decision.commit.hash)
    last = msgspec.structs.replace(
        decision.commit, version=version + 1, facts=(marker,), policy=b"", writer="fork", hash=b""
    )
    commit = _sealed(last, prev_hash=hash_, said_hash=said_hash, upto=sequences[decision.before.position.said_seq])
    copies.append(Record(seq=len(copies) + 1, side="done", body=codec.encode_commit(commit)))
    first = copies[0]
    # nobody works on it before all of it is there
    first = replace(first, headers={**first.headers, COPIED_HEADER: str(len(copies))})
    return (first, *copies[1:])


def _taken(waiting: list[Record], upto: int) -> Iterable[Record]:
    """Take from *waiting* what was said up to the sequence *upto*."""
    while waiting and waiting[0].seq <= upto:
        yield waiting.pop(0)


def _sealed(commit: codec.Commit, *, prev_hash: bytes, said_hash: bytes, upto: int) -> codec.Commit:
    return codec.seal(
        msgspec.structs.replace(
            commit,
            commit_id=codec.commit_id(prev_hash=prev_hash, step=step_name(commit.facts)),
            prev_hash=prev_hash,
            said_hash=said_hash,
            upto=upto,
        )
    )


def _placed(record: Record, seq: int, body: bytes) -> Record:
    """Return *record* as the one at *seq* of a log that was in no stack before."""
    headers = {name: text for name, text in record.headers.items() if name not in (ORIGIN_HEADER, COPIED_HEADER)}
    return Record(seq=seq, side=record.side, body=body, headers=headers, time=record.time)
