"""Upstream: the way to the providers. Where they are says the settings alone; no request can name another place."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from protocol.errors import Rejected, Unavailable

from .apis import Host, route_of
from .headers import Header
from .reasons import failure_of

CONNECT_SECONDS = 10.0

SILENCE_SECONDS = 600.0
"""Between two bytes of an answer: a model may think for minutes without a word."""

_DOTS = re.compile(r"(?:^|/|%2f|%5c)(?:\.|%2e){1,2}(?:/|%2f|%5c|$)", re.IGNORECASE)
"""Steps of a path that would leave the place that the settings name, also where it is decoded before it is parted."""


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """The providers, over one pool of connections."""

    session: aiohttp.ClientSession
    urls: Mapping[Host, str]

    @asynccontextmanager
    async def asked(
        self, host: Host, *, method: str, path: str, query: str = "", headers: Iterable[Header], body: object = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield the provider's answer, whatever its status; its body is to be read as it came, still encoded.

        *body* is bytes, or an iterator of bytes. Raises `Unavailable` where nobody answers, `Rejected` for a path that
        leaves the settings' URL.
        """
        given = [(key.decode("latin-1"), value.decode("latin-1")) for key, value in headers]
        request = self.session.request(
            method,
            URL(url_of(self.urls[host], path, query), encoded=True),
            headers=given,
            data=body or None,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            allow_redirects=False,
        )
        try:
            answer = await request
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(
                f"the provider at {origin_of(self.urls[host])} cannot be reached: {failure_of(error)} "
                f"(gateway.upstream.{host}, JETTISON_GATEWAY__UPSTREAM__{host.upper()})",
                host=host,
            ) from None
        try:
            yield answer
        finally:
            # what is not read to its end is not wanted: the provider shall stop too
            answer.close()


@asynccontextmanager
async def connected(urls: Mapping[Host, str]) -> AsyncIterator[Upstream]:
    """Yield the way to the providers at *urls*."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=timeout,
        # an answer's line may be a whole event, and its header long
        read_bufsize=2**18,
        max_line_size=2**16,
        max_field_size=2**16,
    )
    async with session:
        yield Upstream(session=session, urls=urls)


def check_upstreams(urls: Mapping[Host, str]) -> None:
    """Raise `Rejected` where one of *urls* is none that a request can be sent to."""
    for host, base in urls.items():
        if not _is_url(base):
            # not as it is written: a password may be in it
            told = f"gateway.upstream.{host} must be a URL such as http://127.0.0.1:11434/v1"
            setting = f"JETTISON_GATEWAY__UPSTREAM__{host.upper()}"
            raise Rejected(f"{told}; correct {setting}", key=f"gateway.upstream.{host}")


def _is_url(base: str) -> bool:
    try:
        parts = urlsplit(base)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def origin_of(base: str) -> str:
    """Return where *base* is, without what in it could be a secret: user, password, folders, query."""
    parts = urlsplit(base)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def url_of(base: str, path: str, query: str) -> str:
    """Return the URL of *path* below *base*; each may have `/v1` or not: the providers' SDKs differ in that."""
    if _DOTS.search(path) or not path.startswith("/") or "\\" in path:
        raise Rejected("a path with dots or backslashes is not forwarded")
    base = base.rstrip("/")
    if urlsplit(base).path in ("", "/v1"):
        # below a folder some servers have no `/v1`: there the path that its agent knows is the right one
        path = route_of(path)
    if base.endswith("/v1") and path.startswith("/v1/"):
        path = path.removeprefix("/v1")
    return f"{base}{path}{'?' if query else ''}{query}"
