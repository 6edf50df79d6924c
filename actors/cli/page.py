"""The command that shows the page: `serve`."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.types import ASGIApp

from actors.host.bootstrap import Runtime
from actors.host.settings import PageSection
from actors.page.access import Access
from actors.page.app import page
from actors.page.conversation_cache import WAIT_SECONDS
from actors.page.known_list import KnownList
from protocol.errors import Rejected
from protocol.ids import token
from storage.gateway_sessions import GatewaySessions

from .http_server import listening_at, serving
from .options import StackOptions
from .probes import needs_of, probed
from .session import connected, said, settings_of, traces_folder
from .verify import sources_of

HOST = "127.0.0.1"
"""Nothing but this machine: the page asks for no password. Others reach it through what does, such as a proxy."""


def serve(stack: StackOptions, *, port: int) -> int:
    """Serve the page until told to stop; see `jettison serve --help`."""
    settings = settings_of(stack)
    traces, access = traces_folder(settings), access_of(settings.page)

    async def main(running: Runtime) -> int:
        app = page_of(running, traces=traces, access=access, hosts=settings.page.hosts, sessions=running.sessions)
        async with (
            serving_page(app, port=port, page=settings.page) as url,
            probed(settings.probe) as readiness,
        ):
            said(f"page     {url}")
            whom = "those whom the proxy names" if access else "browsers on this machine"
            said(f"ready    read-only, for {whom}; Ctrl-C stops it")
            with readiness.needs(needs_of(running, store=False)):
                await asyncio.Event().wait()
        return 0

    return connected(main, stack, probed=True)


def page_of(
    running: Runtime,
    *,
    traces: Path,
    wait_seconds: float = WAIT_SECONDS,
    access: Access | None = None,
    hosts: Sequence[str] = (),
    sessions: GatewaySessions | None = None,
) -> ASGIApp:
    """Return the page over what *running* is connected to; see `actors.page.app.page`."""
    return page(
        sources_of(running),
        running.conversations,
        traces=traces,
        listed=KnownList(running.listing(), changes=running.changes, log=running.log, wait_seconds=wait_seconds),
        letters=running.dead_letters,
        wait_seconds=wait_seconds,
        access=access,
        hosts=hosts,
        sessions=sessions,
    )


def access_of(settings: PageSection) -> Access | None:
    """Return the access of groups behind a proxy; None where all on this machine see all. Raises `Rejected`."""
    if not settings.users:
        if settings.socket or settings.peers or settings.listen != HOST:
            what = "page.socket, page.peers and page.listen"
            raise Rejected(f"{what} are for a proxy that names users: set page.users too")
        return None
    if not (settings.socket or settings.peers):
        raise Rejected("page.users needs to know where the proxy is: set page.socket, or page.peers to its addresses")
    users = {name: frozenset(map(token, tenants)) for name, tenants in settings.users.items()}
    return Access(users=users, header=settings.header, peers=frozenset(settings.peers))


@asynccontextmanager
async def serving_page(app: ASGIApp, *, port: int = 0, page: PageSection | None = None) -> AsyncIterator[str]:
    """Serve *app* on loopback, at *port* or a free one, or where *page* says; yield its URL.

    Raises `Rejected`, `Unavailable` for a port that is taken.
    """
    listening, url = _listening(page or PageSection(), port)
    async with serving(app, listening):
        yield url


def _listening(page: PageSection, port: int) -> tuple[socket.socket, str]:
    if page.socket:
        return _unix(Path(page.socket)), f"unix:{page.socket}"
    # an address that others reach is for a proxy alone, which is listed
    host = page.listen if page.peers else HOST
    listening = listening_at(host, port, section="page", by_option=True)
    return listening, f"http://{host}:{listening.getsockname()[1]}/"


def _unix(path: Path) -> socket.socket:
    """Listen at *path*, for its owner and group; what a process that is gone left there is removed."""
    listening = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        if path.is_socket():
            path.unlink()
        listening.bind(str(path))
        listening.listen()
    except OSError as error:
        listening.close()
        raise Rejected(f"page.socket {path}: {os.strerror(error.errno or 0)}") from None
    finally:
        os.umask(before)
    return listening
