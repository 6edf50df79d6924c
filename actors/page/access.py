"""Access: which tenants a visitor sees, where a proxy in front says who that is.

The page knows no passwords. A proxy that does (or that speaks OpenID Connect) names the user in a header, and is
believed where nobody else can stand: behind a Unix socket, or at an address that is listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from protocol.errors import NotFound
from protocol.ids import Address

_SEEN = "jettison.tenants"


@dataclass(frozen=True, kw_only=True)
class Access:
    """Who sees what; a user who is not named sees nothing."""

    users: Mapping[str, frozenset[str]]
    header: str
    """Of the request; the proxy must take away what a visitor writes into it."""
    peers: frozenset[str] = frozenset()
    """Addresses of proxies. A Unix socket has none, and who may open it is a matter of its folder."""


class Doorkeeper:
    """Lets in whom *access* names, each to its tenants."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        client = scope.get("client")
        if client is not None and client[0] not in self._access.peers:
            await _refused(403, "This address is not that of a proxy (page.peers).", scope, receive, send)
            return
        named = Headers(scope=scope).getlist(self._access.header)
        # two of them: one is the visitor's own
        tenants = self._access.users.get(named[0]) if len(named) == 1 else None
        if tenants is None:
            await _refused(403, "No tenant is shown to this user (page.users).", scope, receive, send)
            return
        await self._app({**scope, _SEEN: tenants}, receive, send)


def is_guarded(request: Request) -> bool:
    """Tell whether a doorkeeper let the visitor in."""
    return _SEEN in request.scope


def tenants_of(request: Request) -> frozenset[str] | None:
    """Return the tenants that the visitor sees; None for all."""
    tenants: frozenset[str] | None = request.scope.get(_SEEN)
    return tenants


def sees(request: Request, at: Address) -> bool:
    """Tell whether the visitor may see *at*; without a doorkeeper everybody may."""
    tenants = tenants_of(request)
    return tenants is None or at.tenant in tenants


def checked(request: Request, at: Address) -> Address:
    """Return *at*. Raises `NotFound` where the visitor may not see it, as if nothing was ever said there."""
    if not sees(request, at):
        raise NotFound(f"nothing was ever said in {at}", address=str(at))
    return at


async def _refused(status: int, why: str, scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(why, status_code=status)(scope, receive, send)
