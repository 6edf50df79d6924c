"""Why a request is not managed, or not answered, is said in words: of the setting, the host, what was wrong with it."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import aiohttp
import msgspec
import pytest

from actors.cli.gateway import served
from actors.gateway.apis import CHAT_API, MESSAGES_API, RESPONSES_API, Api
from actors.gateway.bodies import body_of
from actors.gateway.reasons import Unmanaged, failure_of, reason_of
from actors.gateway.repeated import Repeated
from actors.host.settings import GatewaySection, Settings, UpstreamSection
from protocol import errors
from protocol.errors import JettisonError, Rejected
from tests.gateway.provider import BODY, Answer, in_front_of, provider, without_nats
from tests.stack import LOOPBACK, free_port

CLASS_NAME = re.compile(r"[A-Z][a-z]+[A-Z]\w+|\w+Error\b")


def kinds(kind: type[JettisonError]) -> list[type[JettisonError]]:
    return [kind, *(one for below in kind.__subclasses__() for one in kinds(below))]


def test_no_reason_is_the_name_of_a_class_or_a_word_of_the_error() -> None:
    found = {
        one: reason_of(one("the user said secret")) for one in kinds(JettisonError) if one.__module__ == errors.__name__
    }
    assert len(found) > 20
    assert [one for one, why in found.items() if CLASS_NAME.search(why) or "secret" in why] == []
    assert [why for why in found.values() if len(why) > 80 or not why.isascii()] == []
    assert reason_of(Unmanaged("as it says itself")) == "as it says itself"


@pytest.mark.parametrize(
    ("api", "body", "why"),
    [
        (CHAT_API, b'{"messages": "hi"}', "the request's messages cannot be read"),
        (MESSAGES_API, b'{"messages": "hi"}', "the request's messages cannot be read"),
        (CHAT_API, b'{"messages": ["hi"]}', "the request's messages cannot be read"),
        (CHAT_API, b'{"messages": {"role": "user"}}', "the request's messages cannot be read"),
        (CHAT_API, b"no JSON", "the request's messages cannot be read"),
        (CHAT_API, b'{"model": "m"}', "the request has no messages"),
        (RESPONSES_API, b'{"model": "m"}', "the request has no input"),
        (CHAT_API, b'{"messages": []}', "the request brings no message of a conversation"),
        (MESSAGES_API, b'{"messages": [{"role": "system"}]}', "the request brings no message of a conversation"),
    ],
)
def test_a_request_without_a_conversation_is_not_managed_and_says_why(api: Api, body: bytes, why: str) -> None:
    with pytest.raises(Rejected, match=f"^{why}$"):
        body_of(body, api, repeated=Repeated())


def test_a_bare_text_is_a_message_where_its_api_has_it_so() -> None:
    assert body_of(b'{"input": "hi"}', RESPONSES_API, repeated=Repeated()).messages == (
        b'{"role":"user","content":"hi"}',
    )


async def test_a_text_in_the_place_of_messages_goes_on_untouched(session: aiohttp.ClientSession) -> None:
    body = b'{"model": "m",  "messages": "hi"}'
    async with (
        provider(lambda _: Answer(status=400)) as there,
        in_front_of(there, without_nats(), mode="manage") as url,
    ):
        got = await session.post(f"{url}/v1/chat/completions", data=body)
        assert (got.status, got.headers["x-jettison"]) == (400, "bypass; the request's messages cannot be read")
    assert there.asked[0].body == body


async def test_a_websocket_is_refused_without_a_word_of_a_library_that_is_missing(
    session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with provider(lambda _: Answer()) as there, in_front_of(there) as url:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{url}/v1/responses")
    assert refused.value.status == 426
    assert [
        one.getMessage() for one in caplog.records if one.name.startswith("uvicorn") and one.levelno >= logging.INFO
    ] == []


async def test_a_thread_that_its_provider_keeps_goes_on_as_it_came(session: aiohttp.ClientSession) -> None:
    thread = b'{"type": "continue", "previous_message_id": "msg_1"}'
    body = b'{"model": "m", "thread": ' + thread + b', "messages": [{"role": "user", "content": "Go on."}]}'
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/messages", data=body)
        assert (got.status, got.headers["x-jettison"]) == (200, "bypass; what it goes on from cannot be told")
    assert there.asked[0].body == body


async def test_who_brings_a_compaction_of_ours_while_nats_is_away_hears_that_no_provider_knows_it(
    session: aiohttp.ClientSession,
) -> None:
    item = b'{"type": "compaction", "id": "c", "encrypted_content": "jet1:x"}'
    body = b'{"model": "m", "input": [' + item + b', {"role": "user", "content": "Go on."}]}'
    async with provider(lambda _: Answer()) as there, in_front_of(there, without_nats(), mode="manage") as url:
        got = await session.post(f"{url}/v1/responses", data=body)
        message = (await got.json())["error"]["message"]
    assert (got.status, got.headers["retry-after"], there.asked) == (503, "5", [])
    assert message.endswith("(NATS was not reached yet), and its provider does not know what it goes on from")


@pytest.mark.parametrize("mode", ["pass", "manage"])
@pytest.mark.parametrize("host", ["openai", "anthropic"])
async def test_a_provider_that_is_away_is_named_with_its_setting_and_without_a_secret(
    session: aiohttp.ClientSession, host: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    port = free_port()
    there = f"http://user:secret@{LOOPBACK}:{port}/hidden?key=secret"
    section = GatewaySection(mode=mode, upstream=UpstreamSection(**{host: there}))  # type: ignore[arg-type]
    path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[host]
    async with served(msgspec.structs.replace(without_nats(), gateway=section), port=0) as url:
        got = await session.post(f"{url.rstrip('/')}{path}", data=BODY)
        message = (await got.json())["error"]["message"]
    assert (got.status, message) == (
        502,
        f"the provider at http://{LOOPBACK}:{port} cannot be reached: connection refused "
        f"(gateway.upstream.{host}, JETTISON_GATEWAY__UPSTREAM__{host.upper()})",
    )
    (line,) = [one.getMessage() for one in caplog.records if one.name == "jettison.gateway.requests"]
    # what the agent got is counted, whoever wrote it
    assert line.split()[2] == "502"


@pytest.mark.parametrize(
    "upstream", ["api.example", "localhost:11434", "ftp://a.example", "http://", "http://a:99999", "http://[::1"]
)
async def test_an_upstream_that_is_no_url_is_refused_at_the_start(upstream: str) -> None:
    section = GatewaySection(mode="pass", upstream=UpstreamSection(openai=upstream))
    with pytest.raises(Rejected, match=r"^gateway\.upstream\.openai .*http.* JETTISON_GATEWAY__UPSTREAM__OPENAI"):
        async with served(Settings(gateway=section), port=0):
            pass


async def test_what_becomes_of_a_connection_is_no_class_either() -> None:
    async def closes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    async def rubbish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"what?\r\n\r\n")
        writer.close()

    found = []
    for answer, scheme in ((closes, "http"), (rubbish, "http"), (rubbish, "https")):
        server = await asyncio.start_server(answer, LOOPBACK, port := free_port())
        async with server, aiohttp.ClientSession() as session:
            with pytest.raises(aiohttp.ClientError) as failed:
                await session.get(f"{scheme}://{LOOPBACK}:{port}/")
            found.append(failure_of(failed.value))
    assert found == ["the connection was closed", "what it says is no HTTP", "no TLS (wrong version number)"]
    assert failure_of(aiohttp.ServerTimeoutError()) == "no answer in time"
    assert json.dumps([failure_of(one()) for one in (aiohttp.ClientPayloadError, OSError, aiohttp.ClientError)])
