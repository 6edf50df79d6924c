"""A pause of the queue: by the server's clock, together with others, and never unseen when it fails."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from actors.host.bootstrap import Runtime
from protocol import subjects
from protocol.errors import Rejected
from protocol.subjects import ACTORS
from storage import queue_pause
from storage.queue_pause import _Consumer, paused
from storage.streams import provision
from tests.host.test_embedded import until


async def stand_still(running: Runtime) -> set[bool]:
    """Return whether the queue's consumers are paused."""
    jetstream = running.connection.jetstream()
    names = [subjects.durable(actor) for actor in ACTORS]
    return {bool((await jetstream.consumer_info(subjects.WAKE_STREAM, name)).paused) for name in names}


@pytest.mark.parametrize("minutes", [2, -2])
async def test_a_clock_that_is_wrong_pauses_neither_longer_nor_not_at_all(
    running: Runtime, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Wrong:
            return cls.fromtimestamp((datetime.now(UTC) + timedelta(minutes=minutes)).timestamp(), tz)

    monkeypatch.setattr(queue_pause, "datetime", Wrong)
    try:
        async with paused(running.connection):
            assert await stand_still(running) == {True}
        assert await stand_still(running) == {False}
    finally:
        await freed(running)


async def test_who_ends_first_leaves_the_pause_of_the_other(running: Runtime) -> None:
    try:
        async with paused(running.connection):
            async with paused(running.connection):
                pass
            assert await stand_still(running) == {True}
        assert await stand_still(running) == {False}
        first, second = paused(running.connection), paused(running.connection)
        await first.__aenter__()
        await second.__aenter__()
        await first.__aexit__(None, None, None)
        assert await stand_still(running) == {True}
        await second.__aexit__(None, None, None)
        assert await stand_still(running) == {False}
        assert not any(queue_pause._consumers.values())
    finally:
        await freed(running)


async def test_of_those_who_begin_in_one_moment_each_is_paused_until_its_own_end(running: Runtime) -> None:
    begun: list[str] = []
    ended, stood = asyncio.Event(), list[set[bool]]()

    async def long() -> None:
        async with paused(running.connection):
            begun.append("long")
            await ended.wait()
            stood.append(await stand_still(running))

    async def short() -> None:
        async with paused(running.connection):
            begun.append("short")
            await until(lambda: len(begun) == 2)
        ended.set()

    try:
        for both in ((long, short), (short, long), (long, short)):
            begun.clear()
            ended.clear()
            async with asyncio.TaskGroup() as group:
                for one in both:
                    group.create_task(one())
            assert await stand_still(running) == {False}
        assert stood == [{True}] * 3
    finally:
        await freed(running)


async def test_a_consumer_that_is_gone_keeps_no_other_paused(running: Runtime) -> None:
    # the first that is paused, so that all others come behind it
    names = await running.connection.request(f"$JS.API.CONSUMER.NAMES.{subjects.WAKE_STREAM}", b"{}")
    first = json.loads(names.data)["consumers"][0]
    try:
        async with paused(running.connection):
            await running.connection.jetstream().delete_consumer(subjects.WAKE_STREAM, first)
        await provision(running.connection)
        assert await stand_still(running) == {False}
    finally:
        await provision(running.connection)
        await freed(running)


async def test_an_older_pause_of_our_own_is_nobody_elses(running: Runtime) -> None:
    """The server may show it for a moment longer, and a renewal that was broken off has not come to it."""
    consumers = [
        _Consumer(running.connection, f"{subjects.WAKE_STREAM}.{subjects.durable(actor, lane)}")
        for actor in ACTORS
        for lane in subjects.LANES
    ]
    try:
        for one in consumers:
            await one.pause()
            (first,) = one.asked
            await one.pause()
            await one._until(first)
            await one.resume()
        assert await stand_still(running) == {False}
    finally:
        await freed(running)


async def test_a_pause_that_the_server_refuses_to_renew_is_told(
    running: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_pause, "PAUSE_SECONDS", 3.0)
    try:
        with pytest.raises(Rejected):
            await refused_once(running, subjects.durable("cut"))
    finally:
        await provision(running.connection)
        await freed(running)


async def refused_once(running: Runtime, name: str) -> None:
    """Pause, and take a consumer away until a renewal has missed it."""
    asked = list[object]()

    async def heard(message: object) -> None:
        asked.append(message)

    async with paused(running.connection):
        await running.connection.jetstream().delete_consumer(subjects.WAKE_STREAM, name)
        watch = await running.connection.subscribe(f"$JS.API.CONSUMER.*.{subjects.WAKE_STREAM}.{name}", cb=heard)
        with suppress(TimeoutError):  # the answer to the first is there before the second is asked
            await until(lambda: len(asked) >= 2, seconds=60)
        await watch.unsubscribe()
        await provision(running.connection)


async def freed(running: Runtime) -> None:
    """Let nobody wait for what a failed test has paused."""
    for actor in ACTORS:
        for lane in subjects.LANES:
            name = subjects.durable(actor, lane)
            await running.connection.request(f"$JS.API.CONSUMER.PAUSE.{subjects.WAKE_STREAM}.{name}", b"{}")
