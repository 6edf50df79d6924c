"""Said: what tests compare with what an agent said, whoever carried it into the log."""

from __future__ import annotations

from actors.services.read_back import outline_of
from protocol.facts import SaidMessage
from protocol.ids import Address
from storage.ports import EventLog


async def said_messages(at: Address, *, log: EventLog) -> list[SaidMessage]:
    """Return all messages of *at* as they were said, repeats left out, in order of their numbers."""
    return list((await outline_of(at, log=log)).said)
