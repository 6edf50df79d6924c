"""Audit: compare one conversation at its end with its log, in a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from actors.core.flow import next_actor
from actors.core.state import State
from actors.host.bootstrap import Runtime
from protocol.errors import NotReady
from protocol.formats import messages
from protocol.ids import Address
from storage.ports import Record
from tests.programs.chaos.agent import Ended
from tests.programs.chaos.checks import Audit, Json, audit
from tests.said import said_messages

SETTLE_POLLS = 400
POLL_SECONDS = 0.1


async def audited(running: Runtime, ended: Ended, pool: ProcessPoolExecutor) -> Audit:
    """Judge a conversation at its end. Raises `NotReady` while somebody works on it."""
    live = await _settled(running, ended.at)
    records = await running.log.read(ended.at, after=0)
    if records[-1].seq != live.seq:
        # a service that was stopped for long has just recorded what it served, to an agent that asked elsewhere since
        raise NotReady(f"{ended.at} went on from {live.seq} to {records[-1].seq}")
    said: list[Json] = []
    for one in await said_messages(ended.at, log=running.log):
        message = messages.decode(one.raw)
        for claim in one.claims:
            text = (await running.artifacts.get(ended.at.tenant, claim.sha256)).decode()
            message = messages.with_leaves(message, {claim.pointer: text})
        said.append(message)
    return await asyncio.get_running_loop().run_in_executor(pool, _judged, ended, records, live, said)


def _judged(ended: Ended, records: Sequence[Record], live: State, said: list[Json]) -> Audit:
    return audit(ended.at, records, live=live, spoken=ended.spoken.messages, said=said, hashes=ended.hashes)


async def _settled(running: Runtime, at: Address) -> State:
    for _ in range(SETTLE_POLLS):
        state = await running.conversations.load(at)
        if next_actor(state) is None:
            return state
        await asyncio.sleep(POLL_SECONDS)
    raise NotReady(f"{next_actor(state)} still has to work on {at}")
