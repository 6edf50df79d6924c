"""Replay: the same bytes from the log alone, without a network, on any machine, from any store (promises 16, 35)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from actors.audit.replay import replay
from actors.core.flow import next_actor
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from actors.runtime.stepping import Effects
from protocol.client import Client
from protocol.facts import ContextServed, DoneFact
from protocol.ids import Address, address, fresh_id
from storage.memory import MemoryArtifacts, MemoryLog, MemorySnapshots
from storage.ports import Record
from tests.conftest import SAMPLE, done_facts, layer, settled
from tests.stack import ROOT

OFFLINE = """
import socket, sys

def refuse(*_):
    raise AssertionError("replay asked the network")

socket.socket.connect = socket.getaddrinfo = refuse
import msgspec
from actors.audit.replay import replay
from protocol.ids import address
from storage.ports import Record

with open(sys.argv[2], "rb") as file:
    records = [Record(**row) for row in msgspec.msgpack.decode(file.read())]
print(msgspec.json.encode(replay(address(sys.argv[1]), records)).decode())
"""

MACHINES = (
    {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C"},
    {"PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8"},
    {"PYTHONHASHSEED": "4242", "TZ": "America/St_Johns", "LANG": "tr_TR.UTF-8", "HOME": "/nonexistent"},
)


@pytest.mark.slow
async def test_replay_is_the_same_bytes_everywhere_and_asks_no_network(
    working: Runtime, client: Client, name: str, tmp_path: Path
) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append(SAMPLE)
    served = await talk.context(patience=180)
    live = await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)
    file = tmp_path / "records"
    file.write_bytes(msgspec.msgpack.encode([_row(record) for record in records]))

    async def elsewhere(machine: dict[str, str]) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", OFFLINE, name, str(file)),
            cwd=ROOT,
            env={**os.environ, **machine},
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.strip()

    wanted = replay(talk.at, records)
    assert (wanted.divergence, wanted.hash) == (None, live.hash.hex())
    assert wanted.view_hash == served.hash
    found = await asyncio.gather(*(elsewhere(machine) for machine in MACHINES))
    assert found == [msgspec.json.encode(wanted)] * len(MACHINES)


def _row(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in ("seq", "side", "body", "headers", "time")}


async def test_one_process_without_servers_decides_what_the_workers_decide(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append(SAMPLE)
    await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)

    at = address(f"alone-{fresh_id()}")
    log, artifacts = MemoryLog(), MemoryArtifacts()
    alone = Conversations(log=log, snapshots=MemorySnapshots(), writer="alone")
    for record in records:
        if record.side == "said":
            await log.say(at, record.body, message_id=fresh_id(), headers={})
    await _worked(alone, Effects(artifacts=artifacts, layers=working.effects.layers), at)
    assert _decided(await log.read(at, after=0)) == _decided(records)


async def _worked(conversations: Conversations, effects: Effects, at: Address) -> None:
    """Do what four workers do, one step after the other."""
    while (actor := next_actor(state := await conversations.load(at))) is not None:
        step = await effects.step(actor, at, state)
        assert await conversations.commit(at, state, step.facts, headers={}, adopt=step.adopt)


def _decided(records: Iterable[Record]) -> list[DoneFact]:
    return [fact for fact in done_facts(records) if not isinstance(fact, ContextServed)]
