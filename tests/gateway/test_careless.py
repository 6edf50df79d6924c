"""What careless and hostile clients send: what a provider takes is taken, and nobody else waits for it."""

from __future__ import annotations

import gzip
import json

import aiohttp
import pytest

from actors.gateway import app, bodies
from actors.gateway.apis import CHAT_API, MESSAGES_API
from actors.gateway.cache_marks import marks_beside
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.errors import Rejected
from protocol.ids import address, fresh_id
from tests.conftest import settled
from tests.gateway.model import Json, Reply, StrictModel, words
from tests.gateway.provider import Answer, Provider, in_front_of, provider, without_nats

from .test_callers import OWN, TOKEN

HALF = "\ud83d"
"""Half of a sign: what JavaScript leaves where it cuts a text."""


@pytest.mark.parametrize("offered", ["h2c", "HTTP/2.0", "TLS/1.2"])
async def test_an_upgrade_that_nobody_must_take_is_not_taken(session: aiohttp.ClientSession, offered: str) -> None:
    """Java's client offers HTTP/2 with each request."""
    headers = {"upgrade": offered, "connection": "Upgrade, HTTP2-Settings", "http2-settings": "AAEAAEAA"}
    async with provider(lambda _: Answer(pieces=(b"{}",))) as there, in_front_of(there) as url:
        got = await session.post(f"{url}/v1/chat/completions", data=b"{}", headers=headers)
        assert (got.status, await got.read()) == (200, b"{}")
    (asked,) = there.asked
    assert {key.lower() for key, _ in asked.headers}.isdisjoint({"upgrade", "http2-settings"})


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_half_a_sign_in_one_message_keeps_no_conversation_from_being_managed(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, path: str
) -> None:
    model = StrictModel(window=16_000, replies=lambda run, turn: Reply(text="All is well."))
    history: list[Json] = []
    for turn in range(12):
        history += [
            {"role": "user", "content": f"{turn}: {HALF if turn == 3 else ''} {words(800)}"},
            {"role": "assistant", "content": f"I see {turn}."},
        ]
    begins = f"run {fresh_id()[:8]} "
    body: Json = {"model": "claude-x", "max_tokens": 50, "messages": [*history, {"role": "user", "content": "And?"}]}
    if path == "/v1/messages":
        body["system"] = begins
    else:
        body["messages"].insert(0, {"role": "system", "content": begins})
    section: Json = {"mode": "manage", "window": 12_000, "deadline_seconds": 20.0}
    async with provider(model) as there, in_front_of(there, settings, **section) as url:
        got = await session.post(f"{url}{path}", data=json.dumps(body), headers={"content-type": "application/json"})
        assert (got.status, got.headers["x-jettison"]) == (200, "view")
    assert model.refused == []
    assert len(there.asked[-1].body) < len(json.dumps(body)) / 2


class Thinking:
    """A provider that wants what was thought while tools run, as Anthropic does."""

    def __call__(self, asked: Provider) -> Answer:
        body = json.loads(asked.body)  # type: ignore[attr-defined]
        last = [one for one in body["messages"] if one["role"] == "assistant"][-1]
        if last["content"][0]["type"] == "thinking":
            return Answer(pieces=(b'{"content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}',))
        told = "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`."
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": told}}
        return Answer(status=400, pieces=(json.dumps(error).encode(),))


@pytest.mark.slow
async def test_where_a_provider_wants_the_thoughts_of_running_tools_it_gets_the_request_as_it_came(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession
) -> None:
    """The gateway sees the conversation for the first time, in the middle of its tools."""
    thought = {"type": "thinking", "thinking": "hm", "signature": fresh_id()}
    body: Json = {
        "model": "claude-x",
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "look", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": f"Mend it, {fresh_id()}."},
            {"role": "assistant", "content": [thought, {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "seen"}]},
        ],
    }
    async with (
        provider(Thinking()) as there,  # type: ignore[arg-type]
        in_front_of(there, settings, mode="manage", deadline_seconds=20.0) as url,
    ):
        got = await session.post(f"{url}/v1/messages", json=body, headers={"x-api-key": "k"})
        assert got.status == 200
    assert there.asked[-1].json == body


async def test_a_body_of_somebody_without_a_token_is_not_even_unfolded(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> Rejected:
        raise AssertionError("it was read")

    monkeypatch.setattr(app, "read_of", never)
    bomb = gzip.compress(b'{"model": "m", "messages": [' + b"0," * 100_000 + b"0]}")
    given = {"authorization": "Bearer nobody", "content-encoding": "gzip"}
    async with provider(lambda _: Answer()) as there, in_front_of(there, **OWN) as url:
        assert (await session.post(f"{url}/v1/chat/completions", data=bomb, headers=given)).status == 401
    assert there.asked == []


@pytest.mark.parametrize(("name", "told"), [("MESSAGES_MAX", "messages"), ("VALUES_MAX", "values")])
async def test_a_request_of_more_than_can_be_read_in_time_goes_on_as_it_came(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.setattr(bodies, name, 100)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "a"}] * 101}).encode()
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/chat/completions", data=body)
        assert got.headers["x-jettison"] == f"bypass; the request has more than 100 {told}"
    assert there.asked[0].body == body


