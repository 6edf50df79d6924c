"""The command that serves the gateway: `gateway`, and its part of `up --gateway`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from actors.gateway.app import Gateway
from actors.gateway.callers import Callers, admitted_in, check_open
from actors.gateway.upstream import connected
from actors.host.settings import GatewaySection, Settings
from protocol.ids import token

from .http_server import listened, opened
from .options import StackOptions
from .session import run, said, settings_of


def gateway(stack: StackOptions, *, port: int | None) -> int:
    """Serve the gateway until told to stop; see `jettison gateway --help`."""
    settings = settings_of(stack)

    async def main() -> int:
        async with served(settings, port=port) as url:
            said(f"gateway  {url}")
            said(f"ready    OPENAI_BASE_URL={url}v1 or ANTHROPIC_BASE_URL={url[:-1]}; Ctrl-C stops it")
            await asyncio.Event().wait()
        return 0

    return run(main(), service="gateway", settings=settings)


@asynccontextmanager
async def served(settings: Settings, *, port: int | None = None) -> AsyncIterator[str]:
    """Serve the gateway as *settings* say; yield its URL. Raises `Rejected` for settings that cannot be used."""
    section = settings.gateway
    callers = callers_of(section)
    check_open(callers, section.listen)
    tls: dict[str, Any] = {}
    if section.cert_file:
        tls = {"ssl_certfile": section.cert_file, "ssl_keyfile": section.key_file or None}
    urls = {"openai": section.upstream.openai, "anthropic": section.upstream.anthropic}
    listening = opened(section.listen, section.port if port is None else port)
    async with connected(urls) as upstream:  # type: ignore[arg-type]  # the two hosts, by name
        app = Gateway(upstream=upstream, callers=callers, body_bytes_max=section.body_bytes_max)
        async with listened(app, listening, ws="none", date_header=False, access_log=False, **tls):
            yield f"{'https' if tls else 'http'}://{section.listen}:{listening.getsockname()[1]}/"


def callers_of(section: GatewaySection) -> Callers:
    """Return who may ask. Raises `Rejected`."""
    own = {"openai": section.openai_key, "anthropic": section.anthropic_key}
    return Callers(
        tenant=token(section.tenant),
        own=own,  # type: ignore[arg-type]  # the two hosts, by name
        admitted=admitted_in(section.callers),
    )
