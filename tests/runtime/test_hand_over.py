"""Who hands over wakes the next actor once, and once more only where something came meanwhile."""

import asyncio
from collections.abc import Mapping

import pytest

from actors.core.flow import next_actor
from actors.core.state import State
from actors.host.bootstrap import Runtime
from actors.runtime import worker
from actors.runtime.conversations import Conversations
from actors.runtime.hand_over import HandOver
from protocol import codec
from protocol.client import Client
from protocol.facts import ConversationOpened
from protocol.ids import Address, address, fresh_id
from protocol.subjects import Actor, Lane
from storage.memory import MemoryLog, MemorySnapshots
from storage.memory_work import MemoryAnnouncer, MemoryWakes
from storage.work_ports import Slot

AT = address("talk")


class Told(MemoryWakes):
    """`Wakes` that remembers who was woken, whether the slot was filled or not."""

    woken: list[Actor]

    async def wake(
        self, actor: Actor, at: Address, *, body: bytes = b"", headers: Mapping[str, str], lane: Lane = "normal"
    ) -> bool:
        """See `Wakes.wake`."""
        self.woken.append(actor)
        return await super().wake(actor, at, body=body, headers=headers, lane=lane)


async def said(log: MemoryLog, count: int) -> None:
    """Say something that only spill can take further: no policy is adopted yet."""
    opened = codec.Said(writer="a", count=count, facts=(ConversationOpened(name="talk"),))
    await log.say(AT, codec.encode_said(opened), message_id=str(count), headers={})


async def taken(wakes: Told) -> Slot:
    await wakes.wake("cut", AT, headers={})
    wakes.woken.clear()
    return await anext(wakes.slots("cut", credits=1))


async def test_the_next_actor_is_woken_once_and_again_only_for_what_came_meanwhile() -> None:
    log, wakes = MemoryLog(), Told()
    wakes.woken = []
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    hand_over = HandOver(actor="cut", wakes=wakes, conversations=known, announcer=MemoryAnnouncer())
    await said(log, 1)
    slot = await taken(wakes)
    state = await known.load(AT)
    await hand_over.after(slot, state)
    await slot.done()
    await hand_over.look_again(AT, state)
    assert wakes.woken == ["spill"]
    await said(log, 2)
    await hand_over.look_again(AT, state)
    assert wakes.woken == ["spill", "spill"]


async def test_where_nothing_is_left_to_do_others_of_the_process_go_first(
    running: Runtime, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    ready: list[asyncio.Task[None]] = []
    after, handed = HandOver.after, asyncio.Event()

    async def served() -> None:
        for _ in range(50):
            await asyncio.sleep(0)
        seen.append("served")

    def asked(state: State) -> Actor | None:
        actor = next_actor(state)
        if actor is None and state.terms.name == name and not ready:
            ready.append(asyncio.create_task(served()))
        return actor

    async def handing(self: HandOver, slot: Slot, state: State) -> None:
        seen.extend(["handed"] * (slot.at.conversation == name))
        await after(self, slot, state)
        if slot.at.conversation == name:
            handed.set()

    monkeypatch.setattr(worker, "next_actor", asked)
    monkeypatch.setattr(HandOver, "after", handing)
    monkeypatch.setattr(worker, "IDLE_SECONDS", 2.0)  # so that a busy machine is not taken for a worker that goes first
    name = f"idle-{fresh_id()}"
    await client.open(name)
    at_it = asyncio.create_task(running.worker("spill").run())
    try:
        async with asyncio.timeout(180):
            with running.under_way.agent():
                await handed.wait()
    finally:
        at_it.cancel()
        await asyncio.gather(at_it, return_exceptions=True)
    assert seen[:2] == ["served", "handed"]
