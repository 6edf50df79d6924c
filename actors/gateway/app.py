"""App: which request goes which way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.types import Receive, Scope, Send

from protocol.errors import Rejected

from . import compacting
from .apis import CHAT_API, MESSAGES_API, RESPONSES_API, Api, Host, host_of
from .bodies import Body, read_of
from .callers import Caller, Callers
from .headers import Header, forwarded
from .incoming import HungUp, Incoming, incoming, while_heard
from .managed import Managed
from .own_keys import unlike_its_own
from .relay import ended, refused, relayed
from .repeated import Repeated
from .told import TakenAsItCame
from .upstream import Upstream

ROUTES: dict[str, Api] = {
    "/v1/chat/completions": CHAT_API,
    "/v1/messages": MESSAGES_API,
    "/v1/responses": RESPONSES_API,
    compacting.PATH: RESPONSES_API,
}
COUNTERS: dict[str, Api] = {
    "/v1/messages/count_tokens": MESSAGES_API,
    "/v1/responses/input_tokens": RESPONSES_API,
}
MODELS = "/v1/models"
_OF_MODELS = "/v1/models/"


class _No(NamedTuple):
    """An answer of the gateway's own, instead of the provider's."""

    status: int
    kind: str
    message: str
    headers: Sequence[Header] = ()


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """The ASGI application."""

    upstream: Upstream
    callers: Callers
    body_bytes_max: int
    managed: Managed | None = None
    """None where everything is forwarded as it came."""
    repeated: Repeated = field(default_factory=Repeated)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; whatever is asked of others for it ends when the agent hangs up."""
        if scope["type"] != "http":
            return
        try:
            asked = await incoming(scope, receive, bytes_max=self.body_bytes_max)
        except HungUp:
            return
        except Rejected as error:
            await refused(send, "openai", 408, kind="invalid_request_error", message=str(error))
            return
        await while_heard(receive, self._answered(asked, send), whole=asked.whole)

    async def _answered(self, asked: Incoming, send: Send) -> None:
        api = ROUTES.get(asked.route) or COUNTERS.get(asked.route)
        host = api.host if api else host_of({key.decode("latin-1").lower(): "" for key, _ in asked.headers})
        caller = self.callers.caller(asked.headers, host)
        # a large request is read once, whoever wants to know what is in it
        # and of whom nobody knows, none is unfolded or read
        read = self._read(asked, api) if api and caller and self._looks_at(asked, host) else None
        no = self._no(asked, api, host, caller, read)
        if no is None and self.managed and api and read is not None and asked.method == "POST" and asked.rest is None:
            assert caller is not None
            work = self.managed.answer(asked, api, read, caller, send, counts=asked.route in COUNTERS)
            await ended(work, host, send)
        else:
            await self._as_it_came(asked, api, host, no, send)

    async def _as_it_came(self, asked: Incoming, api: Api | None, host: Host, no: _No | None, send: Send) -> None:
        """Pass a request on that is not managed, or tell its agent *no*."""
        told = TakenAsItCame(
            api=api if asked.method == "POST" else None,
            host=host,
            method=asked.method,
            path=asked.route,
            began=asked.came,
            how="refused" if no else "pass",
        )
        send = told.hearing(send)
        try:
            if no:
                await refused(send, host, no.status, kind=no.kind, message=no.message, headers=no.headers)
            else:
                await ended(self._passed(asked, host, send, told), host, send)
        finally:
            told.end()

    def _read(self, asked: Incoming, api: Api) -> Body | Rejected:
        return read_of(asked, api, bytes_max=self.body_bytes_max, repeated=self.repeated)

    def _looks_at(self, asked: Incoming, host: Host) -> bool:
        """Tell whether it matters what is in a request: it is managed, or another caller's must not be in it."""
        return self._is_shared(host) or (self.managed is not None and asked.rest is None and asked.method == "POST")

    def _is_shared(self, host: Host) -> bool:
        """Tell whether callers ask *host* with one key, whose account holds what each of them left there."""
        return bool(self.callers.own.get(host) and self.callers.admitted)

    def _no(
        self, asked: Incoming, api: Api | None, host: Host, caller: Caller | None, read: Body | Rejected | None
    ) -> _No | None:
        """Return why a request is not even passed on; None where it may be."""
        if "websocket" in asked.header("upgrade").lower():
            # the one answer after which agents come back by HTTP at once; of other upgrades nothing need be said (RFC
            # 9110, 7.8): Java's client offers HTTP/2 with each request
            message = "this gateway speaks HTTP; ask again without an upgrade"
            return _No(426, "invalid_request_error", message, _UPGRADE)
        if caller is None:
            return _No(401, "authentication_error", "this token is not a caller's, or expired")
        if self.callers.own.get(host) and not _is_only_asked(asked, api):
            message = "with the gateway's own keys nothing is served here but models' answers, counters and lists"
            return _No(403, "permission_error", message)
        if read is not None and self._is_shared(host) and (why := unlike_its_own(read, kept=self.managed is not None)):
            return _No(403, "permission_error", why)
        return None

    async def _passed(self, asked: Incoming, host: Host, send: Send, told: TakenAsItCame) -> None:
        """Forward the very bytes that came, and return those of the answer."""
        body: bytes | AsyncIterator[bytes] = asked.body
        if asked.rest is not None:
            body = told.taking(asked.chunks())
        else:
            told.received_bytes = len(asked.body)
        told.asked(told.received_bytes)
        headers = self.callers.headers_for(forwarded(asked.headers), host)
        if asked.rest is not None and (length := asked.header("content-length")):
            headers.append((b"content-length", length.encode()))
        async with self.upstream.asked(
            host, method=asked.method, path=asked.path, query=asked.query, headers=headers, body=body
        ) as answer:
            await relayed(answer, send, added=PASSED)


def _is_only_asked(asked: Incoming, api: Api | None) -> bool:
    """Tell whether a request leaves the account behind a key as it is, and reads nothing that others left there."""
    if api is not None:
        return asked.method == "POST"
    return asked.method in ("GET", "HEAD") and (asked.route == MODELS or asked.route.startswith(_OF_MODELS))


PASSED: list[Header] = [(b"x-jettison", b"pass")]
_UPGRADE: list[Header] = [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")]
