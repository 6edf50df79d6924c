"""Tail: the newest units that stay verbatim, by the policy's limits."""

from __future__ import annotations

from actors.core.pressure import moving_tokens, target_tokens
from actors.core.state import State
from actors.core.units import Unit, blocks_first, floor_units, instructions, units
from protocol.policy import share_of


def digest_cap_tokens(state: State) -> int:
    """Return the largest size of the digest message."""
    assert state.policy is not None
    share = share_of(moving_tokens(state), state.policy.digest.cap)
    most = state.policy.digest.cap_tokens
    return share if most is None else min(share, most)


def keeps_by_name(state: State) -> bool:
    """Tell whether the policy itself says how much of the newest stays, or an emergency does."""
    assert state.policy is not None
    wanted, floor = state.policy.digest, state.policy.cut.floor
    limits = (wanted.keep_blocks, wanted.keep_messages, wanted.keep_share, wanted.keep_tokens)
    hard = floor.mode == "hard" and (floor.blocks or floor.messages or floor.tokens)
    emergency = state.episode is not None and state.episode.cause == "overflow"
    return emergency or bool(hard) or any(limit is not None for limit in limits)


def kept_tail(state: State, pins: frozenset[int]) -> tuple[Unit, ...]:
    """Return the newest units that stay verbatim: at least the last one, else as many as the policy says."""
    assert state.policy is not None
    assert state.episode is not None
    wanted = state.policy.digest
    all_units = units(state.live)
    if state.episode.cause == "overflow":
        return all_units[-max(1, state.policy.emergency.keep_units) :]
    limits = (wanted.keep_blocks, wanted.keep_messages, wanted.keep_share, wanted.keep_tokens)
    pinned = sum(entry.tokens for entry in state.live if entry.number in pins)
    room = target_tokens(state) - pinned - _expected_digest_tokens(state)
    unlimited = all(limit is None for limit in limits)
    first = _first_within(all_units, pins, room) if unlimited else max(_firsts(state, all_units, pins))
    newest_block = blocks_first(all_units, 1)
    open_run = sum(unit.tokens for unit in all_units[newest_block:]) > room
    if wanted.keep_blocks is not None and first <= len(instructions(state.live)) and open_run:
        # one long run of calls under a single user: a block may be parted after any completed batch
        first = max(first, _first_within(all_units, pins, room))
    floor = state.policy.cut.floor
    guarded = floor_units(all_units, floor) if floor.mode == "hard" else 0
    return all_units[min(first, len(all_units) - guarded) :]


def _firsts(state: State, all_units: tuple[Unit, ...], pins: frozenset[int]) -> list[int]:
    """Return the place of the oldest unit that stays by each limit of the policy."""
    assert state.policy is not None
    wanted = state.policy.digest
    firsts = []
    if wanted.keep_blocks is not None:
        firsts.append(blocks_first(all_units, wanted.keep_blocks))
    spoken = len(state.live) - len(instructions(state.live))
    if wanted.keep_messages is not None:
        firsts.append(_first_of_messages(all_units, wanted.keep_messages))
    if wanted.keep_share is not None:
        firsts.append(_first_of_messages(all_units, spoken - share_of(spoken, 1 - wanted.keep_share)))
    if wanted.keep_tokens is not None:
        firsts.append(_first_within(all_units, pins, wanted.keep_tokens))
    return firsts


def _first_of_messages(all_units: tuple[Unit, ...], wanted: int) -> int:
    """Return the place of the unit that holds the oldest of the newest *wanted* messages."""
    taken = 0
    for index in range(len(all_units) - 1, -1, -1):
        taken += len(all_units[index].entries)
        if taken >= wanted:
            return index
    return 0


def _first_within(all_units: tuple[Unit, ...], pins: frozenset[int], room: int) -> int:
    """Return the place of the oldest of the newest units that fit *room* tokens; pinned ones take none."""
    first = len(all_units) - 1
    taken = 0
    for index in range(first, -1, -1):
        unit = all_units[index]
        taken += 0 if all(entry.number in pins for entry in unit.entries) else unit.tokens
        if index < len(all_units) - 1 and taken > room:
            break
        first = index
    return max(0, first)


def _expected_digest_tokens(state: State) -> int:
    """Return the room that the digest will need; an LLM is expected to halve it."""
    assert state.policy is not None
    cap = digest_cap_tokens(state)
    return cap if state.policy.squeeze.way == "off" else cap // 2
