"""What agents get while the gateway cannot do its work: their request as it came, or a refusal where that is set."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import msgspec
import pytest

from actors.gateway import breaker as breakers
from actors.gateway import plan
from actors.gateway.breaker import FAILURES_MAX, PAUSE_SECONDS, Breaker
from actors.host.bootstrap import Runtime
from actors.host.settings import NatsSection, Settings
from protocol import codec
from protocol.facts import CompactionRequested, ContextServed, ConversationForked, HistoryAccounted, UsageReported
from protocol.formats import messages
from protocol.ids import address, fresh_id
from tests.conftest import done_facts
from tests.gateway.model import Json, Reply, StrictModel, words
from tests.gateway.provider import BODY, Answer, Provider, in_front_of, provider, without_nats
from tests.said import said_messages
from tests.stack import LOOPBACK


async def test_without_nats_a_request_goes_on_as_it_came_and_says_so(session: aiohttp.ClientSession) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/chat/completions", data=BODY)
        assert (got.status, got.headers["x-jettison"]) == (200, "bypass; NATS was not reached yet")
    assert there.asked[0].body == BODY


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_where_settings_refuse_nothing_goes_on(session: aiohttp.ClientSession, path: str) -> None:
    section: Json = {"mode": "manage", "on_failure": "refuse"}
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), **section) as url:
        got = await session.post(url + path, data=BODY)
        assert (got.status, got.headers["retry-after"]) == (503, "5")
        assert (await got.json())["error"]["type"] == "overloaded_error"
        # what has no conversation that could be kept is not held up by one that cannot be
        foreign = await session.post(f"{url}/v1/responses", data=b'{"input": "x", "background": true}')
        assert foreign.status == 200
    assert len(there.asked) == 1


@pytest.mark.parametrize(
    "body", [b"no JSON", b"[]", b"{}", b'{"messages": []}', b'{"messages": [{"role": "system"}]}', b'{"messages": 1}']
)
async def test_what_cannot_be_read_goes_on_as_it_came(session: aiohttp.ClientSession, body: bytes) -> None:
    async with (
        provider(lambda _: Answer(status=400)) as there,
        in_front_of(there, without_nats(), mode="manage") as url,
    ):
        got = await session.post(f"{url}/v1/chat/completions", data=body)
        assert (got.status, await got.read()) == (400, b"{}")
    assert there.asked[0].body == body


async def test_a_line_tells_what_was_done_and_no_key(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    usage = b'{"usage": {"prompt_tokens": 1234, "completion_tokens": 5}}'
    answer, key = Answer(pieces=(usage,)), {"authorization": "Bearer sk-secret"}
    async with provider(lambda _: answer) as there, in_front_of(there, without_nats(), mode="manage") as url:
        await (await session.post(f"{url}/v1/chat/completions", data=BODY, headers=key)).read()
    (line,) = [one.getMessage() for one in caplog.records if one.name == "jettison.gateway.requests"]
    assert line.startswith(
        f"chat bypass 200 default/-: NATS was not reached yet; {len(BODY)} bytes in, {len(usage)} out, "
    )
    assert "sk-secret" not in caplog.text
    assert "Hello." not in caplog.text


async def test_the_trace_of_an_agent_goes_on_to_its_provider(session: aiohttp.ClientSession) -> None:
    trace = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01", "tracestate": "v=1"}
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        await (await session.post(f"{url}/v1/chat/completions", data=BODY, headers=trace)).read()
    (given,) = [value for key, value in there.asked[0].headers if key.lower() == "traceparent"]
    assert given.split("-")[1] == "ab" * 16
    assert there.asked[0].header("tracestate") == "v=1"


def test_the_breaker_opens_after_failures_in_a_row_and_then_lets_one_through() -> None:
    now = [0.0]
    breaker = Breaker(clock=lambda: now[0])
    for _ in range(FAILURES_MAX - 1):
        breaker.failed()
    assert breaker.lets_through()
    breaker.worked()
    for _ in range(FAILURES_MAX):
        breaker.failed()
    assert not breaker.lets_through()
    now[0] = PAUSE_SECONDS
    assert [breaker.lets_through(), breaker.lets_through()] == [True, False]
    breaker.worked()
    assert breaker.lets_through()


class Line:
    """A way to a server that can be frozen: connections stay, and nothing goes through."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.open = asyncio.Event()
        self.open.set()

    async def joined(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(LOOPBACK, self._port)
        try:
            await asyncio.gather(self._pumped(reader, there_writer), self._pumped(there_reader, writer))
        finally:
            writer.close()
            there_writer.close()

    async def _pumped(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                await self.open.wait()
                writer.write(data)
                await writer.drain()
            writer.close()


@asynccontextmanager
async def line_to(settings: Settings) -> AsyncIterator[tuple[Line, Settings]]:
    line = Line(int(settings.nats.url.rpartition(":")[2]))
    server = await asyncio.start_server(line.joined, LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield line, msgspec.structs.replace(settings, nats=NatsSection(url=f"nats://{LOOPBACK}:{port}"))
    finally:
        line.open.set()
        server.close()


@pytest.mark.slow
async def test_view_bypass_view_while_nats_freezes(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider that binds thoughts to what stood before them refuses nothing, and nothing is in the log twice."""
    monkeypatch.setattr(breakers, "PAUSE_SECONDS", 0.1)
    told = "\n".join(f"line {number}: request {number * 7919}" for number in range(1500))
    model = StrictModel(
        window=1_000_000, replies=lambda run, turn: Reply(thinks=f"t{turn}", text="On.", calls=(("look", {}),))
    )
    asked: Json = {
        # has room for all of it, as it came, and binds its thoughts
        "model": "claude-opus-5",
        "max_tokens": 100,
        "system": f"run {fresh_id()[:8]} ",
        "tools": [{"name": "look"}],
    }
    history: list[Json] = [{"role": "user", "content": f"Go on, {fresh_id()}."}]

    async def turn(url: str) -> Any:
        """Ask once, and answer the call; return how it was managed."""
        got = await session.post(f"{url}/v1/messages", json={**asked, "messages": history}, headers={"x-api-key": "k"})
        answer = await got.json()
        assert got.status == 200, answer
        history.append({"role": "assistant", "content": answer["content"]})
        result = {"type": "tool_result", "tool_use_id": answer["content"][-1]["id"], "content": told}
        history.append({"role": "user", "content": [result]})
        return got.headers

    async def until(url: str, how: str) -> Any:
        ends = time.monotonic() + 180
        while not (headers := await turn(url))["x-jettison"].startswith(how):
            assert time.monotonic() < ends
        return headers

    section: Json = {"mode": "manage", "window": 20_000, "deadline_seconds": 1.0}
    async with (
        provider(model) as there,
        line_to(settings) as (line, ours),
        in_front_of(there, ours, **section) as url,
    ):
        await until(url, "view")
        line.open.clear()
        await until(url, "bypass")
        await until(url, "bypass")
        line.open.set()
        await until(url, "view")
        sent = len(history)
        headers = await until(url, "view")
        await _counted(session, url, {**asked, "messages": [*history, *_more(history)]}, there)
    assert model.refused == []
    at = address(headers["x-jettison-conversation"])
    # who counts asks for smaller views, and none of them is the one that stands
    records = await working.log.read(at, after=0)
    facts = [fact for one in records if one.side == "said" for fact in codec.decode_said(one.body).facts]
    assert not [fact for fact in facts if isinstance(fact, CompactionRequested)]
    said = [messages.decode(one.raw) for one in await said_messages(at, log=working.log)]
    assert len(said) >= sent
    assert len({json.dumps(one) for one in said}) == len(said)
    assert '"thinking"' in json.dumps(said)


def _more(history: list[Json]) -> list[Json]:
    """Return what the agent may send next: more than a budget's step."""
    return [{"role": "assistant", "content": "Well."}, {"role": "user", "content": f"{len(history)} " * 3000}]


async def _counted(session: aiohttp.ClientSession, url: str, body: Json, there: Provider) -> None:
    """Count the tokens of a request three times: of its view, and of what is in no log yet."""
    script, there.script = there.script, lambda _: Answer(pieces=(b'{"input_tokens": 7}',))
    ends, views = time.monotonic() + 180, 0
    while views < 3:
        assert time.monotonic() < ends
        got = await session.post(f"{url}/v1/messages/count_tokens", json=body, headers={"x-api-key": "k"})
        assert await got.json() == {"input_tokens": 7}
        # a busy machine may take longer than the deadline
        views += got.headers["x-jettison"] == "view"
        assert got.headers["x-jettison"] in ("view", *AWAY)
    there.script = script
    sent = there.asked[-1]
    assert sent.target == "/v1/messages/count_tokens"
    assert len(sent.body) < len(json.dumps(body)) / 2
    assert sent.json["messages"][-1] == body["messages"][-1]


AWAY = ("bypass; the deadline is over", "bypass; what it needs was away a moment ago")


@pytest.mark.slow
async def test_a_view_that_is_too_long_for_its_provider_is_followed_by_shorter_ones(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession
) -> None:
    model = StrictModel(window=7_000, replies=lambda run, turn: Reply(text="All is well."))
    history: list[Json] = [{"role": "system", "content": f"run {fresh_id()[:8]} "}]
    for turn in range(12):
        history += [
            {"role": "user", "content": f"{turn}: {words(400)}"},
            {"role": "assistant", "content": f"I see {turn}."},
        ]
    body: Json = {"model": "gpt-4o", "messages": [*history, {"role": "user", "content": "And?"}]}
    section: Json = {"mode": "manage", "window": 16_000, "deadline_seconds": 20.0}
    async with provider(model) as there, in_front_of(there, settings, **section) as url:
        got = await session.post(f"{url}/v1/chat/completions", json=body)
        assert (await got.json())["choices"][0]["message"]["content"] == "All is well."
    assert model.refused in (["overflow"], ["overflow"] * 2)
    # its model has no tools, so no text of ours names one; and the account is there
    assert [b"read_artifact" in one.body for one in there.asked] == [False] * len(there.asked)
    assert b"[Account of messages" in there.asked[-1].body
    sizes = [len(one.body) for one in there.asked]
    assert sizes == sorted(set(sizes), reverse=True)


@pytest.mark.slow
async def test_what_fits_no_window_as_it_came_waits_longer_for_its_view_and_is_refused_for_a_retry(
    working: Runtime,
    settings: Settings,
    session: aiohttp.ClientSession,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Passed on at the deadline it would be a 400, which no SDK asks again."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(breakers, "PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(plan, "NOTHING_ELSE_SECONDS", 300.0)  # so that a busy machine is not taken for a long wait
    model = StrictModel(window=16_000, replies=lambda run, turn: Reply(text="All is well."))
    body: Json = {"model": "of-nobody", "messages": [{"role": "system", "content": f"run {fresh_id()[:8]} "}]}
    small: Json = {**body, "messages": [*body["messages"], {"role": "user", "content": "Hello."}]}
    for turn in range(24):
        said = {"role": "user", "content": f"{turn}: {words(400)}"}
        body["messages"] += [said, {"role": "assistant", "content": "On."}]
    body["messages"] += [{"role": "user", "content": "And?"}]
    section: Json = {"mode": "manage", "window": 16_000, "deadline_seconds": 1.0}

    async def asked(url: str, body: Json) -> aiohttp.ClientResponse:
        return await session.post(f"{url}/v1/chat/completions", json=body)

    async with (
        provider(model) as there,
        line_to(settings) as (line, ours),
        in_front_of(there, ours, **section) as url,
    ):
        while (await asked(url, small)).headers["x-jettison"] != "kept":
            await asyncio.sleep(0.1)
        line.open.clear()
        caplog.clear()
        began = time.monotonic()
        got = await asked(url, body)
        assert (got.status, got.headers.get("retry-after"), model.refused) == (503, "5", [])
        # two deadlines, and not all that is waited where NATS is there
        assert time.monotonic() - began < plan.NOTHING_ELSE_SECONDS / 3
        assert (await got.json())["error"] == {
            "message": "the gateway cannot manage this request now (NATS does not answer), "
            "and it does not fit its model's window as it came",
            **{"type": "overloaded_error", "param": None, "code": None},
        }
        assert "as it came" not in caplog.text.replace("window as it came", "")
        assert "chat bypass 503 default/" in caplog.text
        assert (await asked(url, small)).status == 200
        monkeypatch.setattr(plan, "NOTHING_ELSE_SECONDS", 180.0)
        caplog.clear()
        asking = asyncio.create_task(asked(url, body))
        while plan.WAITS not in caplog.text and not asking.done():
            await asyncio.sleep(0.05)
        line.open.set()
        while (got := await asking).status == 503:
            # as SDKs do: what was frozen may have ended with an error
            await asyncio.sleep(0.1)
            asking = asyncio.create_task(asked(url, body))
        assert (got.status, got.headers["x-jettison"]) == (200, "view")


@pytest.mark.slow
async def test_two_gateways_in_turn_serve_one_agent(
    working: Runtime, settings: Settings, session: aiohttp.ClientSession
) -> None:
    """Each finds the other's claims, appends what may be there already, and the log has every message once."""
    model = StrictModel(window=100_000, replies=lambda run, turn: Reply(text=f"{turn}.", calls=(("look", {}),)))
    body: Json = {"model": "gpt-4o", "tools": [{"type": "function", "function": {"name": "look"}}]}
    history: list[Json] = [
        {"role": "system", "content": f"run {fresh_id()[:8]} "},
        {"role": "user", "content": "Go on."},
    ]
    section: Json = {"mode": "manage", "window": 12_000, "deadline_seconds": 20.0}
    names, hows = set(), []
    async with (
        provider(model) as there,
        in_front_of(there, settings, **section) as one,
        in_front_of(there, settings, **section) as other,
    ):
        for turn in range(8):
            url = (one, other)[turn % 2]
            got = await session.post(f"{url}/v1/chat/completions", json={**body, "messages": history})
            names.add(got.headers.get("x-jettison-conversation"))
            hows.append(got.headers["x-jettison"])
            answer = (await got.json())["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": answer["tool_calls"][0]["id"], "content": f"{turn} {words(900)}"}
            sent, history = history, [*history, answer, result]
        edited = [*sent[:-4], {"role": "user", "content": "No, go back."}]
        branches = [
            await session.post(f"{url}/v1/chat/completions", json={**body, "messages": edited})
            for url in (one, other, other)
        ]
    assert (len(names), hows[-1]) == (1, "view")
    await _is_a_branch(working, branches, of=str(next(iter(names))), said=edited[1:])
    at = address(str(names.pop()))
    said = [messages.decode(one.raw) for one in await said_messages(at, log=working.log)]
    assert said == sent[1:]
    records = await working.log.read(at, after=0)
    facts = [fact for record in records if record.side == "said" for fact in codec.decode_said(record.body).facts]
    assert [fact.input_tokens > 0 for fact in facts if isinstance(fact, UsageReported)]


async def _is_a_branch(working: Runtime, got: list[aiohttp.ClientResponse], *, of: str, said: list[Json]) -> None:
    """Check that an edit was answered with the view of a fork, and that its retries are no further ones."""
    assert {one.headers["x-jettison"] for one in got} == {"view"}
    (name,) = {one.headers["x-jettison-conversation"] for one in got}
    at = address(name)
    records = await working.log.read(at, after=0)
    (forked,) = [one for one in done_facts(records) if isinstance(one, ConversationForked)]
    assert forked.parent == str(address(of))
    assert [messages.decode(one.raw) for one in await said_messages(at, log=working.log)] == said
    # the compaction of what it was is its own too
    assert {HistoryAccounted, ContextServed} <= {type(one) for one in done_facts(records)}


async def test_a_new_gateway_asks_again_without_thoughts_that_are_bound_to_a_view_before_it(
    session: aiohttp.ClientSession,
) -> None:
    """Nobody can tell it, while NATS is away, what another gateway had sent."""
    model = StrictModel(window=100_000, replies=lambda run, turn: Reply(text="On."))
    thought = {"type": "thinking", "thinking": "hm", "signature": "made behind a view"}
    answer = {"role": "assistant", "content": [thought, {"type": "text", "text": "On."}]}
    said: list[Json] = [{"role": "user", "content": "Go on."}, answer, {"role": "user", "content": "And on."}]
    body: Json = {"model": "claude-x", "max_tokens": 100, "system": "run thinking ", "messages": said}
    async with provider(model) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/messages", json=body)
        assert (got.status, (await got.json())["content"]) == (200, [{"type": "text", "text": "On."}])
    first, second = there.asked
    assert first.json == body
    assert second.json["messages"][1]["content"] == [{"type": "text", "text": "On."}]
