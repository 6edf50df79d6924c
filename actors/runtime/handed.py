"""Handed: the snapshot that one actor hands to the next, by reference, and what the receiver makes of it.

Who receives reads its log to the end anyhow. What it was handed must lie on that way: a version that the log does not
have, or has with another hash, says that two logs were written under one name, or that one has lost its end.
"""

from __future__ import annotations

import msgspec

from actors.core.state import State
from protocol import codec
from protocol.errors import UNREADABLE, BadEnvelope, ChainBroken, JettisonError, LogRegression
from protocol.ids import Address
from storage.ports import EventLog, Record


class Handed(msgspec.Struct, frozen=True, kw_only=True):
    """A state's place in its log, and what is to be done there."""

    version: int = 0
    hash: str = ""
    seq: int = 0
    """Of its newest commit; 0: who handed it over did not say."""
    stage: str = ""
    boundary: int = 0
    tokens: int = 0


def handed(state: State) -> bytes:
    """Return the body of a wake-up: the state's place in the log, not its content."""
    return msgspec.json.encode(
        Handed(
            version=state.version,
            hash=state.hash.hex(),
            seq=state.position.done_seq,
            stage=state.episode.stage if state.episode else "",
            boundary=state.episode.boundary if state.episode else 0,
            tokens=state.live_tokens,
        )
    )


def given(body: bytes) -> Handed | None:
    """Return what a wake-up hands over; None where it hands over nothing: an agent's message, a sweep."""
    try:
        found = msgspec.json.decode(body, type=Handed) if body else None
    except UNREADABLE:
        return None
    return found if found is not None and found.version > 0 and found.hash else None


async def check(log: EventLog, at: Address, state: State, what: Handed) -> None:
    """Hold *what* against *state*, which is read to the end of *log*.

    Raises `LogRegression` for a version that the log does not have, `ChainBroken` for one that it has otherwise.
    """
    if state.erased or (what.version == state.version and what.hash == state.hash.hex()):
        return
    if what.seq > 0 and what.version < state.version:
        records = await log.read(at, after=what.seq - 1)
        if records and records[0].seq == what.seq and _is(records[0], what):
            return
    # a log that was repaired, or written anew from a bundle, has other sequences, and may be shorter
    records = await log.read(at, after=0)
    if any(b"ConversationRepaired" in record.body or _is(record, what) for record in records if record.side == "done"):
        return
    raise _doubt(at, state, what)


def _doubt(at: Address, state: State, what: Handed) -> JettisonError:
    told = f"a wake-up of {at} hands over version {what.version} ({what.hash[:16]})"
    if what.version > state.version:
        return LogRegression(
            f"{told}, and the log ends at {state.version}: it has lost its end; writing stops",
            address=str(at),
            handed_version=what.version,
            version=state.version,
        )
    return ChainBroken(
        f"{told}, and the log has another one with that number; writing stops",
        address=str(at),
        handed_version=what.version,
        version=state.version,
    )


def _is(record: Record, what: Handed) -> bool:
    if record.side != "done":
        return False
    try:
        commit = codec.decode_commit(record.body)
    except BadEnvelope:
        return False
    return (commit.version, commit.hash.hex()) == (what.version, what.hash)
