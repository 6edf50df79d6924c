"""Tail: the newest units that stay verbatim, by the policy's limits."""

from __future__ import annotations

from actors.core.kept import emergency_first, first_within, limits_firsts, spares_kept
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
        return all_units[emergency_first(state, all_units) :]
    limits = (wanted.keep_blocks, wanted.keep_messages, wanted.keep_share, wanted.keep_tokens)
    pinned = sum(entry.tokens for entry in state.live if entry.number in pins)
    room = target_tokens(state) - pinned - _expected_digest_tokens(state)
    unlimited = all(limit is None for limit in limits)
    first = first_within(all_units, pins, room) if unlimited else max(limits_firsts(state, all_units, pins))
    newest_block = blocks_first(all_units, 1)
    open_run = sum(unit.tokens for unit in all_units[newest_block:]) > room
    if spares_kept(state.policy.cut):
        # a question and its answer are no run, however small the window is
        open_run &= sum(bool(unit.entries[0].call_ids) for unit in all_units[newest_block:]) > 1
    if wanted.keep_blocks is not None and first <= len(instructions(state.live)) and open_run:
        # one long run of calls under a single user: a block may be parted after any completed batch
        first = max(first, first_within(all_units, pins, room))
    floor = state.policy.cut.floor
    guarded = floor_units(all_units, floor) if floor.mode == "hard" and floor.calls == "stay" else 0
    return all_units[min(first, len(all_units) - guarded) :]


def _expected_digest_tokens(state: State) -> int:
    """Return the room that the digest will need; an LLM is expected to halve it."""
    assert state.policy is not None
    cap = digest_cap_tokens(state)
    return cap if state.policy.squeeze.way == "off" else cap // 2
