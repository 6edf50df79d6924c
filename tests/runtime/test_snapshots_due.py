"""Snapshots that are written beside the work: bounded, in order, and never silent about a fault."""

from __future__ import annotations

import asyncio
import logging

import pytest
from msgspec.structs import replace

from actors.core.state import State, initial
from actors.runtime import snapshots_due
from actors.runtime.kept_states import KeptStates
from actors.runtime.snapshots_due import AT_ONCE_MAX, SnapshotsDue
from protocol import codec
from protocol.ids import Address, address
from protocol.limits import SNAPSHOT_BYTES
from storage.memory import MemoryLog, MemorySnapshots


class Store(MemorySnapshots):
    """Takes nothing before it is let."""

    def __init__(self, fault: Exception | None = None) -> None:
        super().__init__()
        self.begun: list[Address] = []
        self.ended = 0
        self.let = asyncio.Event()
        self.fault = fault

    async def put(self, at: Address, body: bytes) -> None:
        self.begun.append(at)
        try:
            await self.let.wait()
            if self.fault:
                raise self.fault
        finally:
            self.ended += 1


def due_in(store: Store, *, erased: bool = False) -> SnapshotsDue:
    async def load(at: Address) -> State:
        return replace(initial(codec.genesis(at)), erased=erased)

    return SnapshotsDue(kept=KeptStates(log=MemoryLog(), snapshots=store), load=load)


async def committed(due: SnapshotsDue, at: Address) -> None:
    """Say that a snapshot of *at* is due, and let it begin."""
    commit = codec.Commit(
        version=1,
        commit_id="c",
        writer="w",
        upto=0,
        prev_hash=b"",
        said_hash=b"",
        policy_hash="",
        rules_version="",
        tokenizer="",
        facts=(),
    )
    due.committed(at, initial(codec.genesis(at)), commit, size_bytes=SNAPSHOT_BYTES)
    for _ in range(3):
        await asyncio.sleep(0)


async def test_of_a_slow_store_one_snapshot_of_each_conversation_waits_and_few_of_all() -> None:
    store = Store()
    due = due_in(store)
    talks = [address(f"talk-{number}") for number in range(2 * AT_ONCE_MAX)]
    for at in (talks[0], *talks):
        await committed(due, at)
    assert store.begun == talks[:AT_ONCE_MAX]
    store.let.set()
    await due.finished()
    await committed(due, talks[0])
    assert store.begun == [*talks[:AT_ONCE_MAX], talks[0]]


async def test_nothing_is_put_behind_an_erasure() -> None:
    store = Store()
    due = due_in(store, erased=True)
    await committed(due, address("talk"))
    store.let.set()
    await due.finished()
    assert store.begun == []


async def test_a_fault_is_told_with_its_trace(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(RuntimeError("of nobody's making"))
    due = due_in(store)
    store.let.set()
    with caplog.at_level(logging.ERROR, logger="jettison.conversations"):
        await committed(due, address("talk"))
        await due.finished()
        await asyncio.sleep(0)
    assert [
        record.exc_info and record.exc_info[1] for record in caplog.records if record.name == "jettison.conversations"
    ] == [store.fault]


async def test_what_is_late_at_the_end_has_ended_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots_due, "LAST_SNAPSHOTS_SECONDS", 0.0)
    store = Store()
    due = due_in(store)
    await committed(due, address("talk"))
    await due.finished()
    assert store.ended == 1
