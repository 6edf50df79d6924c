"""Quarantine: whoever ends workers from outside makes no conversation a suspect for ever."""

import asyncio
from dataclasses import dataclass, field

import pytest

from actors.runtime.delivery import Delivery
from actors.runtime.quarantine import VANISHED_MAX, Quarantine
from protocol.errors import Busy, Deadly, Unavailable
from protocol.ids import Address, address
from protocol.subjects import Actor
from storage.memory_work import MemoryInProgress, MemorySlot, MemoryWakes
from storage.work_ports import BegunWork

AT = address("suspect")


@dataclass
class Sandboxes:
    """`Sandbox` whose sandboxes never end, or end at once with *deaths*, one after the other."""

    deaths: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    count: int = 0

    async def death(self, actor: Actor, at: Address) -> str:
        self.count += 1
        if self.deaths:
            return self.deaths.pop(0)
        self.begun.set()
        return await asyncio.Future()


class NeverStarted:
    """`Sandbox` that cannot begin."""

    async def death(self, actor: Actor, at: Address) -> str:
        raise Unavailable("no process could be started")


def delivery(deliveries: int, at: Address = AT) -> Delivery:
    return Delivery(MemorySlot(at, {}, MemoryWakes(), "spill", deliveries=deliveries))


async def killed(kept: MemoryInProgress, sandboxes: Sandboxes, number: int) -> bool:
    """Let a new worker begin, and disappear without a word; tell whether it was given the work itself."""
    quarantine = Quarantine(actor="spill", worker=f"w{number}", in_progress=kept, sandbox=sandboxes)
    sandboxes.begun.clear()
    beginning = asyncio.ensure_future(quarantine.begin(delivery(number + 2)))
    trying = asyncio.ensure_future(sandboxes.begun.wait())
    await asyncio.wait({beginning, trying}, return_when=asyncio.FIRST_COMPLETED)
    works = beginning.done()
    for task in (beginning, trying):
        task.cancel()
    await asyncio.gather(beginning, trying, return_exceptions=True)
    return works


async def test_who_is_killed_faster_than_trials_end_works_all_the_same() -> None:
    kept, sandboxes = MemoryInProgress(), Sandboxes()
    worked = [await killed(kept, sandboxes, number) for number in range(20)]
    assert worked[: VANISHED_MAX + 1] == [True] * VANISHED_MAX + [False]
    assert sandboxes.count > 1, "it stays a suspect: nobody knows of what its workers died"
    assert worked.count(True) >= len(worked) // 2


async def test_a_conversation_whose_trial_died_once_is_never_worked_on_by_a_worker_however_trials_end() -> None:
    kept, sandboxes = MemoryInProgress(), Sandboxes(deaths=["exit code 9"])
    await kept.put("spill", AT, BegunWork(worker="gone", vanished=VANISHED_MAX - 1))
    first = Quarantine(actor="spill", worker="first", in_progress=kept, sandbox=sandboxes)
    with pytest.raises(Deadly):
        await first.begin(delivery(2))
    assert [await killed(kept, sandboxes, number) for number in range(5)] == [False] * 5


async def test_a_sandbox_that_could_not_begin_changes_nothing() -> None:
    kept = MemoryInProgress()
    before = BegunWork(worker="gone", vanished=VANISHED_MAX - 1)
    await kept.put("spill", AT, before)
    quarantine = Quarantine(actor="spill", worker="w", in_progress=kept, sandbox=NeverStarted())
    with pytest.raises(Unavailable):
        await quarantine.begin(delivery(2))
    assert await kept.find("spill", AT) == before


async def test_who_survives_a_trial_is_acquitted() -> None:
    kept = MemoryInProgress()
    await kept.put("spill", AT, BegunWork(worker="gone", vanished=1000))
    quarantine = Quarantine(actor="spill", worker="w", in_progress=kept, sandbox=Sandboxes(deaths=[""]))
    tried = delivery(2)
    await quarantine.begin(tried)
    assert await kept.find("spill", AT) == BegunWork(worker="w")
    await quarantine.end(tried)
    assert await kept.find("spill", AT) is None


async def test_a_worker_that_disappears_is_counted_against_one_of_those_that_may_be_deadly() -> None:
    kept, places = MemoryInProgress(), [address(f"held-{number}") for number in range(10)]
    for at in places:
        await kept.put("spill", at, BegunWork(worker="gone"))
    quarantine = Quarantine(actor="spill", worker="w", in_progress=kept, sandbox=Sandboxes())
    held = [asyncio.ensure_future(quarantine.begin(delivery(3, at))) for at in places]
    await asyncio.wait(held, return_when=asyncio.FIRST_COMPLETED)
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    begun = [found.vanished for at in places if (found := await kept.find("spill", at))]
    assert sorted(begun) == [0] * 9 + [1]


async def test_the_next_one_that_may_be_deadly_begins_when_the_one_before_it_has_ended() -> None:
    kept, places = MemoryInProgress(), [address("first"), address("second")]
    for at in places:
        await kept.put("spill", at, BegunWork(worker="gone"))
    quarantine = Quarantine(actor="spill", worker="w", in_progress=kept, sandbox=Sandboxes())
    first, second = (delivery(3, at) for at in places)
    await quarantine.begin(first)
    with pytest.raises(Busy):
        await quarantine.begin(second)
    await quarantine.end(second)
    await quarantine.end(first)
    await quarantine.begin(second)
    assert second.begun == BegunWork(worker="w", vanished=1)
