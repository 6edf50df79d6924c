"""What breaks off, hangs or never ends: the agent gets an error that its SDK knows, and nothing stays behind."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import aiohttp
import openai
import pytest

from actors.cli import http_server
from actors.gateway import incoming as requests
from actors.gateway.sse import WholeEvents
from tests.gateway.provider import BODY, CUT, Answer, in_front_of, provider, sse, without_nats
from tests.stack import LOOPBACK

EVENTS = {"content-type": "text/event-stream"}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
SAID = {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "On"}, "finish_reason": None}]}
MESSAGE: Any = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
BEGUN = {"type": "message_start", "message": {**MESSAGE, "usage": {"input_tokens": 1, "output_tokens": 1}}}
ASKED: Any = {"model": "m", "messages": [{"role": "user", "content": "Go on."}], "stream": True}


async def test_an_sdk_takes_a_stream_that_was_cut_within_an_event_for_its_providers_error() -> None:
    """Half an event is not passed on: its reader would stumble over it, and never see the error that follows."""
    # it takes a second and a half to import, which each tester would pay for
    import anthropic

    def script(asked: Any) -> Answer:
        whole, half = (sse(SAID), b'data: {"id') if "chat" in asked.target else (sse(BEGUN), b'event: ping\ndata: {"t')
        return Answer(headers=EVENTS, pieces=(whole + half, 0.05, CUT))

    async with provider(script) as there, in_front_of(there) as url:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as llm:
            with pytest.raises(openai.APIError, match="broke off"):
                [_ async for _ in await llm.chat.completions.create(**ASKED)]
        async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as other:
            with pytest.raises(anthropic.APIError, match="broke off"):
                [_ async for _ in await other.messages.create(max_tokens=9, **ASKED)]


def test_a_stream_goes_on_in_whole_events_however_it_is_cut() -> None:
    stream = b'event: a\ndata: {"x":1}\n\ndata: 1\ndata: 2\r\n\r\n: ping\n\ndata: [DONE]\n\nrest'
    for size in range(1, 12):
        events, out = WholeEvents(), []
        for at in range(0, len(stream), size):
            out.append(events.fed(stream[at : at + size]))
        assert all(one.endswith((b"\n\n", b"\r\n\r\n")) for one in out if one)
        assert (b"".join(out) + events.rest(), events.rest()) == (stream, b"rest")


async def test_a_refusal_that_breaks_off_is_told_in_the_providers_shape(session: aiohttp.ClientSession) -> None:
    answer = Answer(status=400, headers={"content-length": "100"}, pieces=(b'{"error":', 0.01, CUT))
    async with provider(lambda _: answer) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/chat/completions", data=BODY)
        assert (got.status, (await got.json())["error"]["type"]) == (502, "api_error")


async def test_an_answer_that_is_under_way_ends_whole_when_its_gateway_is_told_to_stop(
    session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "CLOSING_SECONDS", 0)  # the page has no more patience than that
    answer, got = Answer(headers=EVENTS, pieces=(b"data: 1\n\n", 1.0, b"data: 2\n\n")), b""
    async with provider(lambda _: answer) as there:
        async with in_front_of(there) as url:
            asked = await session.post(f"{url}/v1/chat/completions", data=BODY)
        with suppress(aiohttp.ClientError):
            got = await asked.read()
    assert got == b"data: 1\n\ndata: 2\n\n"


async def test_an_agent_that_hangs_up_ends_the_question_however_large_it_was(session: aiohttp.ClientSession) -> None:
    answer = Answer(headers=EVENTS, pieces=(b"data: 1\n\n", 3600.0))
    async with provider(lambda _: answer) as there, in_front_of(there, body_bytes_max=1000) as url:
        got = await session.post(f"{url}/v1/chat/completions", data=b"x" * 300_000)
        await got.content.readany()
        got.close()
        async with asyncio.timeout(180):
            await there.ended.wait()


async def test_an_agent_that_hangs_up_within_its_question_ends_it() -> None:
    under_way = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield b"x" * 300_000
        under_way.set()
        await asyncio.Event().wait()

    async with provider(lambda _: Answer()) as there, in_front_of(there, body_bytes_max=1000) as url:
        async with aiohttp.ClientSession() as leaving:
            asking = asyncio.create_task(leaving.post(f"{url}/v1/messages", data=endless()))
            await under_way.wait()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        # it never came whole, so nobody answered it; the gateway still serves
        async with aiohttp.ClientSession() as other:
            assert (await other.get(f"{url}/v1/models")).status == 200
    assert [one.method for one in there.asked] == ["GET"]


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nx: ", b"POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhello"], ids=len
)
async def test_who_does_not_say_what_he_wants_is_not_waited_for(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    # who asks in time and stays silent has as long as he needs for his question
    monkeypatch.setattr(http_server, "IDLE_SECONDS" if sent.endswith(b"hello") else "HEADER_SECONDS", 0.3)
    async with provider(lambda _: Answer()) as there, in_front_of(there) as url:
        began = time.monotonic()
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        writer.write(sent)
        async with asyncio.timeout(180):
            answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 200") == sent.endswith(b"hello")
        assert time.monotonic() - began >= 0.25
        writer.close()


async def test_a_body_that_stays_away_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "SILENCE_SECONDS", 0.3)
    async with provider(lambda _: Answer()) as there, in_front_of(there) as url:
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhe")
        async with asyncio.timeout(180):
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        writer.close()
    assert there.asked == []


TOO_MANY = http_server.HEADER_BYTES_MAX + 5000


@pytest.mark.parametrize("header", [b"x: " + b"y" * TOO_MANY, b"x: y\r\n" * (TOO_MANY // 6)], ids=["one", "many"])
async def test_headers_without_an_end_are_refused(header: bytes) -> None:
    async with provider(lambda _: Answer()) as there, in_front_of(there) as url:
        reader, writer = await asyncio.open_connection(LOOPBACK, int(url.rpartition(":")[2]))
        writer.write(b"GET /v1/models HTTP/1.1\r\n" + header)
        async with asyncio.timeout(180):
            assert (await reader.readline()).startswith(b"HTTP/1.1 400 ")
        writer.close()
    assert there.asked == []


async def test_headers_of_some_length_are_taken(session: aiohttp.ClientSession) -> None:
    given = {"x-long": json.dumps({"turn": "z" * 6000}), **{f"x-{number}": "v" * 100 for number in range(100)}}
    async with provider(lambda _: Answer()) as there, in_front_of(there) as url:
        for _ in range(2):
            assert (await session.post(f"{url}/v1/messages", data=b"{}", headers=given)).status == 200
    assert there.asked[1].header("x-long") == given["x-long"]
