"""A wait that is longer than a service waits at a time: it is asked again, and nobody is refused before his time."""

from __future__ import annotations

import time

import pytest

from actors.host.settings import Settings
from actors.services import context_service
from protocol.client import Client
from protocol.errors import CallsOpen, NotReady
from protocol.ids import fresh_id
from tests.conftest import at_work, layer
from tests.runtime.test_outages import call_and_result

SECONDS = 3.0


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a service wait for a fraction of it at a time."""
    monkeypatch.setattr(context_service, "WAIT_SECONDS_MAX", SECONDS / 6)


async def test_who_waits_for_a_worker_is_refused_when_the_wait_is_over(settings: Settings, client: Client) -> None:
    async with at_work(settings, ("cut",)):
        talk = await client.open(f"unseen-{fresh_id()}", policy=layer())
        await talk.append([{"role": "user", "content": "hello"}])
        began = time.monotonic()
        with pytest.raises(NotReady, match="spill has not worked"):
            await talk.context(patience=SECONDS)
        assert time.monotonic() - began >= SECONDS


async def test_who_waits_for_a_result_is_refused_when_the_wait_is_over(settings: Settings, client: Client) -> None:
    async with at_work(settings):
        talk = await client.open(f"open-{fresh_id()}", policy=layer())
        await talk.append(call_and_result("a", "")[:2])
        began = time.monotonic()
        with pytest.raises(CallsOpen):
            await talk.context(patience=SECONDS)
        assert time.monotonic() - began >= SECONDS
