"""Said log: what agents said, read from a log without folding it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from actors.core.state import initial, remember_writer
from protocol import codec
from protocol.errors import BadEnvelope
from protocol.facts import MessagesAppended, SaidFact, SaidMessage
from protocol.ids import Address
from storage.ports import Record


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it was said, and where in the log."""

    number: int
    message: SaidMessage
    record: Record


def sayings(at: Address, records: Iterable[Record]) -> Iterator[Saying]:
    """Yield all messages as they were said, in order of their numbers."""
    number = 0
    for record, fact in said_facts(at, records):
        for message in fact.messages if isinstance(fact, MessagesAppended) else ():
            number += 1
            yield Saying(number=number, message=message, record=record)


def said_facts(at: Address, records: Iterable[Record]) -> Iterator[tuple[Record, SaidFact]]:
    """Yield the messages of agents, repeats left out; what is no envelope is passed by, as the fold does."""
    state = initial(codec.genesis(at))
    for record in records:
        if record.side != "said":
            continue
        try:
            said = codec.decode_said(record.body)
        except BadEnvelope:
            continue
        # the fold's own memory of writers, so that the numbers are the fold's numbers
        known = remember_writer(state, said.writer, said.count)
        if known is not None:
            state = known
            yield from ((record, fact) for fact in said.facts)
