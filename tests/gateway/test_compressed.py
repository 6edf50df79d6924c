"""What came compressed is read, kept and served a view as anything else; its provider gets that view plain."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import aiohttp
import pytest
from backports import zstd

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.ids import fresh_id
from tests.gateway.model import API_OF, Json, Reply, StrictModel, words
from tests.gateway.provider import in_front_of, provider

pytestmark = pytest.mark.slow

WINDOW = 16_000
PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "zstd": zstd.compress}


def asked(path: str, run: str) -> Json:
    said = [{"role": "user", "content": f"{at} {words(600)}"} for at in range(12)]
    history = [message for one in said for message in (one, {"role": "assistant", "content": "On."})]
    history += [{"role": "user", "content": "And?"}]
    told = f"run {run} "
    if path == "/v1/responses":
        return {"model": "gpt-4o", "instructions": told, "input": history}
    if path == "/v1/messages":
        return {"model": "claude-x", "system": told, "max_tokens": 100, "messages": history}
    return {"model": "gpt-4o", "messages": [{"role": "system", "content": told}, *history]}


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("path", API_OF)
async def test_a_compressed_request_gets_a_view_and_its_provider_a_plain_one(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, path: str, encoding: str
) -> None:
    model = StrictModel(window=WINDOW, replies=lambda run, turn: Reply(text="All is well."))
    body = json.dumps(asked(path, fresh_id()[:8])).encode()
    section: Json = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    given = {"content-type": "application/json", "content-encoding": encoding}
    async with provider(model) as there, in_front_of(there, settings, **section) as url:
        got = await session.post(f"{url}{path}", data=PACKED[encoding](body), headers=given)
        assert (got.status, got.headers["x-jettison"]) == (200, "view")
        assert "All is well." in await got.text()
    (sent,) = there.asked
    assert sent.header("content-encoding") == ""
    assert b"[Account of messages" in sent.body
    assert len(sent.body) < len(body)
