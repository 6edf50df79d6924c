"""Own keys: what a caller may ask with the gateway's key, whose account holds what other callers have left there."""

from __future__ import annotations

from protocol.errors import Rejected

from .apis import Api
from .bodies import body_of
from .encodings import unfolded
from .incoming import Incoming

_THEIRS = ("previous_response_id", "conversation")
"""Fields that name what a provider keeps for the account that asks."""

_REFERENCE = b'"item_reference"'


def unlike_its_own(asked: Incoming, api: Api, *, bytes_max: int) -> str:
    """Return why a request may reach for what is another caller's; empty where it cannot.

    What cannot be read here could be read there, so it is refused too.
    """
    if asked.rest is not None:
        return f"the request has more than {bytes_max:,} bytes"
    try:
        body = body_of(unfolded(asked.body, asked.header("content-encoding"), bytes_max=bytes_max), api)
    except Rejected as error:
        return str(error)
    named = [name for name in _THEIRS if body.field(name) is not None]
    if any(_REFERENCE in raw for raw in body.messages):
        named.append("item_reference")
    return f"{' and '.join(named)} of callers are not known to the gateway" if named else ""
