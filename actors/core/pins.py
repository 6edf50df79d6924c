"""Pins: messages that neither digest nor cut may take, and what they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from protocol.formats.messages import INSTRUCTION_ROLES

from .entry import Entry
from .units import first_user, instructions, last_user, units

if TYPE_CHECKING:
    from .state import State


def pinned_numbers(state: State, entries: tuple[Entry, ...]) -> frozenset[int]:
    """Return the numbers of the messages that stay, whatever their age."""
    assert state.policy is not None
    pins = {entry.number for entry in instructions(entries)}
    if "system" in state.policy.cut.pins:
        pins |= {entry.number for entry in entries if entry.role in INSTRUCTION_ROLES}
    if "last_user" in state.policy.cut.pins:
        pins.add(last_user(entries))
    if "first_user" in state.policy.cut.pins:
        pins.add(first_user(entries))
    # a user may speak in one message with results: their calls stay with it
    pinned = [unit.entries for unit in units(entries) if any(entry.number in pins for entry in unit.entries)]
    return frozenset(pins.union(*({entry.number for entry in whole} for whole in pinned)) - {0})


def droppable_tokens(state: State) -> int:
    """Return the tokens of the live units that may leave: not the newest, and not the pinned ones."""
    pins = pinned_numbers(state, state.live)
    older = units(state.live)[:-1]
    return sum(unit.tokens for unit in older if not any(entry.number in pins for entry in unit.entries))
