"""Snapshots are readable with the key of their conversation alone, and a destroyed key ends them all."""

from __future__ import annotations

import os

import pytest
from nats.js.api import StreamConfig

from actors.bootstrap import Runtime
from protocol import subjects
from protocol.errors import NotProvisioned
from protocol.ids import Address, address, fresh_id
from storage.erasure import overwritten
from storage.jetstream import JetStreamSnapshots
from storage.keys import JetStreamKeys, SealedSnapshots
from storage.memory import MemoryArtifacts, MemoryKeys, MemorySnapshots
from storage.ports import Keys

SECRET = b"the user's own words " * 20


@pytest.fixture(params=["memory", "jetstream"])
def keys(request: pytest.FixtureRequest, running: Runtime) -> Keys:
    return MemoryKeys() if request.param == "memory" else JetStreamKeys(running.connection)


async def test_each_conversation_has_one_key_of_its_own(keys: Keys, at: Address) -> None:
    other = address(fresh_id())
    assert await keys.key(at) == await keys.key(at)
    assert len({await keys.key(at), await keys.key(other)}) == 2
    assert len(await keys.key(at)) == 32


async def test_two_processes_agree_on_a_key(running: Runtime, at: Address) -> None:
    first, second = JetStreamKeys(running.connection), JetStreamKeys(running.connection)
    late = JetStreamKeys(running.connection)
    assert await first.key(at) == await second.key(at)
    assert await late._made(at) == await first.key(at)


@pytest.mark.parametrize("size", [1, 400_000], ids=["inline", "artifact"])
async def test_what_is_kept_does_not_show_what_was_said(at: Address, size: int) -> None:
    state = SECRET + os.urandom(size)  # random: it is made smaller before it is sealed
    snapshots, artifacts = MemorySnapshots(), MemoryArtifacts()
    sealed = SealedSnapshots(snapshots, keys=MemoryKeys(), artifacts=artifacts)
    await sealed.put(at, state)
    assert await sealed.newest(at) == state
    kept = [await snapshots.newest(at) or b"", *artifacts._bodies.values()]
    assert len(kept) == (1 if size == 1 else 2)
    assert all(SECRET[:16] not in body for body in kept)
    assert (await sealed.artifact(at) != "") == (size > 1)


async def test_another_key_another_conversation_and_garbage_open_nothing(at: Address) -> None:
    snapshots, artifacts, keys = MemorySnapshots(), MemoryArtifacts(), MemoryKeys()
    sealed = SealedSnapshots(snapshots, keys=keys, artifacts=artifacts)
    await sealed.put(at, SECRET)
    stored = await snapshots.newest(at) or b""
    elsewhere = address(fresh_id())
    keys._keys[elsewhere] = await keys.key(at)
    await snapshots.put(elsewhere, stored)
    assert await sealed.newest(elsewhere) is None
    assert await SealedSnapshots(snapshots, keys=MemoryKeys(), artifacts=artifacts).newest(at) is None
    for body in (b"", b"garbage", stored[:-1], stored[:9], b"\x92\xc4\x00\xa0"):
        await snapshots.put(at, body)
        assert await sealed.newest(at) is None


async def test_a_destroyed_key_is_gone_and_the_next_one_is_another(running: Runtime, at: Address) -> None:
    before = await JetStreamKeys(running.connection).key(at)
    sealed = SealedSnapshots(
        JetStreamSnapshots(running.connection), keys=JetStreamKeys(running.connection), artifacts=running.artifacts
    )
    await sealed.put(at, SECRET)
    stream, subject = subjects.SNAPSHOT_STREAM, subjects.key(at)
    assert await overwritten(running.connection, stream=stream, subject=subject) == 1
    assert await overwritten(running.connection, stream=stream, subject=subject) == 0
    fresh = JetStreamKeys(running.connection)
    assert await fresh.key(at) != before
    again = SealedSnapshots(JetStreamSnapshots(running.connection), keys=fresh, artifacts=running.artifacts)
    assert await again.newest(at) is None


async def test_a_stream_that_forbids_erasing_is_named(running: Runtime) -> None:
    jetstream = running.connection.jetstream()
    name = f"FORBIDS-{fresh_id()[:8]}"
    await jetstream.add_stream(StreamConfig(name=name, subjects=[f"forbids.{name}"], deny_delete=True))
    try:
        await jetstream.publish(f"forbids.{name}", b"x")
        with pytest.raises(NotProvisioned, match="forbids to delete"):
            await overwritten(running.connection, stream=name, subject=f"forbids.{name}")
    finally:
        await jetstream.delete_stream(name)