async def test_commas_in_texts_are_no_values(session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "VALUES_MAX", 100)
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": 'a,"b",' * 1000}]}).encode()
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/chat/completions", data=body)
        assert "values" not in got.headers["x-jettison"]


async def test_what_is_not_managed_is_kept_by_no_provider_where_callers_share_its_account(
    session: aiohttp.ClientSession,
) -> None:
    given = {"authorization": f"Bearer {TOKEN}"}
    body: Json = {"model": "m", "input": [{"role": "user", "content": "Go on."}]}
    async with (
        provider(lambda _: Answer()) as there,
        in_front_of(there, without_nats(), **{**OWN, "mode": "manage"}) as url,
    ):
        got = await session.post(f"{url}/v1/responses", json=body, headers=given)
        assert got.headers["x-jettison"].startswith("bypass")
    assert there.asked[0].json == {**body, "store": False}


@pytest.mark.slow
@pytest.mark.parametrize(("tools", "more"), [(127, 1), (128, 0)])
async def test_no_tool_is_given_beside_as_many_as_a_provider_takes(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, tools: int, more: int
) -> None:
    given = [{"type": "function", "function": {"name": f"tool_{at}", "parameters": {}}} for at in range(tools)]
    body: Json = {"model": "m", "tools": given, "messages": [{"role": "user", "content": f"Look, {fresh_id()}."}]}
    async with (
        provider(lambda _: Answer(pieces=(b"{}",))) as there,
        in_front_of(there, settings, mode="manage", deadline_seconds=20.0) as url,
    ):
        await session.post(f"{url}/v1/chat/completions", json=body)
    assert len(there.asked[0].json["tools"]) == tools + more


@pytest.mark.parametrize("tools", [b"[ ]", b"null", b"{}", b'"a"', b"[1, 2"])
def test_what_is_no_list_of_tools_is_none(tools: bytes) -> None:
    fields = {"model": b'"m"', "tools": tools}
    assert not bodies.Body(api=CHAT_API, fields=fields, head=(), messages=(b"{}",), tail=()).has_tools


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 0),
        ({"cache_control": b'{"type":"ephemeral"}'}, 1),
        ({"cache_control": b"null"}, 0),
        ({"system": b'[{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}]', "cache_control": b"{}"}, 2),
    ],
)
def test_a_mark_beside_all_messages_counts_as_one_of_four(fields: dict[str, bytes], count: int) -> None:
    body = bodies.Body(api=MESSAGES_API, fields=fields, head=(), messages=(b"{}",), tail=())
    assert marks_beside(body) == count


async def test_what_goes_on_beside_its_answer_is_kept_as_it_asks(session: aiohttp.ClientSession) -> None:
    given = {"authorization": f"Bearer {TOKEN}"}
    body: Json = {"model": "m", "input": [{"role": "user", "content": "Go on."}], "background": True}
    async with (
        provider(lambda _: Answer()) as there,
        in_front_of(there, without_nats(), **{**OWN, "mode": "manage"}) as url,
    ):
        await session.post(f"{url}/v1/responses", json=body, headers=given)
        await session.post(f"{url}/v1/responses/input_tokens", json={"model": "m", "input": "x"}, headers=given)
    assert [one.json for one in there.asked] == [body, {"model": "m", "input": "x"}]


@pytest.mark.slow
async def test_a_conversation_goes_on_that_is_given_more_tools_than_a_provider_takes_with_ours(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession
) -> None:
    tools = [{"type": "function", "function": {"name": f"tool_{at}", "parameters": {}}} for at in range(128)]
    said: list[Json] = [{"role": "user", "content": f"Look, {fresh_id()}."}]
    names = []
    async with (
        provider(lambda _: Answer(pieces=(b"{}",))) as there,
        in_front_of(there, settings, mode="manage", deadline_seconds=20.0) as url,
    ):
        for given in (tools[:120], tools, tools):
            body: Json = {"model": "m", "tools": given, "messages": said}
            got = await session.post(f"{url}/v1/chat/completions", json=body)
            names.append(got.headers["x-jettison-conversation"])
            said += [{"role": "assistant", "content": f"On {len(said)}."}, {"role": "user", "content": "And?"}]
    assert len(set(names)) == 1
    assert (await settled(working, address(names[0]))).messages == 5
