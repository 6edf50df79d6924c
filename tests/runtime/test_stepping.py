"""Stepping: what an actor does in one conversation, until it has nothing left to do there."""

from __future__ import annotations

import asyncio
import random

import pytest

from actors.runtime.conversations import Conversations
from actors.runtime.retries import BEATEN_MAX, Failures, pause_when_beaten
from actors.runtime.stepping import Effects, Stepping
from protocol import codec
from protocol.errors import Contended
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import address, fresh_id
from storage.memory import MemoryArtifacts, MemoryLog, MemorySnapshots
from storage.memory_work import MemoryAnnouncer
from tests.conftest import SAMPLE

AT = address("beaten")


class RefusingLog(MemoryLog):
    """A log that takes no commit, as that of a conversation whose erasure stopped halfway."""

    asked = 0

    async def append(self, *_: object, **__: object) -> None:
        self.asked += 1


async def ended(stepping: Stepping) -> None:
    async for _ in stepping.work(AT):
        pass


async def test_who_never_comes_first_asks_seldom_and_fails_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def paused(times: int) -> float:
        pauses.append(pause_when_beaten(times))
        return 0.0

    monkeypatch.setattr("actors.runtime.stepping.pause_when_beaten", paused)
    monkeypatch.setattr(random, "uniform", lambda least, most: (least + most) / 2)
    log = RefusingLog()
    said = codec.Said(
        writer="agent",
        count=1,
        facts=(MessagesAppended(messages=tuple(SaidMessage(raw=messages.encode(one)) for one in SAMPLE[:2])),),
    )
    await log.say(AT, codec.encode_said(said), message_id=fresh_id(), headers={})
    stepping = Stepping(
        actor="spill",
        conversations=Conversations(log=log, snapshots=MemorySnapshots(), writer="test"),
        effects=Effects(artifacts=MemoryArtifacts()),
        announcer=MemoryAnnouncer(),
        failures=Failures(),
    )
    with pytest.raises(Contended):
        await asyncio.wait_for(ended(stepping), 180)
    assert log.asked == BEATEN_MAX
    assert pauses[0] <= 0.01, "two actors that meet once do not wait"
    assert 5 < sum(pauses) < 20
