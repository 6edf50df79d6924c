"""Delivery: one slot in a worker's hands, from its delivery until it is free."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass

from opentelemetry.context import Context

from actors.core.state import State
from protocol import semconv
from protocol.errors import LogUnavailable
from protocol.subjects import Actor
from protocol.tracing import CARRIED, extract, link_to, span
from storage.streams import ACK_WAIT_SECONDS
from storage.work_ports import BegunWork, Slot

from .task_group import regularly

log = logging.getLogger("jettison.worker")

REPUBLISHED_SEQ = "Nats-Sequence"
"""Header of what a stream republishes: where it lies there. An agent may have written one too; then more is read."""

SEQ_DIGITS_MAX = 16
"""Those of 2**53, which no sequence reaches (`storage/partitions.py`): a longer number was told by no server."""


@dataclass
class Delivery:
    """One slot that was taken: what was last known of its conversation; whether the slot may be and is free again."""

    slot: Slot
    state: State | None = None
    begun: BegunWork | None = None
    """What this delivery wrote down of itself, to be wiped when it ends."""
    has_turn: bool = False
    """It is the one of those that may be deadly that its worker works on."""
    is_ending: bool = False
    is_free: bool = False


@contextmanager
def delivery_span(actor: Actor, slot: Slot) -> Iterator[None]:
    """Record one delivery. The first belongs to the agent's own trace; a later one only refers to it."""
    first = slot.deliveries <= 1
    attributes = {
        semconv.MESSAGING_SYSTEM: "nats",
        semconv.MESSAGING_OPERATION_NAME: "process",
        **semconv.of_conversation(slot.at.tenant, slot.at.conversation),
        semconv.NATS_NUM_DELIVERED: slot.deliveries,
    }
    with span(
        f"process {semconv.wake_template(actor)}",
        kind="consumer",
        parent=extract(slot.headers) if first else Context(),
        links=() if first else link_to(slot.headers),
        attributes=attributes,
    ):
        yield


def carried(slot: Slot) -> dict[str, str]:
    """Return the trace of the wake-up, as it came."""
    return {name: slot.headers[name] for name in CARRIED if name in slot.headers}


def said_seq(slot: Slot) -> int:
    """Return the sequence of the agent's message that filled the slot, as the server told it; 0 for any other slot.

    Who reads up to it need not ask where the log ends: what came behind it is seen when the slot is free.
    """
    told = slot.headers.get(REPUBLISHED_SEQ, "") if slot.deliveries <= 1 else ""
    return int(told) if told.isascii() and told.isdigit() and len(told) <= SEQ_DIGITS_MAX else 0


async def give_back(slot: Slot, seconds: float) -> None:
    """Let the slot be delivered again after *seconds*."""
    try:
        await slot.later(seconds)
    except LogUnavailable as error:
        # not lost: the server delivers it again when the ack wait is over
        log.info("the slot of %s: %s", slot.at, error)


def held(slot: Slot) -> AbstractAsyncContextManager[None]:
    """Tell the server every third of the ack wait that work goes on."""

    async def hold() -> None:
        try:
            await slot.hold()
        except LogUnavailable as error:
            log.info("the slot of %s: %s", slot.at, error)

    return regularly(ACK_WAIT_SECONDS / 3, hold)
