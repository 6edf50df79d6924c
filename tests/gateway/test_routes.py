"""An agent whose base URL has no `/v1`, or two, is managed as any other: on `pass` it would believe that it is."""

from __future__ import annotations

import aiohttp
import pytest

from actors.gateway.apis import route_of
from actors.gateway.upstream import url_of
from tests.gateway.provider import BODY, Answer, in_front_of, provider, without_nats

MANAGED = "bypass; NATS was not reached yet"
ITEMS = b'{"model": "m", "input": [{"role": "user", "content": "Hello."}]}'
BODIES = {
    "/chat/completions": BODY,
    "/messages": BODY,
    "/messages/count_tokens": BODY,
    "/responses": ITEMS,
    "/responses/compact": ITEMS,
    "/responses/input_tokens": ITEMS,
}


@pytest.mark.parametrize("written", ["", "/v1", "/v1/v1", "/", "//v1"])
@pytest.mark.parametrize("path", BODIES)
async def test_a_route_is_managed_however_often_it_has_v1_and_its_provider_is_asked_with_one(
    session: aiohttp.ClientSession, path: str, written: str
) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}{written}{path}?beta=true", data=BODIES[path])
        assert (got.status, got.headers["x-jettison"]) == (200, MANAGED)
    assert there.asked[0].target == f"/v1{path}?beta=true"


async def test_lists_of_models_are_served_without_v1_where_the_gateway_has_keys_of_its_own(
    session: aiohttp.ClientSession,
) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there, openai_key="sk-own") as url:
        found = [(await session.get(f"{url}{path}")).status for path in ("/models", "/models/m", "/files")]
    assert found == [200, 200, 403]


@pytest.mark.parametrize(
    ("base", "path", "wanted"),
    [
        ("https://a.example", "/messages", "https://a.example/v1/messages"),
        ("https://a.example/", "/models/m", "https://a.example/v1/models/m"),
        ("https://a.example/v1", "/responses/r_1", "https://a.example/v1/responses/r_1"),
        # servers below a folder, whose paths have no version or another one
        ("https://a.example/openai/d", "/chat/completions", "https://a.example/openai/d/chat/completions"),
        ("https://a.example/api/v4", "/chat/completions", "https://a.example/api/v4/chat/completions"),
        ("https://a.example/v1", "/v1/v1/messages", "https://a.example/v1/messages"),
        ("https://a.example", "//v1/chat/completions/", "https://a.example/v1/chat/completions"),
        ("https://a.example/openai/d", "/v1/v1/messages", "https://a.example/openai/d/v1/v1/messages"),
        ("https://a.example", "/embeddings", "https://a.example/embeddings"),
        ("https://a.example", "/messages-of-others", "https://a.example/messages-of-others"),
    ],
)
def test_v1_is_added_where_the_settings_name_a_host_alone(base: str, path: str, wanted: str) -> None:
    assert url_of(base, path, "") == wanted


def test_what_has_v1_or_is_no_route_of_ours_stays_as_it_is() -> None:
    for path in ("/v1/messages", "/api/chat", "/v1/v1", "/", "/modelsx", "/x/messages", "/v1/embeddings/"):
        assert route_of(path) == path
