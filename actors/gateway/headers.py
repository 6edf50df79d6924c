"""Headers: which of them go on to the other side, and which are between two neighbours only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

Header = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
    )
)
"""Of one connection, not of the message (RFC 9110, 7.6.1), and what `Connection` names beside them."""

OURS = b"x-jettison-"
"""Between the agent and the gateway: a provider never sees them, and cannot set them."""

CREDENTIALS = frozenset(
    (b"authorization", b"x-api-key", b"api-key", b"cookie", b"openai-organization", b"openai-project")
)
"""By which a caller is known. Where the gateway has keys of its own, they go nowhere."""


def value_of(headers: Iterable[Header], name: str) -> str:
    """Return the first value of the header *name*, in lower case given; empty if there is none."""
    wanted = name.encode()
    return next((value.decode("latin-1").strip() for key, value in headers if key.lower() == wanted), "")


def forwarded(headers: Iterable[Header], *, without: Iterable[bytes] = ()) -> list[Header]:
    """Return the headers of a request that go on to the provider, in their order, all but *without*."""
    given = list(headers)
    left = {*HOP_BY_HOP, *_named(given), b"host", b"content-length", *without}
    return [(key, value) for key, value in given if key.lower() not in left and not key.lower().startswith(OURS)]


def returned(headers: Iterable[Header], *, without: Iterable[bytes] = ()) -> list[Header]:
    """Return the headers of an answer that go back to the agent, all but *without*."""
    given = list(headers)
    left = {*HOP_BY_HOP, *_named(given), *without}
    return [
        (key.lower(), value) for key, value in given if key.lower() not in left and not key.lower().startswith(OURS)
    ]


def _named(headers: Iterable[Header]) -> Iterator[bytes]:
    for key, value in headers:
        if key.lower() == b"connection":
            yield from (name.strip().lower() for name in value.split(b","))
