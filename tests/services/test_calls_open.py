"""Within a batch of calls nobody can be asked: who asks waits, and is then told which results are missing."""

from __future__ import annotations

import asyncio
import time

import pytest

from actors.host.bootstrap import Runtime
from protocol.client import Client
from protocol.errors import CallsOpen
from tests.builders import assistant, result, user
from tests.conftest import layer


async def test_an_unfinished_batch_is_waited_for_and_then_named(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("pay"), assistant(None, "x1", "x2"), result("x1", "1")])
    started = time.monotonic()
    with pytest.raises(CallsOpen, match="waits for the results of calls x2") as raised:
        await talk.context(patience=0.5)
    assert time.monotonic() - started >= 0.5
    assert raised.value.fields["calls"] == "x2"


async def test_who_waits_is_served_when_the_last_result_comes(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("pay"), assistant(None, "x1")])
    asking = asyncio.create_task((await client.open(name)).context(patience=180))
    await asyncio.sleep(0.5)  # nothing
    assert not asking.done()
    await talk.append([result("x1", "paid")])
    assert (await asking).messages == [user("pay"), assistant(None, "x1"), result("x1", "paid")]


async def test_a_user_who_speaks_over_a_call_sees_it_run_and_then_its_result(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("pay"), assistant(None, "x1"), user("still there?")])
    running = await talk.context(patience=180)
    assert "still running" in running.messages[2]["content"]
    await talk.append([result("x1", "paid")])
    done = await talk.context(patience=180)
    assert done.messages == [user("pay"), assistant(None, "x1"), result("x1", "paid"), user("still there?")]
    assert done.version > running.version
