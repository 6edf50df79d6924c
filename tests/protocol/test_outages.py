"""An outage is told when it begins, once a minute, and when it ends; never at each try."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from actors.cli.session import located
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.connection import outage_of
from protocol.ids import fresh_id
from protocol.outages import Outage
from tests.builders import user
from tests.conftest import at_work, layer
from tests.host.test_signals import servers, up
from tests.runtime.test_outages import LOG, call_and_result, without_store


def test_many_tries_of_many_are_three_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("protocol.outages.time.monotonic", lambda: now)
    found: list[str] = []
    outage = Outage(found.append, "the store")
    for _ in range(100):
        now += 0.7
        outage.failed("is away", who="a")
        outage.failed("is away", who="b")
    outage.succeeded(who="a")
    outage.succeeded(who="b")
    outage.succeeded(who="b")
    assert found == [
        "the store: is away",
        "the store: still, for 60 s, after 173 tries: is away",
        "the store: well again after 69 s and 200 tries, work goes on",
    ]


def test_one_that_flickers_is_not_told_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("protocol.outages.time.monotonic", lambda: now)
    found: list[str] = []
    outage = Outage(found.append, "NATS")
    for _ in range(50):
        now += 1.0
        outage.failed("is away")
        outage.succeeded()
    assert found == ["NATS: is away", "NATS: well again after 0 s and 1 try, work goes on"]


def told(caplog: pytest.LogCaptureFixture, what: str) -> list[str]:
    """Return our own warnings of *what*: nats-py logs errors of its own, of other tests' connections too."""
    ours = (one for one in caplog.records if one.levelno >= logging.WARNING and one.name.startswith("jettison"))
    messages = (one.getMessage() for one in ours)
    return [message for message in messages if what in message]


async def delivered(running: Runtime) -> int:
    """Return how often a slot of spill was handed out so far."""
    info = await running.connection.jetstream().consumer_info(subjects.WAKE_STREAM, subjects.durable("spill"))
    return info.delivered.consumer_seq if info.delivered else 0


async def test_an_agent_and_workers_log_a_store_that_is_away_once(
    settings: Settings, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(without_store(settings), ("spill",)) as away:
        before = await delivered(away)
        for number in range(6):
            talk = await client.open(f"away-{fresh_id()}", policy=layer(spill={"on_store_error": "wait"}))
            await talk.append(call_and_result("a", f"{number}\n{LOG}"))
        async with asyncio.timeout(180):
            while await delivered(away) < before + 3 * 6:  # each of the six waited and came again, twice
                await asyncio.sleep(0.05)
    assert len(told(caplog, "S3 PutObject failed")) == 1


@pytest.mark.slow
async def test_an_agent_logs_a_nats_that_is_away_once_and_that_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with up(tmp_path) as process:
        nats = servers(process)["nats-server"]
        async with Client.connect(located(Settings(data=str(tmp_path))).nats.url) as client:
            talk = await client.open("agent")
            os.kill(nats, signal.SIGSTOP)
            saying = [asyncio.create_task(talk.append([user(str(number))], patience=180)) for number in range(4)]
            async with asyncio.timeout(180):
                while outage_of(client.connection)._tries < 3:
                    await asyncio.sleep(0.05)
            os.kill(nats, signal.SIGCONT)
            await asyncio.gather(*saying)
            # what was said may be confirmed a moment before the reconnection is told
            async with asyncio.timeout(180):
                while len(told(caplog, "nats: ")) < 2:
                    await asyncio.sleep(0.05)
    found = told(caplog, "nats: ")
    assert len(found) == 2, found
    assert "well again after" in found[1]
