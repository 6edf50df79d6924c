"""Stuck slots: a slot that was done and is filled for ever, since a killed server kept its message."""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import cast

from nats.aio.client import Client as NatsConnection

from actors.host.bootstrap import runtime
from actors.host.settings import Settings
from actors.services.sweeper import Swept
from protocol import subjects
from protocol.ids import Address, address, fresh_id
from protocol.subjects import Actor, Lane
from storage.stuck_slots import JetStreamStuckSlots
from storage.wakes import JetStreamSlot, JetStreamWakes
from storage.work_ports import Slot
from tests.promises.harness import Server, at_server, connected, one, said_body

AT, OTHER = address("haunted"), address("other")


async def worked_off(
    connection: NatsConnection, at: Address, lane: Lane = "normal", *, actor: Actor = "digest"
) -> None:
    """Take the slot of *at*, which is the only one, and end it."""
    slots = cast("AsyncGenerator[Slot, None]", JetStreamWakes(connection).slots(actor, credits=1, lane=lane))
    async with asyncio.timeout(180), aclosing(slots):
        slot = await anext(slots)
        assert slot.at == at
        # `done` waits two seconds, and a worker takes the slot again; a busy machine's disk may take longer
        await cast(JetStreamSlot, slot).message.ack_sync(timeout=180)


def ended(server: Server) -> Path:
    """End *server* so that all that it knows is on the disk; return where the messages of the work queue are."""
    assert server.process is not None
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(timeout=180)
    return server.store / "jetstream" / "$G" / "streams" / subjects.WAKE_STREAM / "msgs"


async def haunted(server: Server, folder: Path, *, lanes: Sequence[Lane], actor: Actor) -> NatsConnection:
    """Have the slots of *lanes* done, and the server lose that it dropped them, as one that is killed then may."""
    shutil.copytree(ended(server), folder / "kept")
    server.start()
    between = await connected(server.url)
    for lane in lanes:
        await worked_off(between, AT, lane, actor=actor)
    await between.close()
    shutil.rmtree(stored := ended(server))
    shutil.copytree(folder / "kept", stored)
    server.start()
    return await connected(server.url)


async def test_a_slot_that_was_done_and_kept_is_freed_and_what_waits_is_not(tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        before = await connected(server.url)
        for lane in subjects.LANES:
            await JetStreamWakes(before).wake("digest", AT, headers={}, lane=lane)
        await before.close()
        connection = await haunted(server, tmp_path, lanes=subjects.LANES, actor="digest")
        wakes, stuck = JetStreamWakes(connection), JetStreamStuckSlots(connection)
        assert await wakes.wake("digest", AT, headers={}) is False, "nobody can fill it"
        assert await wakes.wake("digest", OTHER, headers={}) is True
        await worked_off(connection, OTHER)
        # after a look at nothing but stuck, another one waits for its worker
        assert await wakes.wake("digest", OTHER, headers={}) is True
        assert await stuck.free() == 2
        assert await stuck.free() == 0
        for lane in subjects.LANES:
            assert await wakes.wake("digest", AT, headers={}, lane=lane) is True
        await worked_off(connection, OTHER)
        await worked_off(connection, AT)
        await worked_off(connection, AT, "priority")
        await connection.close()


async def test_a_sweep_frees_the_slot_of_a_conversation_that_waits_and_wakes_it(
    tmp_path: Path, settings: Settings
) -> None:
    async with one(tmp_path) as server:
        ours = at_server(settings, server.url)
        async with runtime(ours, role="test") as before:
            await before.log.say(AT, said_body("hello"), message_id=fresh_id(), headers={})
            assert await before.wakes.wake("spill", AT, headers={}) in (True, False), "now it is filled, by whom ever"
        await (await haunted(server, tmp_path, lanes=("normal",), actor="spill")).close()
        async with runtime(ours, role="test") as after:
            assert await after.wakes.wake("spill", AT, headers={}) is False, "nobody can be told"
            assert await after.sweeper().sweep(everything=True) == Swept(looked_at=1, open=1, woken=1, freed=1)
            await worked_off(after.connection, AT, actor="spill")
