"""Storing: when a conversation goes on without the store."""

from __future__ import annotations

import asyncio

import pytest

from actors.core.seal import Step
from actors.spill import act
from actors.spill.act import DEGRADE_AFTER_ATTEMPTS, DEGRADE_AFTER_SECONDS, Storing
from protocol.errors import ArtifactsUnavailable
from protocol.facts import ToolOutputTrimmed
from protocol.ids import Token, address
from storage.memory import MemoryArtifacts
from tests.builders import COUNT, Talk, policy, user, words

AT = address("stores")


class Late(MemoryArtifacts):
    """Artifacts that take one body late, and then none: each is refused after so many seconds of silence."""

    def __init__(self, *, late_seconds: float, silent_seconds: float) -> None:
        super().__init__()
        self.late_seconds, self.silent_seconds, self.taken = late_seconds, silent_seconds, 0

    async def put(self, tenant: Token, body: bytes) -> str:
        self.taken += 1
        if self.taken > 1:
            raise ArtifactsUnavailable("S3 PutObject failed", silent_seconds=self.silent_seconds)
        await asyncio.sleep(self.late_seconds)
        return await super().put(tenant, body)


def two_large_parts() -> Talk:
    talk = Talk(policy(10_000, spill={"share": 0.03}))
    talk.append(user(words(2000)), user("b " + words(2000)))
    return talk


async def stepped(storing: Storing, talk: Talk) -> Step:
    return await storing.step(AT, talk.state, count=COUNT, release_credit=lambda: None)


async def test_the_wait_for_a_store_that_answers_is_not_its_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "DEGRADE_AFTER_SECONDS", 0.2)
    storing, talk = Storing(artifacts=Late(late_seconds=0.5, silent_seconds=0.1)), two_large_parts()
    for _ in range(DEGRADE_AFTER_ATTEMPTS - 1):
        with pytest.raises(ArtifactsUnavailable):
            await stepped(storing, talk)
    assert [type(fact) for fact in (await stepped(storing, talk)).facts] == [ToolOutputTrimmed] * 2


async def test_one_attempt_is_enough_of_a_store_that_says_nothing() -> None:
    late = Late(late_seconds=0.0, silent_seconds=DEGRADE_AFTER_SECONDS)
    step = await stepped(Storing(artifacts=late), two_large_parts())
    assert [type(fact) for fact in step.facts] == [ToolOutputTrimmed] * 2
