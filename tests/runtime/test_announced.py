"""Ready is announced for every message, those too whose own wake-up found the slot filled."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from actors.core.state import State
from actors.host.bootstrap import Runtime
from protocol import subjects
from protocol.client import Client
from protocol.ids import Address
from protocol.service_messages import Ready
from storage.work_ports import Slot, Wakes


class LastMoment:
    """`Wakes` whose first slot of *at* is freed only after *before* has happened."""

    def __init__(self, wakes: Wakes, at: Address, before: Callable[[], Awaitable[Any]]) -> None:
        self._wakes, self._at = wakes, at
        self._before: Callable[[], Awaitable[Any]] | None = before
        self.wake, self.untaken, self.partitions = wakes.wake, wakes.untaken, wakes.partitions

    async def slots(self, actor: Any, **asked: Any) -> AsyncIterator[Slot]:
        """See `Wakes.slots`."""
        async for slot in self._wakes.slots(actor, **asked):
            if slot.at == self._at and (before := self._before):
                self._before = None
                yield _Freed(slot, before)
            else:
                yield slot


class _Freed:
    def __init__(self, slot: Slot, before: Callable[[], Awaitable[Any]]) -> None:
        self._slot, self._before = slot, before
        self.at, self.headers, self.body = slot.at, slot.headers, slot.body
        self.deliveries, self.lane = slot.deliveries, slot.lane
        self.later, self.hold, self.release_credit = slot.later, slot.hold, slot.release_credit

    async def done(self) -> None:
        """See `Slot.done`."""
        await self._before()
        await self._slot.done()


async def announced(running: Runtime, at: Address) -> asyncio.Queue[int]:
    """Return the numbers of the messages up to which *at* is announced ready from now on."""
    heard: asyncio.Queue[int] = asyncio.Queue()

    async def listen(message: Any) -> None:
        await heard.put(msgspec.json.decode(message.data, type=Ready).upto)

    await running.connection.subscribe(subjects.ready(at), cb=listen)
    return heard


async def test_a_message_that_comes_while_the_slot_is_held_is_announced_too(
    running: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name)
    heard = await announced(running, talk.at)
    wakes = LastMoment(running.wakes, talk.at, lambda: talk.append([{"role": "user", "content": "two"}]))
    # before the worker begins: what it first finds is this message, and not the opening alone
    await talk.append([{"role": "user", "content": "one"}])
    task = asyncio.create_task(dataclasses.replace(running.worker("spill"), wakes=wakes).run())
    try:
        async with asyncio.timeout(180):
            assert [await heard.get(), await heard.get()] == [1, 2]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_each_message_wakes_a_worker_though_nobody_asks_for_a_view(
    running: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name)
    heard = await announced(running, talk.at)
    task = asyncio.create_task(running.worker("spill").run())
    try:
        for number in range(1, 5):
            await talk.append([{"role": "user", "content": f"word {number}"}])
            # the server copies a message's headers to the slot: what these ask of the log, no slot may refuse
            async with asyncio.timeout(60):
                while await heard.get() < number:
                    pass
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_worker_gives_way_to_no_agent_where_none_waits_for_its_process(
    running: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.runtime.worker.IDLE_SECONDS", 100_000.0)
    talk = await client.open(name)
    heard = await announced(running, talk.at)
    task = asyncio.create_task(running.worker("spill").run())
    try:
        async with asyncio.timeout(180):
            await talk.append([{"role": "user", "content": "one"}])
            assert await heard.get() == 1
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_who_asks_for_a_view_counts_as_waiting_until_it_is_answered(
    running: Runtime, client: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = running.context_service()
    waiting: list[int] = []
    load = service.conversations.living

    async def counted(at: Address, *, upto: int = 0) -> State:
        waiting.append(running.under_way.agents)
        return await load(at, upto=upto)

    monkeypatch.setattr(service.conversations, "living", counted)
    talk = await client.open(name)
    await talk.append([{"role": "user", "content": "one"}])
    tasks = [asyncio.create_task(running.worker("spill").run()), asyncio.create_task(service.run())]
    try:
        await talk.context(patience=180)
        assert set(waiting) == {1}
        async with asyncio.timeout(180):
            while running.under_way.agents:
                await asyncio.sleep(0.01)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
