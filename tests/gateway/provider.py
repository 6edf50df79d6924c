"""A provider on loopback that answers by a script, and keeps what it was asked byte for byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from actors.cli.gateway import served
from actors.host.settings import GatewaySection, NatsSection, Settings, UpstreamSection
from tests.stack import LOOPBACK

CUT = "cut"
"""In the place of a piece: the connection ends there."""

BODY = b'{"model": "m",  "messages": [{"role": "user", "content": "Hello."}]}'


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request as it came in."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What is answered; a number among the pieces is a pause in seconds, and an event is waited for."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    pieces: tuple[bytes | float | str | asyncio.Event, ...] = (b"{}",)


Script = Callable[[Asked], Answer]


class Provider:
    """The server; `ended` is set when a client left before its answer was whole."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[Asked] = []
        self.ended = asyncio.Event()
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        headers = tuple((key.decode(), value.decode("latin-1")) for key, value in request.raw_headers)
        body = await request.read()
        self.asked.append(Asked(method=request.method, target=request.raw_path, headers=headers, body=body))
        answer = self.script(self.asked[-1])
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        try:
            await response.prepare(request)
            for piece in answer.pieces:
                if isinstance(piece, bytes):
                    await response.write(piece)
                elif isinstance(piece, asyncio.Event):
                    await piece.wait()
                elif piece == CUT:
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                else:
                    await asyncio.sleep(float(piece))  # slow
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            self.ended.set()
            raise
        return response


@asynccontextmanager
async def provider(script: Script) -> AsyncIterator[Provider]:
    """Run a provider; a client that leaves is noticed at once."""
    made = Provider(script)
    # bytes go through as they came: nothing is unpacked on the way in
    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, handler_cancellation=True, auto_decompress=False, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    made.url = f"http://{LOOPBACK}:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


def sse(*data: Any, names: Iterable[str] = ()) -> bytes:
    """Return events, with *names* where the API names them."""
    named = list(names) or [str(one.get("type", "")) if isinstance(one, dict) else "" for one in data]
    return b"".join(
        (f"event: {name}\n".encode() if name else b"")
        + b"data: "
        + (one.encode() if isinstance(one, str) else json.dumps(one).encode())
        + b"\n\n"
        for one, name in zip(data, named, strict=True)
    )


def without_nats() -> Settings:
    """Return settings whose NATS nobody will ever be: a port of the system's own."""
    return Settings(nats=NatsSection(url=f"nats://{LOOPBACK}:1"))


@asynccontextmanager
async def in_front_of(
    provider: Provider, settings: Settings | None = None, *, planner: Any = None, **section: Any
) -> AsyncIterator[str]:
    """Serve the gateway before *provider*, with this `Planner` or its own; yield its URL, without the slash."""
    upstream = UpstreamSection(openai=f"{provider.url}/v1", anthropic=provider.url)
    ours = GatewaySection(**{"upstream": upstream, "mode": "pass", **section})
    async with served(msgspec.structs.replace(settings or Settings(), gateway=ours), planner, port=0) as url:
        yield url.rstrip("/")
