"""Own keys: what a caller may ask with the gateway's key, whose account holds what other callers have left there."""

from __future__ import annotations

from protocol.errors import Rejected

from .bodies import Body

_THEIRS = ("conversation",)
"""Fields that name what a provider keeps for the account that asks."""

_KNOWN = "previous_response_id"
"""The same; where conversations are kept, the gateway knows whose it is."""

_REFERENCE = b'"item_reference"'


def unlike_its_own(read: Body | Rejected, *, kept: bool) -> str:
    """Return why a request may reach for what is another caller's; empty where it cannot.

    *kept*: conversations are, and what they are gone on from by is known. What cannot be read here could be read there,
    so it is refused too.
    """
    if isinstance(read, Rejected):
        return str(read)
    named = [name for name in (*_THEIRS, *(() if kept else (_KNOWN,))) if read.field(name) is not None]
    if any(_REFERENCE in raw for raw in read.messages):
        named.append("item_reference")
    return f"{' and '.join(named)} of callers are not known to the gateway" if named else ""
