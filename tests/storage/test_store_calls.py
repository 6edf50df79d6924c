"""Calls of a store: the wait for one of its threads is not taken for the store's silence."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from storage.store_calls import Silent, StoreCalls

SECONDS = 2.0
"""For one answer; a call takes a quarter of it."""

MANY = 8
"""As many calls take twice as long as one may, with one thread for all."""


class Refused(Exception):
    """An answer that is an error."""


class Broken(Exception):
    """No answer."""


@pytest.fixture
async def calls() -> AsyncIterator[StoreCalls]:
    """Yield the calls of a store that has one thread."""
    made = StoreCalls(1, name="test", refusals=lambda: Refused)
    yield made
    made.close()


def late() -> str:
    time.sleep(SECONDS / 4)
    return "answered"


def refused() -> str:
    raise Refused(late())


def broken() -> str:
    raise Broken(late())


async def test_who_waits_for_a_turn_waits_while_others_get_answers(calls: StoreCalls) -> None:
    began = time.monotonic()
    assert await asyncio.gather(*(calls.take(late, seconds=SECONDS) for _ in range(MANY))) == ["answered"] * MANY
    assert time.monotonic() - began > SECONDS


async def test_a_refusal_is_an_answer_too(calls: StoreCalls) -> None:
    told = await asyncio.gather(*(calls.take(refused, seconds=SECONDS) for _ in range(MANY)), return_exceptions=True)
    assert [type(one) for one in told] == [Refused] * MANY


async def test_a_connection_that_breaks_is_none(calls: StoreCalls) -> None:
    told = await asyncio.gather(*(calls.take(broken, seconds=SECONDS) for _ in range(MANY)), return_exceptions=True)
    assert isinstance(told[0], Broken)
    assert isinstance(told[-1], Silent), "nothing was answered all the while"


async def test_all_are_told_of_a_store_that_says_nothing_and_none_of_them_is_asked_for_later(calls: StoreCalls) -> None:
    goes_on, called = threading.Event(), []
    hangs = asyncio.create_task(calls.take(goes_on.wait, seconds=SECONDS))
    await asyncio.sleep(0)
    behind = [calls.take(lambda: called.append("late"), seconds=SECONDS) for _ in range(MANY)]
    try:
        told = await asyncio.gather(hangs, *behind, return_exceptions=True)
    finally:
        goes_on.set()
    assert [type(one) for one in told] == [Silent] * (MANY + 1)
    assert [one.seconds >= SECONDS for one in told if isinstance(one, Silent)] == [True] * (MANY + 1)
    assert await calls.take(lambda: "again", seconds=SECONDS) == "again"
    assert called == []


async def test_whose_turn_it_is_has_its_own_seconds_though_others_get_answers() -> None:
    calls, goes_on = StoreCalls(2, name="test", refusals=lambda: Refused), threading.Event()
    try:
        hangs = asyncio.create_task(calls.take(goes_on.wait, seconds=SECONDS))
        while not hangs.done():
            assert await calls.take(late, seconds=180) == "answered"
        assert isinstance(hangs.exception(), Silent)
    finally:
        goes_on.set()
        calls.close()


async def test_who_waits_no_more_is_not_called(calls: StoreCalls) -> None:
    goes_on, called = threading.Event(), []
    first = asyncio.create_task(calls.take(goes_on.wait, seconds=180))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await calls.take(lambda: called.append("late"), seconds=180)
    goes_on.set()
    assert await first
    assert await calls.take(lambda: "next", seconds=180) == "next"
    assert called == []
