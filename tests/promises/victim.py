"""A spill, squeeze or cut worker that kills or stops itself at a named point of its cycle, once.

python -m tests.promises.victim squeeze after_append KILL
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from actors.core.seal import Step
from actors.core.state import State
from actors.host.bootstrap import runtime
from actors.host.settings import load
from actors.runtime.conversations import Conversations
from actors.runtime.stepping import Effects
from protocol.ids import Address
from protocol.subjects import Actor
from storage.work_ports import Slot, Wakes

POINTS = ("before_effect", "after_effect", "after_append", "after_ack", "after_look")


def told(word: str) -> None:
    """Tell whoever started this process how far it is: ready, at its point, or what became of a commit."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


class Death:
    """What happens when the named point is reached."""

    def __init__(self, point: str, how: str) -> None:
        assert point in POINTS
        self._point = point
        self._signal = signal.Signals[f"SIG{how}"]

    def reached(self, point: str) -> None:
        """Die here, if here is where."""
        if point == self._point:
            self._point = ""
            told(point)
            os.kill(os.getpid(), self._signal)


class MortalEffects(Effects):
    """Effects that may end before or after their effect."""

    death: Death

    async def step(self, *args: Any, **keywords: Any) -> Step:
        """See `Effects.step`."""
        self.death.reached("before_effect")
        found = await super().step(*args, **keywords)
        self.death.reached("after_effect")
        return found


class MortalConversations(Conversations):
    """Conversations that may end when a commit has landed, or at the look after the slot is free."""

    death: Death
    is_freed = False

    async def commit(self, *args: Any, **keywords: Any) -> bool:
        """See `Conversations.commit`."""
        landed = await super().commit(*args, **keywords)
        told("landed" if landed else "refused")
        self.death.reached("after_append")
        return landed

    async def load(self, at: Address, *, upto: int = 0) -> State:
        """See `Conversations.load`."""
        state = await super().load(at, upto=upto)
        if self.is_freed:
            self.death.reached("after_look")
        return state


@dataclasses.dataclass
class MortalSlot:
    """A slot after whose end the process may end."""

    slot: Slot
    death: Death
    conversations: MortalConversations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.slot, name)

    async def done(self) -> None:
        """See `Slot.done`."""
        await self.slot.done()
        self.conversations.is_freed = True
        self.death.reached("after_ack")


@dataclasses.dataclass
class MortalWakes:
    """Wakes whose slots are mortal."""

    wakes: Wakes
    death: Death
    conversations: MortalConversations

    def __getattr__(self, name: str) -> Any:
        return getattr(self.wakes, name)

    async def slots(self, actor: Actor, **asked: Any) -> AsyncIterator[Slot]:
        """See `Wakes.slots`."""
        async for slot in self.wakes.slots(actor, **asked):
            yield cast(Slot, MortalSlot(slot, self.death, self.conversations))


async def main(actor: Actor, death: Death, environment: Mapping[str, str]) -> None:
    """Work until the end comes."""
    async with runtime(load(environment=environment), role=f"victim-{actor}") as running:
        effects = MortalEffects(artifacts=running.artifacts, model=running.effects.model)
        conversations = MortalConversations(
            log=running.log, snapshots=running.conversations._kept.snapshots, writer="victim"
        )
        effects.death = conversations.death = death
        worker = running.worker(actor)
        wakes = cast(Wakes, MortalWakes(running.wakes, death, conversations))
        mortal = dataclasses.replace(worker, effects=effects, conversations=conversations, wakes=wakes)
        told("ready")
        await mortal.run()


if __name__ == "__main__":
    asyncio.run(main(cast(Actor, sys.argv[1]), Death(sys.argv[2], sys.argv[3]), os.environ))
