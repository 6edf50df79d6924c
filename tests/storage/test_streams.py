"""Provisioning: running it again changes nothing, and what is not as designed is named."""

import pytest
from nats.js.api import StoreCompression

from actors.host.bootstrap import Runtime
from protocol import subjects
from protocol.subjects import ACTORS
from storage.streams import drift, provision, streams


async def test_provisioning_again_changes_nothing(running: Runtime) -> None:
    jetstream = running.connection.jetstream()

    async def configs() -> list[object]:
        found: list[object] = [(await jetstream.stream_info(one.name or "")).config for one in streams()]
        for actor in ACTORS:
            found.append((await jetstream.consumer_info(subjects.WAKE_STREAM, subjects.durable(actor))).config)
        return found

    before = await configs()
    await provision(running.connection)
    await provision(running.connection)
    assert await configs() == before


async def test_a_provisioned_server_is_as_designed(running: Runtime) -> None:
    await provision(running.connection)
    assert await drift(running.connection) == []


@pytest.mark.parametrize("wrong", [64 * 1024 * 1024, 0])
async def test_a_changed_setting_is_named(running: Runtime, wrong: int) -> None:
    jetstream = running.connection.jetstream()
    (wanted,) = (one for one in streams() if one.name == subjects.SNAPSHOT_STREAM)
    changed = wanted.evolve(max_msgs_per_subject=7, max_bytes=wrong or -1)
    await jetstream.update_stream(changed)
    try:
        (found,) = [one for one in await drift(running.connection) if one.setting == "max_msgs_per_subject"]
        assert (found.name, found.wanted, found.found) == (subjects.SNAPSHOT_STREAM, "2", "7")
    finally:
        await provision(running.connection)
    assert await drift(running.connection) == []


async def test_a_log_that_an_earlier_version_had_compressed_is_compressed_no_more(running: Runtime) -> None:
    jetstream = running.connection.jetstream()
    (wanted,) = (one for one in streams() if one.name == subjects.LOG_STREAM)
    await jetstream.update_stream(wanted.evolve(compression=StoreCompression.S2))
    try:
        (found,) = await drift(running.connection)
        assert (found.setting, found.wanted, found.found) == ("compression", "none", "s2")
    finally:
        await provision(running.connection)
    assert await drift(running.connection) == []


async def test_a_missing_consumer_is_named(running: Runtime) -> None:
    await running.connection.jetstream().delete_consumer(subjects.WAKE_STREAM, subjects.durable("cut"))
    try:
        (found,) = await drift(running.connection)
        assert (found.name, found.found) == (f"{subjects.WAKE_STREAM}/{subjects.durable('cut')}", "missing")
    finally:
        await provision(running.connection)
    assert await drift(running.connection) == []


async def test_a_changed_consumer_is_named_and_repaired(running: Runtime) -> None:
    from storage.streams import consumer

    jetstream = running.connection.jetstream()
    await jetstream.add_consumer(subjects.WAKE_STREAM, consumer("cut").evolve(max_ack_pending=3))
    try:
        (found,) = await drift(running.connection)
        assert (found.setting, found.wanted, found.found) == ("max_ack_pending", "20000", "3")
    finally:
        await provision(running.connection)
    assert await drift(running.connection) == []
