"""What the gateway does not have to change goes on byte for byte, both ways, and ends with whoever asked for it."""

import asyncio
import gzip
import json
import socket
from typing import Any

import aiohttp
import pytest
from backports import zstd
from yarl import URL

from actors.gateway import sse
from actors.gateway.encodings import unfolded, unfolding
from actors.gateway.headers import forwarded
from actors.gateway.relay import pieces
from actors.gateway.sse import Events
from actors.gateway.upstream import url_of
from protocol.errors import Rejected
from tests.gateway.provider import CUT, Answer, in_front_of, provider
from tests.stack import LOOPBACK, free_port

ODD = b'{ "model":"m",\n "messages" : [ {"role":"user","content":"\\u00e9 \xc3\xa9", "content":"twice"} ] , "x":1e2}'
STREAM = (b'data: {"a":1}\n', b"\nda", b'ta: {"b":', b"2}\n\n: ping\r\n\r\ndata: [DONE]\n\n")
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}


def sent(answer: Answer) -> Any:
    return lambda _: answer


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
async def test_a_request_and_its_answer_go_on_as_the_very_bytes_that_came(
    session: aiohttp.ClientSession, encoding: str
) -> None:
    body = {"": ODD, "gzip": gzip.compress(ODD), "zstd": zstd.compress(ODD)}[encoding]
    given = {
        "content-type": "application/json",
        "authorization": "Bearer sk-1",
        "x-odd": "a, b",
        "accept-encoding": "br",
    }
    given |= {"content-encoding": encoding} if encoding else {}
    answer = Answer(status=529, headers={"content-type": "a/b", "retry-after": "7"}, pieces=(b'{ "type":', b"1}"))
    async with provider(sent(answer)) as there, in_front_of(there) as url:
        target = f"{url}/v1/chat/completions?beta=true&x=%2F"
        async with session.post(URL(target, encoded=True), data=body, headers=given) as got:
            assert (got.status, got.headers["retry-after"], await got.read()) == (529, "7", b'{ "type":1}')
    (asked,) = there.asked
    assert (asked.method, asked.target, asked.body) == ("POST", "/v1/chat/completions?beta=true&x=%2F", body)
    assert given.items() <= {key.lower(): value for key, value in asked.headers}.items()


async def test_a_stream_comes_piece_by_piece_and_unchanged(session: aiohttp.ClientSession) -> None:
    read = asyncio.Event()
    answer = Answer(headers=EVENTS, pieces=(*STREAM[:2], read, *STREAM[2:]))
    async with (
        provider(sent(answer)) as there,
        in_front_of(there) as url,
        session.post(f"{url}/v1/messages", data=b"{}") as got,
    ):
        first = await got.content.readany()
        read.set()
        assert first + await got.read() == b"".join(STREAM)


async def test_headers_between_neighbours_stay_there_and_ours_are_nobodys(session: aiohttp.ClientSession) -> None:
    given = {"connection": "keep-alive, x-hop", "x-hop": "1", "te": "trailers", "x-jettison-conversation": "t"}
    answer = Answer(headers={"x-jettison-conversation": "forged", "keep-alive": "9"})
    async with provider(sent(answer)) as there, in_front_of(there) as url:
        got = await session.get(f"{url}/v1/models", headers={**given, "host": "elsewhere.example"})
        assert got.headers.keys().isdisjoint({"x-jettison-conversation", "keep-alive"})
    (asked,) = there.asked
    assert {key.lower() for key, _ in asked.headers}.isdisjoint({"x-hop", "te", "x-jettison-conversation"})
    assert asked.header("host") == there.url.removeprefix("http://")


async def test_a_websocket_is_told_to_come_by_http(session: aiohttp.ClientSession) -> None:
    async with provider(sent(Answer())) as there, in_front_of(there) as url:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{url}/v1/responses")
    assert refused.value.status == 426
    assert there.asked == []


async def test_an_agent_that_hangs_up_ends_the_question_to_the_provider(session: aiohttp.ClientSession) -> None:
    answer = Answer(headers=EVENTS, pieces=(b"data: 1\n\n", 3600.0))
    async with provider(sent(answer)) as there, in_front_of(there) as url:
        got = await session.post(f"{url}/v1/chat/completions", data=b"{}")
        await got.content.readany()
        got.close()
        async with asyncio.timeout(180):
            await there.ended.wait()


async def test_a_stream_that_breaks_off_says_so(session: aiohttp.ClientSession) -> None:
    answer = Answer(headers=EVENTS, pieces=(b'data: {"a":', 0.01, CUT))
    async with provider(sent(answer)) as there, in_front_of(there) as url:
        got = await session.post(f"{url}/v1/messages", data=b"{}")
        _, event = list(Events().fed(await got.read()))
    assert json.loads(event.data)["error"]["type"] == "api_error"


