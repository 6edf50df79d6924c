"""Digest: older units give way to the values that later steps may need.

Decides only, without an LLM. The digest before is merged with the units that leave now, so that the work
over a whole conversation is linear. What does not fit the cap is dropped by worth, never by position.
"""

from __future__ import annotations

from protocol.facts import CompactionDeclined, DigestItem, HistoryDigested

from .budget import gain_tokens_min, target_tokens
from .digest_text import FORM, render
from .entry import MESSAGE_TOKENS, Count, Entry
from .extract import items_of, merged, score
from .state import State
from .units import Unit, first_user, instructions, last_user, units

SEPARATOR_TOKENS = 1
"""Between two values; a line has its dash too."""


def digest(state: State, *, count: Count) -> tuple[HistoryDigested | CompactionDeclined, ...]:
    """Return the fact that replaces old units, or why there is none to replace; nothing if not asked."""
    if state.episode is None or state.episode.stage != "digest" or state.policy is None:
        return ()
    boundary = state.episode.boundary
    leaving, kept = _parted(state)
    if not leaving:
        return (CompactionDeclined(boundary=boundary, stage="digest", reason="nothing older than the kept units"),)
    through = leaving[-1].number
    items, tokens = _within_cap(state, leaving, through=through, count=count)
    before = state.live_tokens
    gone = sum(entry.tokens for entry in leaving) + (state.digest.tokens if state.digest else 0)
    after = before - gone + tokens
    if before - after < gain_tokens_min(state):
        reason = f"would win {before - after} tokens, less than {gain_tokens_min(state)}"
        return (CompactionDeclined(boundary=boundary, stage="digest", reason=reason),)
    fact = HistoryDigested(
        boundary=boundary,
        through=through,
        kept=kept,
        form=FORM,
        items=items,
        digest_tokens=tokens,
        before_tokens=before,
        after_tokens=after,
    )
    return (fact,)


def digest_cap_tokens(state: State) -> int:
    """Return the largest size of the digest message."""
    assert state.policy is not None
    return int(state.usable_tokens * state.policy.digest.cap)


def pinned_numbers(state: State, entries: tuple[Entry, ...]) -> frozenset[int]:
    """Return the numbers of the messages that stay, whatever their age."""
    assert state.policy is not None
    pins = {entry.number for entry in instructions(entries)}
    if "last_user" in state.policy.cut.pins:
        pins.add(last_user(entries))
    if "first_user" in state.policy.cut.pins:
        pins.add(first_user(entries))
    return frozenset(pins - {0})


def _parted(state: State) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Return the entries that leave, and the numbers of older ones that stay."""
    pins = pinned_numbers(state, state.live)
    tail = _tail(state, pins)
    older = [entry for entry in state.live if entry.number < tail[0].first] if tail else []
    leaving = tuple(entry for entry in older if entry.number not in pins)
    return leaving, tuple(entry.number for entry in older if entry.number in pins)


def _tail(state: State, pins: frozenset[int]) -> tuple[Unit, ...]:
    """Return the newest units that stay verbatim: at least the last one, else as many as there is room for."""
    assert state.policy is not None
    keep_blocks, keep_tokens = state.policy.digest.keep_blocks, state.policy.digest.keep_tokens
    all_units = units(state.live)
    pinned = sum(entry.tokens for entry in state.live if entry.number in pins)
    room = target_tokens(state) - pinned - _expected_digest_tokens(state)
    if keep_tokens is not None:
        room = keep_tokens
    elif keep_blocks is not None:
        room = state.live_tokens
    taken, blocks, first = 0, 0, len(all_units)
    for index in range(len(all_units) - 1, -1, -1):
        unit = all_units[index]
        free = all(entry.number in pins for entry in unit.entries)
        taken += 0 if free else unit.tokens
        over_blocks = keep_blocks is not None and blocks >= keep_blocks
        if index < len(all_units) - 1 and (taken > room or over_blocks):
            break
        blocks += unit.opens_block
        first = index
    return all_units[first:]


def _expected_digest_tokens(state: State) -> int:
    """Return the room that the digest will need; an LLM is expected to halve it."""
    assert state.policy is not None
    cap = digest_cap_tokens(state)
    return cap if state.policy.squeeze.mode == "off" else cap // 2


def _within_cap(
    state: State, leaving: tuple[Entry, ...], *, through: int, count: Count
) -> tuple[tuple[DigestItem, ...], int]:
    """Return the worthiest items that fit the cap, oldest first, and the tokens of their message."""
    prior = state.digest.items if state.digest else ()
    prose = state.digest.prose if state.digest else ""
    items = merged(prior, items_of(leaving))
    items.sort(key=lambda item: (-score(item, through), -item.number, item.category, item.value))
    room = digest_cap_tokens(state) - count(render((), prose=prose, through=through, form=FORM)) - MESSAGE_TOKENS
    chosen: list[DigestItem] = []
    for item in items:
        room -= count(item.value) + SEPARATOR_TOKENS
        if room < 0:
            break
        chosen.append(item)
    while True:
        chosen_now = tuple(sorted(chosen, key=lambda item: (item.number, item.category, item.value)))
        tokens = count(render(chosen_now, prose=prose, through=through, form=FORM)) + MESSAGE_TOKENS
        if tokens <= digest_cap_tokens(state) or not chosen:
            return chosen_now, tokens
        # titles and joints cost more than estimated: drop the least worthy twentieth and count again
        del chosen[-max(1, len(chosen) // 20) :]
