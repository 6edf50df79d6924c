"""Whether the store is down: nobody is told so before it is known, and it is asked once for all."""

from __future__ import annotations

import asyncio

import pytest

from actors.services.store_question import StoreQuestion
from protocol.errors import ArtifactsUnavailable, NotReady
from protocol.ids import Token, address
from storage.memory import MemoryArtifacts

AT = address("waits")
TENANT = AT.tenant


class Slow(MemoryArtifacts):
    """Artifacts that answer once they may, or say that they are down."""

    def __init__(self) -> None:
        super().__init__()
        self.may, self.is_down, self.asked = asyncio.Event(), False, 0

    async def find(self, tenant: Token, prefix: str) -> str:
        self.asked += 1
        await self.may.wait()
        if self.is_down:
            raise ArtifactsUnavailable("no answer in time")
        return await super().find(tenant, prefix)


async def test_a_store_that_has_not_answered_yet_is_not_told_as_one_that_is_down() -> None:
    slow = Slow()
    question = StoreQuestion(slow)
    for told in await asyncio.gather(*(question.check(AT) for _ in range(20)), return_exceptions=True):
        assert isinstance(told, NotReady)
        assert told.fields == {"actor": "spill"}
        assert "S3" in str(told)
    assert slow.asked == 1
    slow.may.set()
    await question.begin(TENANT)
    await question.check(AT)  # it answers: something else is what is waited for
    assert slow.asked == 1


async def test_a_store_that_is_down_is_told_as_such_also_while_it_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("actors.services.store_question.FRESH_SECONDS", -1.0)
    down = Slow()
    down.is_down = True
    down.may.set()
    question = StoreQuestion(down)
    await question.begin(TENANT)
    down.may.clear()
    with pytest.raises(ArtifactsUnavailable, match="S3 does not answer: the large parts of default/waits"):
        await question.check(AT)
    assert down.asked == 2
    down.is_down = False
    down.may.set()
    await question.begin(TENANT)
    await question.check(AT)


async def test_who_asks_no_more_leaves_nobody_who_asks() -> None:
    question = StoreQuestion(Slow())
    question.forget()
    asking = question.begin(TENANT)
    question.forget()
    await asyncio.wait({asking}, timeout=180)
    assert asking.cancelled()
