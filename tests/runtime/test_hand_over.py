"""Who hands over wakes the next actor once, and once more only where something came meanwhile."""

from collections.abc import Mapping

from actors.runtime.conversations import Conversations
from actors.runtime.hand_over import HandOver
from protocol import codec
from protocol.facts import ConversationOpened
from protocol.ids import Address, address
from protocol.subjects import Actor, Lane
from storage.memory import MemoryLog, MemorySnapshots
from storage.memory_work import MemoryAnnouncer, MemoryWakes
from storage.ports import Slot

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
