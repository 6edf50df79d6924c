"""The SDK's own client asks, over stdio and HTTP, and real servers answer: what is its own, and nothing else."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import httpx2
import msgspec
import pytest
from mcp import StdioServerParameters
from mcp.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from actors.cli.mcp import served
from actors.host.bootstrap import Runtime
from actors.host.settings import McpSection, NatsSection, Settings
from actors.mcp.door import BODY_BYTES_MAX
from protocol.client import Client, Conversation
from protocol.errors import Rejected
from protocol.tools import SERVED_TOOLS
from tests.builders import assistant, result, user
from tests.conftest import layer
from tests.promises.harness import environment
from tests.stack import LOOPBACK, free_port

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
ANSWER_BYTES_MAX = 16_384
LOG = "\n".join(f"line {number} of the build" for number in range(1, 20_001))
KEY = hashlib.sha256(LOG.encode()).hexdigest()[:16]
OTHER_LOG = LOG.replace("build", "payroll")
OTHER_KEY = hashlib.sha256(OTHER_LOG.encode()).hexdigest()[:16]
UNKNOWN = "Error: nothing of that name is kept here: take keys and conversations as pointers have them"


def run(log: str, *, word: str) -> list[dict[str, Any]]:
    out = [user(f"Mend the {word}.\nTouch no test.")]
    for step in range(1, 31):
        out += [assistant(None, f"c{step}"), result(f"c{step}", f"{word} step {step}\nso it is\n" + "and on " * 20)]
    out += [assistant(None, "big"), result("big", log), assistant(None, "s")]
    out[-1]["tool_calls"][0]["function"] = {"name": "mcp__jettison__search_history", "arguments": '{"query": "step 7"}'}
    return [*out, result("s", f"{word} step 7 was found"), assistant(f"The {word} is mended.")]


async def told(client: Client, name: str, log: str, *, word: str, tenant: str = "default") -> Conversation:
    talk = await client.open(name, tenant=tenant, policy=layer(window=6000))
    for message in run(log, word=word):
        await talk.append([message])
    await talk.context()
    return talk


@pytest.fixture(scope="module")
async def talks(working: Runtime, client: Client) -> tuple[str, str]:
    """Return two conversations of one tenant; a third, of another tenant, is called as the first."""
    first, second = "mcp-first", "mcp-second"
    await told(client, first, LOG, word="build")
    await told(client, second, OTHER_LOG, word="payroll")
    await told(client, first, OTHER_LOG.replace("payroll", "secret"), word="secret", tenant="acme")
    return first, second


def with_mcp(settings: Settings, **section: Any) -> Settings:
    return msgspec.structs.replace(settings, mcp=McpSection(port=0, **section))


def line(token: str, tenant: str, rest: str = "") -> str:
    return f"{tenant} {hashlib.sha256(token.encode()).hexdigest()} {rest}\n"


@asynccontextmanager
async def over_http(
    settings: Settings, token: str = "", *, mode: str = "auto", **section: Any
) -> AsyncIterator[McpClient]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        served(with_mcp(settings, **section)) as url,
        httpx2.AsyncClient(headers=headers) as http,
        McpClient(streamable_http_client(url, http_client=http), mode=mode) as found,
    ):
        yield found


async def text_of(asked: McpClient, tool: str, **arguments: Any) -> str:
    got = await asked.call_tool(tool, arguments)
    text = "\n".join(one.text for one in got.content if one.type == "text")
    assert got.structured_content is None
    assert got.is_error == text.startswith("Error: "), text
    assert len(text.encode()) <= ANSWER_BYTES_MAX + 200
    return text


async def test_a_client_over_stdio_reads_searches_and_explains(settings: Settings, talks: tuple[str, str]) -> None:
    first, second = talks
    own = environment(settings, JETTISON_MCP__CONVERSATIONS=first)
    command = ["-c", "from actors.cli import main; main()", "mcp"]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(own))
    async with McpClient(server, mode="legacy") as asked:
        offered = (await asked.list_tools()).tools
        assert tuple(one.name for one in offered) == SERVED_TOOLS
        assert [one.annotations.read_only_hint for one in offered if one.annotations] == [True] * 4 + [False]
        assert await text_of(asked, "read_artifact", key=KEY, lines="7-7") == "line 7 of the build"
        whole = await text_of(asked, "read_artifact", key=f"{first}/{KEY}")
        assert re.search(r'\[… [\d,]+ more lines; go on with lines="\d+-20000", or give a pattern\]$', whole)
        assert "Touch no test." in await text_of(asked, "read_artifact", key="messages:1")
        assert await text_of(asked, "read_artifact", key=f"{second}/messages:1") == UNKNOWN
        assert "2: build step 7" in await text_of(asked, "search_history", query="BUILD 7")
        assert "message 63" not in await text_of(asked, "explain_message", message=63)


async def test_what_is_found_says_where_it_is_and_how_to_go_on(settings: Settings, talks: tuple[str, str]) -> None:
    first, _ = talks
    async with over_http(settings) as asked:
        text = await text_of(asked, "search_history", query='"step 7" build', conversation=first)
        assert text.startswith("[1 of 66 messages of mcp-first match; all of them, newest first.]\n")
        # what the server's own tools were asked and answered is passed by
        assert re.search(
            rf"^{first}/messages:15 tool look .*\(\d+ tokens\)\n  2: build step 7\n  3- so it is$", text, re.M
        )
        text = await text_of(asked, "search_history", query="step build", conversation=first, limit=2, context=0)
        assert '28 older ones, down to "mcp-first/messages:3": go on with before=59' in text
        text = await text_of(asked, "search_history", query="step build", conversation=first, limit=50, before=59)
        assert text.startswith("[28 of 58 messages")
        text = await text_of(asked, "search_history", query=r"line 1999\d", regex=True, conversation=first)
        assert f", key {first}/{KEY})" in text
        assert "[7 more lines of it match]" in text
        text = await text_of(asked, "search_history", query="mended payroll", conversation=first)
        assert 'No message has all words: "mended" in 1, "payroll" in 0.' in text
        assert (await text_of(asked, "search_history", query="(", regex=True, conversation=first)).startswith(
            "Error: the"
        )
        assert (await text_of(asked, "search_history", query=" ", conversation=first)).startswith("Error: say what to")
        wrong = await text_of(asked, "search_history", pattern="REF", conversation=first)
        assert wrong.endswith("unknown field `pattern`; known: conversation, query, regex, context, before, limit"), (
            wrong
        )

        text = await text_of(asked, "list_versions", conversation=first, limit=1)
        assert re.match(r"\[Versions (\d+) to \1 of mcp-first, newest first\. Older ones: before=\1\.\]\nv\1 20", text)
        assert "ContextServed" not in text
        assert "ContextServed" in await text_of(asked, "list_versions", conversation=first, all=True)
        text = await text_of(asked, "explain_message", message=f"{first}/messages:63")
        assert "spill: spilled" in text
        assert f'Read it whole: "{first}/{KEY}" or "{first}/messages:63"' in text
        assert "it has 1 to 66" in await text_of(asked, "explain_message", message=99, conversation=first)

        text = await text_of(asked, "expand", key=f"{first}/#2-3")
        assert re.match(r"\[2 messages and 0 parts of mcp-first/#2-3 are in the view again|\[The view shows", text), (
            text
        )
    async with over_http(settings, read_only=True) as asked:
        assert [one.name for one in (await asked.list_tools()).tools] == list(SERVED_TOOLS[:-1])
        assert await text_of(asked, "expand", key=f"{first}/#2") == "Error: there is no tool of that name"


CALLERS = (
    line("all", "default")
    + line("one", "default", "never mcp-first")
    + line("acme", "acme")
    + line("old", "default", "2001-01-01")
)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_reads_what_it_claims_and_all_else_was_never_there(
    settings: Settings, talks: tuple[str, str], mode: str
) -> None:
    first, second = talks
    never = [
        f"{second}x/messages:1",
        f"{first}/{'0' * 16}",
        f"{first}/../{second}/messages:1",
        f"default/{first}/messages:1",
    ]
    theirs = [f"{second}/messages:1", f"{second}/{OTHER_KEY}", f"{first}/{OTHER_KEY}", OTHER_KEY, OTHER_KEY[:1]]
    async with over_http(settings, "one", mode=mode, callers=CALLERS) as asked:
        assert await text_of(asked, "read_artifact", key=KEY, lines="7") == "line 7 of the build"
        for key in (*never, *theirs):
            assert await text_of(asked, "read_artifact", key=key) == UNKNOWN, key
            if not key.endswith(OTHER_KEY[:1]):
                assert (await text_of(asked, "expand", key=key)) in (UNKNOWN, UNKNOWN), key
        for tool, arguments in (
            ("search_history", {"query": "payroll"}),
            ("list_versions", {}),
            ("explain_message", {"message": 1}),
        ):
            for conversation in (second, "never-was", f"acme/{first}", "../x"):
                assert await text_of(asked, tool, **arguments, conversation=conversation) == UNKNOWN
        assert "payroll" not in await text_of(asked, "search_history", query="mended")
        for uri in (
            f"jettison://{second}/{OTHER_KEY}",
            f"jettison://{first}/{OTHER_KEY}",
            "jettison://never/00000000",
            "file:///etc/passwd",
        ):
            with pytest.raises(MCPError, match=r"nothing of that name is kept here|a resource is named"):
                await asked.read_resource(uri)
        (resource,) = (await asked.list_resources()).resources
        assert (resource.uri, resource.size) == (f"jettison://{first}/{KEY}", len(LOG))
        (content,) = (await asked.read_resource(resource.uri)).contents
        assert getattr(content, "text", "").startswith("line 1 of the build\nline 2")
        assert "more lines; go on with" in getattr(content, "text", "")[-200:]
    async with over_http(settings, "acme", mode=mode, callers=CALLERS) as asked:
        assert "secret" in await text_of(asked, "read_artifact", key=f"{first}/messages:1")
        assert await text_of(asked, "read_artifact", key=f"{second}/messages:1") == UNKNOWN
        assert await text_of(asked, "read_artifact", key=f"{first}/{KEY}") == UNKNOWN
    async with over_http(settings, "all", mode=mode, callers=CALLERS) as asked:
        assert (await asked.list_resources()).resources == []
        assert "payroll" in await text_of(asked, "read_artifact", key=f"{second}/messages:1")
        assert (await text_of(asked, "read_artifact", key="messages:1")).startswith("Error: say which conversation")


PING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
JSON_HEADERS = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer old"}, 401),
        ({"authorization": "Bearer none"}, 401),
        ({"authorization": "Basic all"}, 401),
        ({"authorization": "all"}, 401),
        ({"authorization": "Bearer all"}, 200),
        ({"authorization": "Bearer all", "host": "evil.example"}, 421),
        ({"authorization": "Bearer all", "host": "127.0.0.1.evil.example:80"}, 421),
        ({"authorization": "Bearer all", "host": "localhost:1"}, 200),
        ({"authorization": "Bearer all", "host": "mcp.example"}, 200),
        ({"authorization": "Bearer all", "origin": "http://evil.example"}, 403),
        ({"authorization": "Bearer all", "origin": "http://localhost:3000"}, 403),
        ({"authorization": "Bearer all", "origin": "null"}, 403),
        ({"authorization": "Bearer all", "origin": "https://inspector.example"}, 200),
    ],
)
async def test_who_may_not_ask_is_refused_before_a_word_is_read(
    settings: Settings, caplog: pytest.LogCaptureFixture, headers: Mapping[str, str], status: int
) -> None:
    caplog.set_level(logging.INFO)
    section = with_mcp(settings, callers=CALLERS, hosts=("mcp.example",), origins=("https://inspector.example",))
    async with served(section) as url, aiohttp.ClientSession() as session:
        got = await session.post(url, data=json.dumps(PING), headers={**JSON_HEADERS, **headers})
        assert got.status == status, await got.text()
        assert ("www-authenticate" in got.headers) == (status == 401)
        assert "access-control-allow-origin" not in got.headers
    told = caplog.text.lower()
    assert not any(word in told for word in ("bearer", "evil", " old", "basic"))


async def test_what_is_too_large_or_no_call_is_refused(settings: Settings) -> None:
    async with served(with_mcp(settings)) as url, aiohttp.ClientSession(headers=JSON_HEADERS) as session:
        assert (await session.post(url, data=b" " * (BODY_BYTES_MAX + 1))).status == 413
        for body in (b"{", b"{}", b'"x"', b'{"jsonrpc": "2.0", "id": 1, "method": 5}'):
            refused = await session.post(url, data=body)
            assert (refused.status, (await refused.json())["error"][:19]) == (400, "the body is no call"), body
        assert (await session.post(f"{url}/x", data=b"{}")).status == 404
        for method in ("GET", "DELETE", "PUT", "OPTIONS"):
            assert (await session.request(method, url)).status == 405
        deep = (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ' + b'{"a":' * 30_000 + b"1" + b"}" * 30_001
        )
        assert (await session.post(url, data=deep)).status == 400
        assert (await session.post(url, data=json.dumps(PING))).status == 200


async def test_without_tokens_it_is_on_loopback_alone(settings: Settings) -> None:
    for listen in ("0.0.0.0", "::", "10.0.0.1"):
        with pytest.raises(Rejected, match="JETTISON_MCP__CALLERS_FILE"):
            async with served(with_mcp(settings, listen=listen)):
                pass


async def test_a_stack_that_is_away_is_told_of_and_found_when_it_is_back(
    settings: Settings, talks: tuple[str, str]
) -> None:
    away = msgspec.structs.replace(settings, nats=NatsSection(url=f"nats://{LOOPBACK}:{free_port()}"))
    async with over_http(away) as asked:
        assert (await text_of(asked, "read_artifact", key="a/messages:1")).startswith(
            "Error: this cannot be read now ("
        )
    async with over_http(away, "one", callers=CALLERS) as asked:
        text = await text_of(asked, "read_artifact", key="messages:1")
        # where things are is not told to callers elsewhere
        assert text.startswith("Error: this cannot be read now (LogUnavailable)")


async def test_an_image_is_shown(settings: Settings, client: Client, working: Runtime, name: str) -> None:
    url = f"data:image/png;base64,{PNG}"
    talk = await client.open(name, policy=layer(spill={"bytes": 60}))
    image = [{"type": "image_url", "image_url": {"url": url}}]
    await talk.append([user("Look."), assistant(None, "c"), {**result("c", ""), "content": image}])
    await talk.context()
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    async with over_http(settings, conversations=name) as asked:
        got = await asked.call_tool("read_artifact", {"key": key})
        assert [(one.type, getattr(one, "data", None)) for one in got.content] == [("text", None), ("image", PNG)]
        (content,) = (await asked.read_resource(f"jettison://{name}/{key}")).contents
        assert (getattr(content, "blob", None), content.mime_type) == (PNG, "image/png")


async def test_many_ask_at_once(settings: Settings, talks: tuple[str, str]) -> None:
    first, _ = talks
    async with over_http(settings) as asked:
        calls = (text_of(asked, "read_artifact", key=f"{first}/{KEY}", lines=number) for number in range(1, 33))
        assert await asyncio.gather(*calls) == [
            f'[of {first}: put "{first}/" before keys below]\nline {number} of the build' for number in range(1, 33)
        ]
