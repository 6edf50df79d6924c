"""Digest: older units give way to the values that later steps may need.

Decides only, without an LLM. The ledger is joined with the units that leave now, so that the work over a
whole conversation is linear; what did not fit before may come back. What does not fit the cap is dropped by
worth, never by position.
"""

from __future__ import annotations

from actors.core.digest_text import FORM, render
from actors.core.entry import MESSAGE_TOKENS, Entry
from actors.core.extract import standing_in
from actors.core.ledger import Ledger, changes, known_after
from actors.core.loss import fates
from actors.core.packed_items import write_items
from actors.core.pins import pinned_numbers
from actors.core.pressure import gain_tokens_min, moving_tokens, target_tokens
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from actors.core.units import Unit, blocks_first, floor_units, instructions, units
from protocol.facts import CompactionDeclined, DigestItem, HistoryDigested
from protocol.policy import share_of

from .account import account
from .rank import chosen

TITLES_TOKENS = 24
"""The titles of the categories, each about two tokens."""

_IN_PROSE = frozenset(("answered", "decision", "error", "outcome"))
"""Sentences that a summary says in its own words; requests and rules stay word for word."""


def digest(state: State, *, count: Count) -> tuple[HistoryDigested | CompactionDeclined, ...]:
    """Return the fact that replaces old units, or why there is none to replace; nothing if not asked."""
    if state.episode is None or state.episode.stage != "digest" or state.policy is None:
        return ()
    boundary = state.episode.boundary
    if state.policy.digest.mode == "off":
        return (CompactionDeclined(boundary=boundary, stage="digest", reason="digest.mode is off"),)
    if state.policy.digest.style == "account" and state.policy.squeeze.mode == "off":
        return account(state, count=count)
    leaving, kept = _parted(state)
    if not leaving:
        return (CompactionDeclined(boundary=boundary, stage="digest", reason="nothing older than the kept units"),)
    through = max(leaving[-1].number, state.digest.through if state.digest else 0)
    now = known_after(state, leaving)
    items, tokens = _within_cap(state, now, leaving, through=through, count=count)
    before = state.live_tokens
    gone = sum(entry.tokens for entry in leaving) + (state.digest.tokens if state.digest else 0)
    after = before - gone + tokens
    least = 1 if state.episode.cause == "overflow" else gain_tokens_min(state)
    if before - after < least:
        reason = f"would win {before - after} tokens, less than {least}"
        return (CompactionDeclined(boundary=boundary, stage="digest", reason=reason),)
    gone_numbers = frozenset(entry.number for entry in leaving)
    staying = [entry for entry in state.live if entry.number not in gone_numbers]
    prose = state.digest.prose if state.digest else ""
    shown = Digest(through=through, form=FORM, raw_items=write_items(items), tokens=tokens, prose=prose)
    fact = HistoryDigested(
        boundary=boundary,
        through=through,
        kept=kept,
        form=FORM,
        items=items,
        digest_tokens=tokens,
        before_tokens=before,
        after_tokens=after,
        ledger=changes(state.ledger, now),
        fates=fates(leaving, staying, before=state.digest, after=shown),
    )
    return (fact,)


def digest_cap_tokens(state: State) -> int:
    """Return the largest size of the digest message."""
    assert state.policy is not None
    share = share_of(moving_tokens(state), state.policy.digest.cap)
    most = state.policy.digest.cap_tokens
    return share if most is None else min(share, most)


def _parted(state: State) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Return the entries that leave, and the numbers of older ones that stay."""
    pins = pinned_numbers(state, state.live)
    tail = _tail(state, pins)
    # a result that came late may stand before the unit that was open then
    first = min((unit.first for unit in tail), default=0)
    older = [entry for entry in state.live if entry.number < first]
    leaving = tuple(entry for entry in older if entry.number not in pins)
    return leaving, tuple(entry.number for entry in older if entry.number in pins)


def _tail(state: State, pins: frozenset[int]) -> tuple[Unit, ...]:
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
    return cap if state.policy.squeeze.mode == "off" else cap // 2


def _within_cap(
    state: State, known: Ledger, leaving: tuple[Entry, ...], *, through: int, count: Count
) -> tuple[tuple[DigestItem, ...], int]:
    """Return the worthiest items that fit the cap, oldest first, and the tokens of their message."""
    assert state.policy is not None
    prose = state.digest.prose if state.digest else ""
    cap = digest_cap_tokens(state)
    room = cap - count(render((), prose=prose, through=through, form=FORM)) - MESSAGE_TOKENS - TITLES_TOKENS
    standing = _standing(state, leaving)
    wanted = [item for item in known if item.value not in standing and not _said_in_prose(state, item)]
    items = chosen(wanted, room, newest=through, most=state.policy.digest.categories, count=count)
    while True:
        ordered = tuple(sorted(items, key=lambda item: (item.number, item.category, item.value)))
        tokens = count(render(ordered, prose=prose, through=through, form=FORM)) + MESSAGE_TOKENS
        if tokens <= cap or not items:
            return ordered, tokens
        # titles and joints cost more than estimated: drop the least worthy twentieth and count again
        del items[-max(1, len(items) // 20) :]


def _said_in_prose(state: State, item: DigestItem) -> bool:
    """Tell whether the summary that stands in the digest holds *item* already."""
    if state.digest is None or not state.digest.prose:
        return False
    return item.value in state.digest.prose or (item.category in _IN_PROSE and item.number <= state.digest.through)


def _standing(state: State, leaving: tuple[Entry, ...]) -> frozenset[str]:
    """Return the values that stand verbatim in the messages that stay; they are found again when those leave."""
    gone = frozenset(entry.number for entry in leaving)
    return standing_in(tuple(entry for entry in state.live if entry.number not in gone))
