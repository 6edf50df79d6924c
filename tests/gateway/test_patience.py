"""Where nothing else could be sent a gateway has more patience than its deadline, but not with a NATS that is away."""

from __future__ import annotations

import time

import aiohttp
import pytest

from actors.gateway import plan
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.formats.messages import CHAT
from protocol.ids import fresh_id
from tests.gateway.model import OVERFLOW, Json, Reply, StrictModel, refused
from tests.gateway.provider import Answer, Asked, in_front_of, provider
from tests.gateway.test_outages import line_to

pytestmark = pytest.mark.slow

SECTION: Json = {"mode": "manage", "window": 16_000, "deadline_seconds": 1.0}

PATIENCE_SECONDS = 300.0
"""So long that a busy machine is not taken for a long wait."""


async def test_who_asks_for_a_compaction_while_nats_is_frozen_is_passed_on_early(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "NOTHING_ELSE_SECONDS", PATIENCE_SECONDS)
    said = [{"role": "user", "content": f"Go on, {fresh_id()}."}]
    model = StrictModel(window=16_000, replies=lambda run, turn: Reply(text="On."))
    async with (
        provider(model) as there,
        line_to(settings) as (line, ours),
        in_front_of(there, ours, **SECTION) as url,
    ):
        body: Json = {"model": "gpt-4o", "instructions": "run x ", "input": said}
        while (await session.post(f"{url}/v1/responses", json=body)).headers["x-jettison"] != "kept":
            pass
        there.script = lambda _: Answer(pieces=(b'{"object": "response.compaction"}',))
        line.open.clear()
        began = time.monotonic()
        got = await session.post(f"{url}/v1/responses/compact", json=body)
        # two deadlines, and not all that is waited where NATS is there
        assert time.monotonic() - began < PATIENCE_SECONDS / 3
        assert (got.status, got.headers["x-jettison"]) == (200, "bypass; NATS does not answer")
        assert await got.json() == {"object": "response.compaction"}


async def test_a_provider_that_refuses_a_request_as_too_long_is_heard_early_where_nats_froze_meanwhile(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "NOTHING_ELSE_SECONDS", PATIENCE_SECONDS)
    model = StrictModel(window=16_000, replies=lambda run, turn: Reply(text="On."))
    said = [{"role": "user", "content": f"Go on, {fresh_id()}."}]
    body: Json = {"model": "gpt-4o", "messages": [{"role": "system", "content": "run x "}, *said]}
    async with (
        provider(model) as there,
        line_to(settings) as (line, ours),
        in_front_of(there, ours, **SECTION) as url,
    ):
        while (await session.post(f"{url}/v1/chat/completions", json=body)).headers["x-jettison"] != "kept":
            pass

        def freezes(asked: Asked) -> Answer:
            line.open.clear()
            return refused(CHAT, OVERFLOW, size=17_000, window=16_000)

        there.script, count = freezes, len(there.asked)
        began = time.monotonic()
        got = await session.post(f"{url}/v1/chat/completions", json=body)
        assert time.monotonic() - began < PATIENCE_SECONDS / 3
        assert (got.status, (await got.json())["error"]["code"]) == (400, "context_length_exceeded")
        assert len(there.asked) == count + 1
