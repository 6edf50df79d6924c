"""Turns at a store: the wait for one of its threads is not taken for the store's silence."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from storage.turns import Silent, Turns

SECONDS = 2.0
"""For one answer; a call takes a quarter of it."""

MANY = 8
"""As many calls take twice as long as one may, with one thread for all."""


class Refused(Exception):
    """An answer that is an error."""


class Broken(Exception):
    """No answer."""


@pytest.fixture
async def turns() -> AsyncIterator[Turns]:
    """Yield turns of one thread."""
    made = Turns(1, name="test", refusals=lambda: Refused)
    yield made
    made.close()


def late() -> str:
    time.sleep(SECONDS / 4)
    return "answered"


def refused() -> str:
    raise Refused(late())


def broken() -> str:
    raise Broken(late())


async def test_who_waits_for_a_turn_waits_while_others_get_answers(turns: Turns) -> None:
    began = time.monotonic()
    assert await asyncio.gather(*(turns.take(late, seconds=SECONDS) for _ in range(MANY))) == ["answered"] * MANY
    assert time.monotonic() - began > SECONDS


async def test_a_refusal_is_an_answer_too(turns: Turns) -> None:
    told = await asyncio.gather(*(turns.take(refused, seconds=SECONDS) for _ in range(MANY)), return_exceptions=True)
    assert [type(one) for one in told] == [Refused] * MANY


async def test_a_connection_that_breaks_is_none(turns: Turns) -> None:
    told = await asyncio.gather(*(turns.take(broken, seconds=SECONDS) for _ in range(MANY)), return_exceptions=True)
    assert isinstance(told[0], Broken)
    assert isinstance(told[-1], Silent), "nothing was answered all the while"


async def test_all_are_told_of_a_store_that_says_nothing_and_none_of_them_is_asked_for_later(turns: Turns) -> None:
    goes_on, called = threading.Event(), []
    hangs = asyncio.create_task(turns.take(goes_on.wait, seconds=SECONDS))
    await asyncio.sleep(0)
    behind = [turns.take(lambda: called.append("late"), seconds=SECONDS) for _ in range(MANY)]
    try:
        told = await asyncio.gather(hangs, *behind, return_exceptions=True)
    finally:
        goes_on.set()
    assert [type(one) for one in told] == [Silent] * (MANY + 1)
    assert [one.seconds >= SECONDS for one in told if isinstance(one, Silent)] == [True] * (MANY + 1)
    assert await turns.take(lambda: "again", seconds=SECONDS) == "again"
    assert called == []


async def test_whose_turn_it_is_has_its_own_seconds_though_others_get_answers() -> None:
    turns, goes_on = Turns(2, name="test", refusals=lambda: Refused), threading.Event()
    try:
        hangs = asyncio.create_task(turns.take(goes_on.wait, seconds=SECONDS))
        while not hangs.done():
            assert await turns.take(late, seconds=180) == "answered"
        assert isinstance(hangs.exception(), Silent)
    finally:
        goes_on.set()
        turns.close()


async def test_who_waits_no_more_is_not_called(turns: Turns) -> None:
    goes_on, called = threading.Event(), []
    first = asyncio.create_task(turns.take(goes_on.wait, seconds=180))
    await asyncio.sleep(0)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await turns.take(lambda: called.append("late"), seconds=180)
    goes_on.set()
    assert await first
    assert await turns.take(lambda: "next", seconds=180) == "next"
    assert called == []