async def test_another_answer_that_breaks_off_ends_as_it_did(session: aiohttp.ClientSession) -> None:
    answer = Answer(headers={"content-length": "100"}, pieces=(b'{"a":', 0.01, CUT))
    async with provider(sent(answer)) as there, in_front_of(there) as url:
        got = await session.post(f"{url}/v1/messages", data=b"{}")
        with pytest.raises(aiohttp.ClientPayloadError):
            await got.read()


async def test_a_provider_that_is_away_is_a_502_in_its_own_words(session: aiohttp.ClientSession) -> None:
    async with provider(sent(Answer())) as there:
        pass
    async with in_front_of(there) as url:
        got = await session.post(f"{url}/v1/messages", data=b"{}")
        assert (got.status, (await got.json())["type"]) == (502, "error")


async def test_a_request_too_large_to_look_at_still_goes_on(session: aiohttp.ClientSession) -> None:
    body = json.dumps({"messages": ["x" * 300_000]}).encode()
    async with provider(sent(Answer())) as there, in_front_of(there, body_bytes_max=1000) as url:
        got = await session.post(f"{url}/v1/messages", data=body)
        assert got.status == 200
    (asked,) = there.asked
    assert (asked.body, asked.header("content-length")) == (body, str(len(body)))


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/../admin", "/v1/%2e%2E/admin", "/..", "/a\\..\\b"),
        # as servers read it that decode a path before they take it apart
        *("/v1/models/..%2Fadmin", "/v1/models%2f%2e%2e/admin", "/v1/models/..%5cadmin", "/v1/models/x%2F.."),
    ],
)
async def test_no_path_leaves_the_place_that_the_settings_name(path: str) -> None:
    with pytest.raises(Rejected):
        url_of("https://api.example/tenant/v1", path, "")
    async with provider(sent(Answer())) as there, in_front_of(there) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(raw, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert b" 404 " in (await loop.sock_recv(raw, 4096)).splitlines()[0]
    assert there.asked == []


def test_the_settings_url_may_end_in_v1_or_not() -> None:
    assert url_of("https://a.example/v1/", "/v1/models", "x=1") == "https://a.example/v1/models?x=1"
    assert url_of("https://a.example", "/v1/models", "") == "https://a.example/v1/models"


def test_a_small_body_does_not_unfold_to_a_large_one() -> None:
    large = b"0" * 10_000_000
    for encoding, body in (("gzip", gzip.compress(large)), ("zstd", zstd.compress(large))):
        assert unfolded(body, encoding, bytes_max=len(large)) == large
        with pytest.raises(Rejected):
            unfolded(body, encoding, bytes_max=1_000_000)
        with pytest.raises(Rejected):
            unfolded(b"no such body", encoding, bytes_max=1000)
    with pytest.raises(Rejected):
        unfolding("br", bytes_max=1)


def test_events_are_the_same_however_they_are_cut() -> None:
    stream = b'event: a\ndata: {"x":1}\n\ndata: 1\ndata: 2\r\n\r\n: ping\n\ndata: [DONE]\n\nrest'
    whole = list(Events().fed(stream))
    assert [event.data for event in whole] == [b'{"x":1}', b"1\n2", b"", b"[DONE]"]
    for size in range(1, 12):
        events = Events()
        cut = [one for at in range(0, len(stream), size) for one in events.fed(stream[at : at + size])]
        assert cut == whole
        assert b"".join(event.raw for event in cut) + events.rest() == stream


async def test_what_came_first_of_an_answer_goes_on_before_all_that_came_with_it() -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        chunks = b"".join(b"3\r\n%b\r\n" % one for one in (b"one", b"two", b"six"))
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answers, LOOPBACK, port := free_port())
    async with server, aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}/") as answer:
        # all of it is here
        await answer.content.wait_eof()
        assert [piece async for piece in pieces(answer)] == [b"one", b"twosix"]


def test_what_is_too_long_for_an_event_goes_on_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "EVENT_BYTES_MAX", 8)
    stream, events = b"data: 1\n\ndata: 3456789\n\ndata: 2\n\n", Events()
    found = [one for at in range(0, len(stream), 5) for one in events.fed(stream[at : at + 5])]
    assert b"".join(event.raw for event in found) == stream
    assert (found[0].data, found[-1].data) == (b"1", b"2")


def test_what_connection_names_is_not_forwarded() -> None:
    given = [(b"Connection", b"close, X-One"), (b"x-one", b"1"), (b"X-Two", b"2"), (b"content-length", b"3")]
    assert forwarded(given) == [(b"X-Two", b"2")]
