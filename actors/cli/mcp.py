"""The command `mcp`: it serves the Model Context Protocol over stdio or HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nats.aio.client import Client as NatsConnection

from actors.host.admitted import admitted_in
from actors.host.readiness import Need
from actors.host.settings import Settings
from protocol.connecting import connect
from protocol.errors import Rejected

from .http_server import listening_at, serving, tls_of
from .options import StackOptions
from .probes import probed
from .session import located, run, said, settings_of

try:
    from mcp.server.stdio import stdio_server
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
except ImportError:
    raise Rejected("`jettison mcp` needs the package mcp: pip install 'jettison[mcp]'") from None

from actors.mcp.answers import Answers
from actors.mcp.claims import Claims
from actors.mcp.door import BODY_BYTES_MAX, PATH, Door, check_open, claims_in
from actors.mcp.server import served as server_of


def mcp(stack: StackOptions, *, http: bool, port: int | None) -> int:
    """Serve until the client goes, or until told to stop; see `jettison mcp --help`."""
    settings = settings_of(stack)
    main = _over_http(settings, port) if http else _over_stdio(settings)
    return run(main, service="mcp", settings=settings, probed=http)


async def _over_stdio(settings: Settings) -> int:
    answers = answers_of(settings)
    claims = claims_of(settings)
    server = server_of(answers, lambda _: claims)
    # a read from stdin cannot be ended, and nothing is left behind
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, os._exit, 130 if number == signal.SIGINT else 0)
    try:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        await answers.close()
    return 0


async def _over_http(settings: Settings, port: int | None) -> int:
    async with probed(settings.probe) as readiness, served(settings, port=port) as url:
        said(f"mcp      {url}")
        said("ready    Ctrl-C stops it")
        with readiness.needs({"nats": Need(ask=lambda: _asked(settings))}):
            await asyncio.Event().wait()
    return 0


async def _asked(settings: Settings) -> None:
    """Reach the NATS that *settings* name. Raises `LogUnavailable`."""
    there = located(settings)
    await (await connect(there.nats.url, name="mcp-probe", login=there.nats.login())).close()


@asynccontextmanager
async def served(settings: Settings, *, port: int | None = None) -> AsyncIterator[str]:
    """Serve it over HTTP as *settings* say; yield its URL.

    Raises `Rejected` for settings that cannot be used, `Unavailable` for a port that is taken.
    """
    section = settings.mcp
    written, key = (
        (section.callers, "mcp.callers") if section.callers else (settings.gateway.callers, "gateway.callers")
    )
    admitted = admitted_in(written, key=key)
    check_open(admitted, section.listen)
    tls = tls_of(section.cert_file, section.key_file, section="mcp")
    answers = answers_of(settings)
    manager = StreamableHTTPSessionManager(
        server_of(answers, lambda context: claims_in(context.request)),
        json_response=True,
        stateless=True,
        max_request_body_size=BODY_BYTES_MAX,
    )
    door = Door(
        app=manager.asgi_app,
        admitted=admitted,
        local=claims_of(settings),
        hosts=frozenset(one.lower() for one in section.hosts),
        origins=frozenset(section.origins),
    )
    listening = listening_at(
        section.listen, section.port if port is None else port, section="mcp", by_option=port is not None
    )
    try:
        async with manager.run(), serving(door, listening, ws="none", date_header=False, access_log=False, **tls):
            yield f"{'https' if tls else 'http'}://{section.listen}:{listening.getsockname()[1]}{PATH}"
    finally:
        await answers.close()


def answers_of(settings: Settings) -> Answers:
    """Return the answers of the stack that *settings* name; it is looked for at the first call."""

    async def connected() -> NatsConnection:
        there = located(settings)
        return await connect(there.nats.url, name="mcp", login=there.nats.login())

    return Answers(connect=connected, read_only=settings.mcp.read_only)


def claims_of(settings: Settings) -> Claims:
    """Return the claims of the one who runs the process."""
    return Claims.of(settings.mcp.tenant, tuple(settings.mcp.conversations.split()), is_local=True)
