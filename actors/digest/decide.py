"""Digest: old messages give way to an account of the run, or to the values that later steps may need.

Decides only, without an LLM. `account.py` has the account, the default; here is the list of values, for presets of
other systems and for policies that squeeze by the first prompts. The ledger is joined with the units that leave now, so
that the work over a whole conversation is linear. What does not fit the cap is dropped by worth, never by position.
"""

from __future__ import annotations

from actors.core.digest_text import FORM, render
from actors.core.entry import MESSAGE_TOKENS, Entry
from actors.core.extract import standing_in
from actors.core.ledger import Ledger, changes, known_after
from actors.core.loss import fates
from actors.core.packed_items import write_items
from actors.core.pins import pinned_numbers
from actors.core.pressure import gain_tokens_min
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from actors.core.units import floor_pairs, units
from protocol.facts import CompactionDeclined, DigestItem, HistoryDigested

from .account import tell_as_account
from .rank import chosen
from .tail import digest_cap_tokens, kept_tail

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
    told = state.digest is not None and state.digest.tells
    squeezable = state.policy.squeeze.way == "off" or state.policy.squeeze.prompt_version != "v1"
    if state.policy.digest.style == "account" and (told or squeezable):
        return tell_as_account(state, count=count)
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
        ledger=changes(state.shown.raw_ledger, now),
        fates=fates(state, leaving, staying, after=shown),
    )
    return (fact,)


def _parted(state: State) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """Return the entries that leave, and the numbers of older ones that stay."""
    assert state.policy is not None
    pins, floor = pinned_numbers(state, state.live), state.policy.cut.floor
    tail = kept_tail(state, pins)
    if floor.mode == "hard" and floor.calls == "leave":
        pins |= floor_pairs(units(state.live), floor)
    # a result that came late may stand before the unit that was open then
    first = min((unit.first for unit in tail), default=0)
    older = [entry for entry in state.live if entry.number < first]
    leaving = tuple(entry for entry in older if entry.number not in pins)
    return leaving, tuple(entry.number for entry in older if entry.number in pins)


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
    items = chosen(
        wanted, room, newest=through, most=state.policy.digest.categories, count=count, told=state.policy.digest.told
    )
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
