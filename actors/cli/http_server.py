"""What listens for HTTP: uvicorn, ended with the command that runs it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn

from protocol.errors import Rejected

CLOSING_SECONDS = 2


class _Server(uvicorn.Server):
    """Leaves the signals to the session, which ends all commands alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def listened(app: Any, listening: socket.socket, **options: Any) -> AsyncIterator[None]:
    """Serve the ASGI application *app* at *listening*, which is closed at the end; *options* are uvicorn's."""
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS,
        **options,
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield
    finally:
        server.should_exit = True
        await task
        listening.close()


def opened(host: str, port: int) -> socket.socket:
    """Listen at *port* of *host*, or a free one for 0. Raises `Rejected`."""
    try:
        return socket.create_server((host, port))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise Rejected(f"port {port} of {host}: {why}; give another --port", port=port) from None
