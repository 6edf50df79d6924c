"""Where not even the smallest view fits, an agent hears it in its provider's words, and the operator in a line."""

from __future__ import annotations

import logging
import re

import aiohttp
import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import fresh_id
from tests.gateway.model import API_OF, Json, Reply, StrictModel, words
from tests.gateway.provider import in_front_of, provider

pytestmark = pytest.mark.slow

WINDOW = 16_000
TOLD = {
    "/v1/chat/completions": rf"maximum context length is {WINDOW} tokens. However, your messages have (\d+) tokens",
    "/v1/responses": rf"maximum context length is {WINDOW} tokens. However, your messages have (\d+) tokens",
    "/v1/messages": rf"prompt is too long: (\d+) tokens > {WINDOW} maximum",
}


def asked(path: str, instructions: str, said: str) -> Json:
    messages = [{"role": "user", "content": f"{said} {words(2500)}"}]
    if path == "/v1/responses":
        return {"model": "gpt-4o", "instructions": instructions, "input": messages}
    if path == "/v1/messages":
        return {"model": "claude-x", "system": instructions, "max_tokens": 100, "messages": messages}
    return {"model": "gpt-4o", "messages": [{"role": "system", "content": instructions}, *messages]}


@pytest.mark.parametrize("path", API_OF)
async def test_what_has_no_view_that_fits_is_refused_as_its_provider_does_and_told(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, "jettison.gateway.requests")
    model, said = StrictModel(window=WINDOW, replies=lambda run, turn: Reply(text="On.")), fresh_id()
    section: Json = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    named = {"x-jettison-conversation": said}
    async with provider(model) as there, in_front_of(there, settings, **section) as url:
        first = await session.post(f"{url}{path}", json=asked(path, "run x ", said), headers=named)
        assert (first.status, len(there.asked)) == (200, 1)
        # its instructions alone take what was left
        longer = asked(path, f"run x {words(9_000)}", said)
        got = await session.post(f"{url}{path}", json=longer, headers=named)
        error = (await got.json())["error"]
    assert (got.status, got.headers["x-jettison"], len(there.asked)) == (400, "refused", 1)
    found = re.search(TOLD[path], error["message"])
    assert found, error
    assert int(found[1]) > WINDOW
    assert error.get("code", "context_length_exceeded") == "context_length_exceeded"
    line = [one.getMessage() for one in caplog.records if one.name == "jettison.gateway.requests"][-1]
    assert line.startswith(f"{'anthropic' if path == '/v1/messages' else 'openai'} refused 400 POST {path}: ")
