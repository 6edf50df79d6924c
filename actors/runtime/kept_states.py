"""Kept states: a folded state is kept in a snapshot to save time; one that is not of this log is never taken."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from actors.core.state import State, initial
from protocol import codec
from protocol.errors import UNREADABLE, BadEnvelope, ChainBroken, LogMoved, LogRegression, UnknownRules
from protocol.ids import Address
from storage.ports import EventLog, Record, Snapshots
from storage.tombstones import is_erasure

log = logging.getLogger("jettison.conversations")

STATE_SCHEMA = 13
"""Raised whenever `State` changes its meaning or its shape, be it the name of one field: older snapshots are then
ignored and the log is folded. A test holds the shape to this number."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A state as it is kept."""

    schema: int
    state: bytes


# Made at import: msgspec 0.22 looks a type over at its first use, and a second thread that comes meanwhile reads what
# is half done: a wrong "not readable", or a crash. So each type that threads decode has its decoder beside it.
_SNAPSHOT, _STATE = msgspec.msgpack.Decoder(Snapshot), msgspec.msgpack.Decoder(State)


def opened(body: bytes) -> State | None:
    """Return the state in a snapshot; None where it is of another schema. Raises one of `UNREADABLE` where damaged."""
    snapshot = _SNAPSHOT.decode(body)
    return _STATE.decode(snapshot.state) if snapshot.schema == STATE_SCHEMA else None


class KeptState(NamedTuple):
    """A state, the time of its newest record, and what its log has behind it; None: nobody looked."""

    state: State
    time: str = ""
    behind: list[Record] | None = None


@dataclass(frozen=True, kw_only=True)
class KeptStates:
    """The snapshots of all conversations, each checked against its log."""

    log: EventLog
    snapshots: Snapshots

    async def newest(self, at: Address) -> KeptState:
        """Return the newest state that is kept of *at*, else the first of all. Raises as `Conversations.load`."""
        start = KeptState(initial(codec.genesis(at)))
        body = await self.snapshots.newest(at)
        if body is None:
            return start
        state = self._opened(at, body)
        if state is None:
            return start
        try:
            newest = await self.log.read(at, after=state.position.done_seq - 1)
        except LogMoved:
            return start  # a state of before it moved, which may be in this moment
        except LogRegression as error:
            raise _ahead(at, state, error.fields.get("head", 0)) from None
        if not newest or newest[-1].seq < state.seq:
            raise _ahead(at, state, newest[-1].seq if newest else state.position.done_seq - 1)
        if is_erasure(newest[-1]):
            return start  # a snapshot that was written while the conversation was erased
        commit = _commit_of(newest[0])
        if commit is None or commit.hash != state.hash:
            raise ChainBroken(f"the snapshot of {at} is not of this log", address=str(at), version=state.version)
        heard = [record for record in newest if record.seq <= state.seq]
        if _said_hash(commit, heard) != state.position.said_hash:
            # most often a commit did not see a message before it; or the log lost messages, and goes on with others
            log.info("the newest messages of a snapshot of %s are not sure; folding the log", at)
            return start
        return KeptState(state, time=heard[-1].time, behind=newest[len(heard) :])

    def _opened(self, at: Address, body: bytes) -> State | None:
        """Return the state in a snapshot; None where it is of another schema or damaged."""
        try:
            return opened(body)
        except UNREADABLE as error:
            log.warning("a snapshot of %s is not readable (%s); folding the log", at, type(error).__name__)
            return None

    async def keep(self, at: Address, state: State) -> None:
        """Keep *state*; it saves time only, and the commit before it has landed."""
        try:
            raw = msgspec.msgpack.encode(state)
        except OverflowError as error:
            # what somebody said adds up to more than 64 bits; the log is folded instead
            return log.warning("no snapshot of %s is kept: %s", at, error)
        await self.snapshots.put(at, msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA, state=raw)))


def _ahead(at: Address, state: State, head: object) -> LogRegression:
    return LogRegression(
        f"the snapshot of {at} is ahead of the log: {state.seq} after {head}; writing stops",
        address=str(at),
        snapshot_seq=state.seq,
        head_seq=head,
    )


def _said_hash(commit: codec.Commit, behind: Sequence[Record]) -> bytes:
    """Return the hash of all that was said up to the last of the records *behind* that *commit*."""
    said_hash = commit.said_hash
    for record in behind:
        if record.side == "said":
            said_hash = codec.roll(said_hash, record.body)
    return said_hash


def _commit_of(record: Record) -> codec.Commit | None:
    """Return the commit in *record*; a log that lost its end may hold anything there."""
    try:
        return codec.decode_commit(record.body) if record.side == "done" else None
    except UnknownRules:
        raise  # sound, and to be read by a newer release
    except BadEnvelope:
        return None
