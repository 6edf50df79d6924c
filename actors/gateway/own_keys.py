"""Own keys: what a caller may ask with the gateway's key, whose account holds what other callers have left there."""

from __future__ import annotations

from protocol.errors import Rejected

from .answers import reference_in
from .bodies import Body


def unlike_its_own(read: Body | Rejected, *, kept: bool) -> str:
    """Return why a request may reach for what is another caller's; empty where it cannot.

    *kept*: conversations are, and what they are gone on from by is known. What cannot be read here could be read there,
    so it is refused too.
    """
    if isinstance(read, Rejected):
        return str(read)
    fields, items = ["conversation"], (*read.head, *read.tail)
    if not kept:
        # else it is known whose answers and items these are
        fields, items = [*fields, "previous_response_id"], (*items, *read.messages)
    named = [name for name in fields if read.field(name) is not None]
    named += ["item_reference"] if any(map(reference_in, items)) else []
    named += ["thread"] if read.continues_a_thread else []
    return f"{' and '.join(named)} of callers are not known to the gateway" if named else ""
