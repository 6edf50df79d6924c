"""What every `Hearing` promises: what an agent says is stored once, confirmed with its place, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.js.errors import NoStreamResponseError

from protocol import subjects
from protocol.acked import acked
from protocol.errors import LogUnavailable
from protocol.ids import Address, address, fresh_id
from storage.hearing import NatsHearing
from storage.memory import MemoryLog
from storage.memory_work import MemoryHearing
from storage.work_ports import Hearing
from tests.promises.harness import connected, one


class Log(MemoryLog):
    """A log that may be away."""

    is_away = False

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        if self.is_away:
            raise LogUnavailable("the log is away")
        return await super().say(at, body, message_id=message_id, headers=headers)


@dataclass
class Heard:
    """A log, two processes that hear for it, and how an agent speaks: its words, their id, and how long it waits."""

    log: Log
    hearings: list[Hearing]
    speak: Callable[[Address, bytes, str, float], Awaitable[int]]


@asynccontextmanager
async def over_nats(folder: Path) -> AsyncIterator[Heard]:
    async with one(folder) as server:
        agent, *services = [await connected(server.url) for _ in range(3)]
        await agent.jetstream().delete_stream(subjects.LOG_STREAM)

        async def speak(at: Address, body: bytes, message_id: str, seconds: float) -> int:
            headers = {"Nats-Msg-Id": message_id}
            while True:
                try:
                    return (await acked(agent, subjects.said(at), body, headers=headers, seconds=seconds)).seq
                except NoStreamResponseError:
                    await asyncio.sleep(0.01)  # nobody hears yet

        log = Log()
        yield Heard(log, [NatsHearing(service, log) for service in services], speak)
        for connection in (agent, *services):
            await connection.close()


@pytest.fixture(params=["memory", "nats"])
async def heard(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Heard]:
    """Yield what is heard while both hear."""
    if request.param == "nats":
        async with over_nats(tmp_path) as there, both_hear(there):
            yield there
        return
    log = Log()
    hearing = MemoryHearing(log)

    async def speak(at: Address, body: bytes, message_id: str, seconds: float) -> int:
        return await asyncio.wait_for(hearing.say(at, body, message_id=message_id), seconds)

    async with both_hear(Heard(log, [hearing, hearing], speak)) as there:
        yield there


@asynccontextmanager
async def both_hear(there: Heard) -> AsyncIterator[Heard]:
    hearing = [asyncio.create_task(each.run()) for each in there.hearings]
    try:
        yield there
    finally:
        for task in hearing:
            task.cancel()
        ended = await asyncio.gather(*hearing, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended


async def test_what_many_say_is_stored_once_and_each_is_told_its_place(heard: Heard) -> None:
    places = [address(f"heard-{number}") for number in range(4)]

    async def agent(at: Address) -> list[int]:
        return [await heard.speak(at, b"%d" % number, fresh_id(), 180.0) for number in range(8)]

    told = dict(zip(places, await asyncio.gather(*map(agent, places)), strict=True))
    for at in places:
        records = await heard.log.read(at, after=0)
        assert [(one.side, one.body) for one in records] == [("said", b"%d" % number) for number in range(8)]
        assert [one.seq for one in records] == told[at], "each in the order in which its agent said it"


async def test_what_is_said_again_under_its_id_is_stored_once(heard: Heard, at: Address) -> None:
    first, again = [await heard.speak(at, b"once", "id", 180.0) for _ in range(2)]
    assert first == again
    assert [one.body for one in await heard.log.read(at, after=0)] == [b"once"]


async def test_what_is_said_to_no_conversation_is_refused_and_others_are_heard(tmp_path: Path, at: Address) -> None:
    async with over_nats(tmp_path) as heard, both_hear(heard):
        await heard.speak(at, b"before", fresh_id(), 180.0)
        agent = heard.hearings[0]._connection  # type: ignore[attr-defined]  # any that is open
        refused = await agent.request("ctx.v1.log.default.héé.said", b"a word", timeout=180)
        assert "is not the safe form of an id" in refused.data.decode()
        await heard.speak(at, b"after", fresh_id(), 180.0)
        assert [one.body for one in await heard.log.read(at, after=0)] == [b"before", b"after"]


async def test_what_could_not_be_stored_is_confirmed_to_nobody_and_is_heard_when_it_is_said_again(
    heard: Heard, at: Address
) -> None:
    seq = await heard.speak(at, b"before", fresh_id(), 180.0)
    heard.log.is_away = True
    with pytest.raises(TimeoutError):
        await heard.speak(at, b"meanwhile", "id", 0.3)
    heard.log.is_away = False
    assert await heard.speak(at, b"meanwhile", "id", 180.0) > seq
    assert [one.body for one in await heard.log.read(at, after=0)] == [b"before", b"meanwhile"]
