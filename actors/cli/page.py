"""The command that shows the page: `serve`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.types import ASGIApp

from actors.host.bootstrap import Runtime
from actors.page.app import page
from protocol.errors import Rejected

from .options import StackOptions
from .session import connected, said, settings_of, traces_folder
from .verify import sources_of

HOST = "127.0.0.1"
"""Nothing but this machine: the page asks for no password. Others reach it through what does, such as a tunnel."""

CLOSING_SECONDS = 2


def serve(stack: StackOptions, *, port: int) -> int:
    """Serve the page until told to stop; see `jettison serve --help`."""
    traces = traces_folder(settings_of(stack))

    async def main(running: Runtime) -> int:
        app = page(sources_of(running), running.conversations, traces=traces)
        async with serving(app, port=port) as url:
            said(f"page     {url}")
            said("ready    read-only, for browsers on this machine; Ctrl-C stops it")
            await asyncio.Event().wait()
        return 0

    return connected(main, stack)


class _Server(uvicorn.Server):
    """Leaves the signals to the session, which ends all commands alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(app: ASGIApp, *, port: int = 0) -> AsyncIterator[str]:
    """Serve *app* on loopback, at *port* or a free one; yield its URL. Raises `Rejected` if the port is taken."""
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
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        raise Rejected(
            f"port {port} of {HOST}: {os.strerror(error.errno or 0)}; give another --port", port=port
        ) from None
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}/"
    finally:
        server.should_exit = True
        await task
        listening.close()
