"""What a gateway is measured before and beside, each in a process of its own.

python -m tests.programs.bench.gateway_servers upstream PORT | proxy PORT UPSTREAM
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import aiohttp
from aiohttp import web

from tests.stack import LOOPBACK

CHUNKS = 100

Json = dict[str, Any]


def stream() -> bytes:
    """Return an answer of chat completions in `CHUNKS` events."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": "gpt-4o"}
    choices: list[Json] = [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]
    choices += [{"index": 0, "delta": {"content": f"word {n} "}, "finish_reason": None} for n in range(CHUNKS - 2)]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    events = (b"data: " + json.dumps({**head, "choices": [one]}).encode() + b"\n\n" for one in choices)
    return b"".join(events) + b"data: [DONE]\n\n"


class Upstream(asyncio.Protocol):
    """Answers every request with the same stream, as fast as it can: what is measured is what stands before it."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._left = -1
        self._head = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Read a request to its end, and answer."""
        if self._left < 0:
            self._head += data
            head, end, body = self._head.partition(b"\r\n\r\n")
            if not end:
                return
            lines = head.lower().split(b"\r\n")
            length = next((line.partition(b":")[2] for line in lines if line.startswith(b"content-length:")), b"0")
            self._left, data, self._head = int(length), body, b""
        self._left -= len(data)
        if self._left <= 0:
            self._left = -1
            self._transport.write(self._answer)


async def upstream(port: int) -> None:
    """Serve `Upstream` until killed."""
    body = stream()
    events = [event + b"\n\n" for event in body.split(b"\n\n") if event]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(event), event) for event in events) + b"0\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n" + chunks
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(answer), LOOPBACK, port)
    await server.serve_forever()


async def proxy(port: int, url: str) -> None:
    """Serve what an aiohttp proxy is at its least: no look at anything, pieces as they come."""
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
    ) as session:

        async def passed(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            async with session.post(url + request.path, data=body, headers={"content-type": "a/b"}) as answer:
                response = web.StreamResponse(status=answer.status)
                response.content_type = answer.content_type
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                await response.write_eof()
                return response

        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/{path:.*}", passed)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, port).start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    what, at, *more = sys.argv[1:]
    asyncio.run(upstream(int(at)) if what == "upstream" else proxy(int(at), more[0]))
