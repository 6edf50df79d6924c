"""What listens for HTTP: uvicorn, ended with the command that runs it."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from protocol.errors import Rejected, Unavailable

CLOSING_SECONDS = 2

HEADER_SECONDS = 20
"""For the headers of a request, from the connection or their first byte on."""

HEADER_BYTES_MAX = 64 * 1024

IDLE_SECONDS = 75
"""Between two requests: longer than agents keep a connection, so that it does not end under a request on its way."""


class _Http(HttpToolsProtocol):
    """Bounds what uvicorn does not: how long headers may take, and how many bytes they may have."""

    _header_bytes = 0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # asyncio does it for sockets that say that they are TCP's, and ours do not: a head would wait 40 ms for its ACK
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._came()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:
            self._await_headers()

    def on_headers_complete(self) -> None:
        self._came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        cycle = self.cycle
        if cycle.body or cycle.response_complete or self.parser.should_upgrade():
            return super().on_body(body)
        # what came before was taken, and this piece is handed on as it is: uvicorn copies each one twice
        cycle.body = body  # type: ignore[assignment]  # uvicorn takes its length, adds to it, and sends its bytes
        if len(body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._late is None:
            return
        self._header_bytes += len(data)
        if self._header_bytes > HEADER_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response("The headers are too long.")

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: who asks for a WebSocket is answered, and uvicorn would have an operator install a library."""

    def _await_headers(self) -> None:
        self._header_bytes = 0
        self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _came(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class _Server(uvicorn.Server):
    """Leaves the signals to the session, which ends all commands alike."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    app: Any, listening: socket.socket, *, closing_seconds: int | None = None, **options: Any
) -> AsyncIterator[None]:
    """Serve the ASGI application *app* at *listening*, which is closed at the end; *options* are uvicorn's.

    What is under way then may go on for *closing_seconds*; none: for a moment.
    """
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_level="warning",
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS if closing_seconds is None else closing_seconds,
        timeout_keep_alive=IDLE_SECONDS,
        http=_Http,
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


def listening_at(host: str, port: int, *, section: str, by_option: bool) -> socket.socket:
    """Listen at *port* of *host*, or a free one for 0; the port was said *by_option*, or by the settings' *section*.

    Raises `Unavailable` for a port that is taken or not allowed to this user, and `Rejected` for what is no address
    of this machine.
    """
    named = f"JETTISON_{section.upper()}__"
    try:
        return socket.create_server((host, port))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EPERM):
            raise Rejected(f"{host} is no address of this machine; correct {named}LISTEN", host=host) from None
        # its own text repeats the address
        why = os.strerror(error.errno)
        fix = "give another --port" if by_option else f"set {named}PORT to another one"
        raise Unavailable(f"port {port} of {host}: {why}; {fix}", port=port) from None


def tls_of(cert_file: str, key_file: str, *, section: str) -> dict[str, Any]:
    """Return uvicorn's options for TLS; none where it is not wanted. Raises `Rejected` for files that do not go."""
    if not cert_file:
        return {}
    try:
        # an empty password: one that is asked for would be waited for at the terminal
        tried = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tried.load_cert_chain(cert_file, key_file or None, password="")
    except OSError as error:
        why = f"{section}.cert_file and {section}.key_file cannot be used: {error.strerror or error}"
        raise Rejected(why, key=f"{section}.cert_file") from None
    return {"ssl_certfile": cert_file, "ssl_keyfile": key_file or None}
