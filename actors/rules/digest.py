"""Digest: older units give way to the values that later steps may need.

Decides only, without an LLM. The digest before is merged with the units that leave now, so that the work
over a whole conversation is linear. What does not fit the cap is dropped by worth, never by position.
"""

from __future__ import annotations

from itertools import chain

import msgspec

from protocol.facts import CompactionDeclined, DigestItem, HistoryDigested

from .budget import gain_tokens_min, target_tokens
from .digest_text import FORM, LINES, render
from .entry import MESSAGE_TOKENS, Count, Entry
from .extract import items_of, merged, score, within
from .state import State
from .units import Unit, first_user, instructions, last_user, units

RULES_SHARE = 0.25
"""Of the digest, for what the user said must always hold: word for word, before anything else."""

LINES_SHARE = 0.125
"""Of the digest, for other sentences: one costs as much as ten values, and later steps use values."""

TITLES_TOKENS = 24
"""The titles of the categories, each about two tokens."""


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
    cap = digest_cap_tokens(state)
    room = cap - count(render((), prose=prose, through=through, form=FORM)) - MESSAGE_TOKENS - TITLES_TOKENS
    standing = _standing(state, leaving)
    found = [item for item in merged(prior, items_of(leaving)) if item.value not in standing]
    chosen = _chosen(found, room, through=through, count=count)
    while True:
        chosen_now = tuple(sorted(chosen, key=lambda item: (item.number, item.category, item.value)))
        tokens = count(render(chosen_now, prose=prose, through=through, form=FORM)) + MESSAGE_TOKENS
        if tokens <= cap or not chosen:
            return chosen_now, tokens
        # titles and joints cost more than estimated: drop the least worthy twentieth and count again
        del chosen[-max(1, len(chosen) // 20) :]


def _standing(state: State, leaving: tuple[Entry, ...]) -> frozenset[str]:
    """Return the values that stand verbatim in the messages that stay; they are found again when those leave."""
    gone = frozenset(entry.number for entry in leaving)
    items = items_of(tuple(entry for entry in state.live if entry.number not in gone))
    values = [item.value for item in items if item.category not in LINES]
    return frozenset(chain(values, *map(within, values)))


def _chosen(found: list[DigestItem], room: int, *, through: int, count: Count) -> list[DigestItem]:
    """Return the items that say most in *room* tokens, worth per token: sentences up to their share, then values."""
    # a value brings the space before it, a sentence its line end
    priced = [(item, count(f" {item.value}") + (item.category in LINES)) for item in found]
    priced.sort(key=lambda one: (-score(one[0], through) / one[1], -one[0].number, one[0].category, one[0].value))
    lines: list[DigestItem] = []
    rules = [one for one in priced if one[0].category == "rule"]
    others = [one for one in priced if one[0].category in LINES - {"rule"}]
    for sentences, left in ((rules, int(room * RULES_SHARE)), (others, int(room * LINES_SHARE))):
        for item, tokens in sentences:
            if tokens <= left:
                lines.append(item)
                left -= tokens
                room -= tokens
    # a value inside a sentence keeps a place of its own: the sentence may leave before it
    covered: set[str] = set()
    values: dict[str, tuple[DigestItem, int]] = {}
    for item, tokens in priced:
        if item.category in LINES or item.value in covered or item.value in values or tokens > room:
            continue
        room -= tokens
        inside = set(within(item.value)) - {item.value}
        shorter = [values.pop(value) for value in sorted(inside & values.keys())]
        room += sum(freed for _, freed in shorter)
        values[item.value] = (_heir(item, [one for one, _ in shorter]), tokens)
        covered |= inside
    return lines + [item for item, _ in values.values()]


def _heir(item: DigestItem, inside: list[DigestItem]) -> DigestItem:
    """Return *item* with the best of what the values *inside* it had: it stands for them now."""
    number = max(one.number for one in (item, *inside))
    uses = max(one.uses for one in (item, *inside))
    return msgspec.structs.replace(item, number=number, uses=uses)
