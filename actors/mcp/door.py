"""Door: who may ask over HTTP, and which requests go on to the server.

Before anything of a request is read: its path and method; its `Host` and `Origin`, since a web page may make a browser
ask for it (DNS rebinding); its token. What is refused is not logged with what it showed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.host.admitted import LOOPBACK, Admitted, shown_by
from protocol.errors import Rejected

from .claims import Claims

PATH = "/mcp"
BODY_BYTES_MAX = 256 * 1024
BODY_SECONDS = 30.0
_CLAIMS = "jettison.claims"
_LOOPBACK_NAMES = frozenset(("127.0.0.1", "localhost", "[::1]"))


@dataclass(frozen=True, kw_only=True)
class Door:
    """Lets requests in to *app*, each with its claims."""

    app: ASGIApp
    admitted: tuple[Admitted, ...]
    local: Claims
    """Whose they are where nobody shows a token, because there is no list: on loopback alone."""
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        claims = self._claims(scope)
        if isinstance(claims, _Refusal):
            await claims.sent(send)
            return
        await self.app({**scope, _CLAIMS: claims}, _hurried(receive), _in_words(send))

    def _claims(self, scope: Scope) -> Claims | _Refusal:
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or not self._is_known(hosts[0]):
            return _Refusal(421, "this server is not known by that name (mcp.hosts)")
        if any(origin not in self.origins for origin in origins):
            return _Refusal(403, "web pages may not ask here (mcp.origins)")
        if scope["path"] != PATH:
            return _Refusal(404, f"there is {PATH} alone")
        if scope["method"] != "POST":
            # nothing is ever sent unasked, and there are no sessions to end
            return _Refusal(405, "only POST", (b"allow", b"POST"))
        if not self.admitted:
            return self.local
        found = shown_by(_token(headers), self.admitted)
        if found is None:
            return _Refusal(401, "a token that holds is needed", (b"www-authenticate", b"Bearer"))
        return Claims.of(found.tenant, found.conversations)

    def _is_known(self, host: str) -> bool:
        name, colon, port = host.rpartition(":")
        # the colons of an IPv6 address are in brackets
        bare = name if colon and port.isdecimal() else host
        return bare.lower() in _LOOPBACK_NAMES or host.lower() in self.hosts or bare.lower() in self.hosts


def claims_in(request: Request | None) -> Claims:
    """Return the claims of a request that was let in."""
    assert request is not None, "HTTP has one for each call"
    found = request.scope[_CLAIMS]
    assert isinstance(found, Claims)
    return found


def check_open(admitted: Sequence[Admitted], listen: str) -> None:
    """Raise `Rejected` where strangers could read."""
    if not admitted and listen not in LOOPBACK:
        raise Rejected(
            "mcp.listen is an address that others reach, and nobody is asked for a token: "
            "set JETTISON_MCP__CALLERS_FILE to the callers' tokens, or listen on 127.0.0.1",
            key="mcp.callers",
        )


@dataclass(frozen=True)
class _Refusal:
    status: int
    why: str
    header: tuple[bytes, bytes] | None = None

    async def sent(self, send: Send) -> None:
        body = json.dumps({"error": self.why}).encode()
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        headers += [self.header] if self.header else []
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


NO_CALL = _Refusal(400, 'the body is no call: an object such as {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}')
_PARSERS = re.compile(rb'"message":"(Validation|Parse) error: ')
"""How the server begins what its parser says."""


def _in_words(send: Send) -> Send:
    """Return *send* that says of a body which is no call that it is none: the server's own words are a parser's."""
    start: Message = {}

    async def sent(message: Message) -> None:
        nonlocal start
        if message["type"] == "http.response.start" and message["status"] == 400:
            start = message
            return
        if start and _PARSERS.search(message.get("body", b"")):
            start = {}
            return await NO_CALL.sent(send)
        if start:
            await send(start)
            start = {}
        await send(message)

    return sent


def _token(headers: Headers) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _hurried(receive: Receive) -> Receive:
    """Return *receive* that waits for a body so long; who is silent for longer has hung up."""
    whole = False

    async def hurried() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message: dict[str, Any] = dict(await receive())
        except TimeoutError:
            message = {"type": "http.disconnect"}
        whole = message["type"] == "http.disconnect" or not message.get("more_body", False)
        return message

    return hurried
