"""The command that shows the page: `serve`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from actors.bootstrap import Runtime
from actors.page.app import page

from .session import said, settings_of, traces_folder
from .verify import connected, sources_of

HOST = "127.0.0.1"
"""Nothing but this machine: the page asks for no password. Others reach it through what does, such as a tunnel."""

CLOSING_SECONDS = 2


def serve(*, port: int, config: Path | None, nats: str, data: Path | None) -> int:
    """Serve the page until told to stop; see `jettison serve --help`."""
    traces = traces_folder(settings_of(config=config, nats=nats, data=data))

    async def main(running: Runtime) -> int:
        app = page(sources_of(running), running.conversations, traces=traces)
        async with serving(app, port=port) as url:
            said(f"page     {url}")
            said("ready    read-only, for browsers on this machine; Ctrl-C stops it")
            await asyncio.Event().wait()
        return 0

    return connected(main, config=config, nats=nats, data=data)


class _Server(uvicorn.Server):
    """Leaves the signals to the session, which ends all commands alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, *, port: int = 0) -> AsyncIterator[str]:
    """Serve *app* on loopback, at *port* or a free one; yield its URL. Raises `OSError` if the port is taken."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    server = _Server(config)
    listening = socket.create_server((HOST, port))
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        await task
        listening.close()
