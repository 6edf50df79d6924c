"""What every `Erasure` promises: what goes is gone, what stays is whole, and nobody is given work meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import cast

import pytest

from actors.host.bootstrap import Runtime
from protocol.errors import Erased
from protocol.ids import Address, address, fresh_id
from storage.erasure_ports import Erasure, Forgotten
from storage.jetstream_reads import millis
from storage.memory import MemoryKeys, MemoryLog
from storage.memory_erasure import MemoryErasure
from storage.memory_work import MemoryDeadLetters, MemoryInProgress, MemoryWakes
from storage.ports import EventLog, Keys
from storage.work_ports import BegunWork, DeadLetters, InProgress, Slot, Wakes

from .test_work_contract import letter


@dataclass(frozen=True, kw_only=True)
class Stores:
    """An erasure, and what it takes away from."""

    erasure: Erasure
    stored: EventLog
    wakes: Wakes
    in_progress: InProgress
    dead_letters: DeadLetters
    keys: Keys

    async def fill(self, at: Address) -> None:
        """Keep one of everything of *at*, and three records of its log."""
        for number in range(3):
            await self.stored.say(at, b"%d" % number, message_id=fresh_id(), headers={})
        await self.keys.key(at)
        await self.wakes.wake("digest", at, headers={})
        await self.in_progress.put("digest", at, BegunWork(worker="w"))
        await self.dead_letters.put(letter(at), headers={})

    async def empty(self, *ats: Address) -> None:
        """Leave no log that nobody can read: it would hold up erasures in other tests."""
        for at in ats:
            await self.erasure.clear(at)

    async def seqs(self, at: Address) -> list[int]:
        return [record.seq for record in await self.stored.read(at, after=0)]


@pytest.fixture(params=["memory", "jetstream"])
def stores(request: pytest.FixtureRequest, running: Runtime) -> Stores:
    if request.param == "jetstream":
        return Stores(**{name: getattr(running, name) for name in Stores.__dataclass_fields__})
    wakes, keys = MemoryWakes(), MemoryKeys()
    log, in_progress, letters = MemoryLog(), MemoryInProgress(), MemoryDeadLetters()
    erasure = MemoryErasure(log=log, wakes=wakes, in_progress=in_progress, dead_letters=letters, keys=keys)
    return Stores(
        erasure=erasure,
        stored=log,
        wakes=wakes,
        in_progress=in_progress,
        dead_letters=letters,
        keys=keys,
    )


async def test_all_that_is_kept_beside_a_log_goes_and_another_conversation_stays(stores: Stores, at: Address) -> None:
    other = address(f"other-{fresh_id()}")
    for one in (at, other):
        await stores.fill(one)
    gone = await stores.erasure.forget(at)
    assert (gone.dead_letters, gone.gateway, gone.keys) == (1, 0, 1)
    assert gone.wakes >= 2, "the slot, and the work in progress"
    assert await stores.in_progress.find("digest", at) is None
    assert [one.letter.at async for one in stores.dead_letters.all() if one.letter.at in (at, other)] == [other]
    assert await stores.wakes.wake("digest", at, headers={}), "its slot was free"
    assert len(await stores.seqs(at)) == 3, "the log is another matter"
    assert await stores.keys.known(other) is not None
    assert not await stores.wakes.wake("digest", other, headers={}), "its slot is filled as it was"
    await stores.erasure.forget(at)
    assert await stores.erasure.forget(at) == Forgotten()
    await stores.empty(at, other)


async def test_there_is_no_key_again_of_what_was_forgotten(stores: Stores, at: Address) -> None:
    await stores.erasure.forget(at)
    for asked in (stores.keys.key, stores.keys.known):
        with pytest.raises(Erased):
            await asked(at)


async def test_a_log_is_cleared_but_for_what_is_kept_and_records_leave_by_their_places(
    stores: Stores, at: Address
) -> None:
    await stores.fill(at)
    first, second, third = await stores.seqs(at)
    assert (await stores.erasure.counts())[at] == 3
    for _ in range(2):
        await stores.erasure.remove(at, [second], at_once=1)
        assert await stores.seqs(at) == [first, third]
    assert [await stores.erasure.clear(at, keep=third) for _ in range(2)] == [1, 0]
    assert await stores.seqs(at) == [third]
    assert await stores.erasure.clear(at) == 1
    assert (await stores.erasure.counts())[at] == 0
    assert at not in await stores.stored.addresses()


async def test_nobody_is_given_work_until_the_last_of_two_pauses_ends(stores: Stores, at: Address) -> None:
    slots = cast("AsyncGenerator[Slot, None]", stores.wakes.slots("digest", credits=1_000))

    async def take() -> None:
        async for slot in slots:
            await slot.done()
            if slot.at == at:
                return

    async with aclosing(slots), asyncio.timeout(180):
        async with stores.erasure.paused():
            async with stores.erasure.paused():
                pass
            await stores.wakes.wake("digest", at, headers={})
            taking = asyncio.create_task(take())
            ended, _ = await asyncio.wait([taking], timeout=0.3)
            assert not ended
        await taking


async def test_a_place_that_is_emptied_and_filled_within_a_pause_is_given_once(stores: Stores, at: Address) -> None:
    slots = cast("AsyncGenerator[Slot, None]", stores.wakes.slots("digest", credits=1_000))
    given: list[str] = []

    async def take() -> None:
        async for slot in slots:
            if slot.at == at:
                given.append(slot.headers["which"])
            else:
                await slot.done()

    async with aclosing(slots), asyncio.timeout(180):
        async with stores.erasure.paused():
            taking = asyncio.create_task(take())
            await stores.wakes.wake("digest", at, headers={"which": "first"})
            await asyncio.sleep(0.1)  # who takes slots may have it, and waits for the end of the pause
            await stores.erasure.forget(at)
            assert await stores.wakes.wake("digest", at, headers={"which": "second"})
        while not given:
            await asyncio.sleep(0.01)
        await asyncio.wait([taking], timeout=0.3)
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
    assert given == ["second"]
    await stores.erasure.forget(at)


async def test_the_clock_is_that_by_which_records_have_their_times(stores: Stores, at: Address) -> None:
    before = await stores.erasure.now_ms()
    await stores.stored.say(at, b"x", message_id=fresh_id(), headers={})
    (record,) = await stores.stored.read(at, after=0)
    assert before <= millis(record.time) <= await stores.erasure.now_ms()
    await stores.empty(at)
