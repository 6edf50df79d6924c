"""Account: the fact by which a compaction tells what was asked and done, instead of the messages themselves."""

from __future__ import annotations

from functools import cache

import msgspec

from actors.core.entry import Entry
from actors.core.ledger import Ledger, changes, known_after
from actors.core.loss import fates
from actors.core.packed_items import NO_ITEMS, write_account
from actors.core.pressure import gain_tokens_min
from actors.core.state import State
from actors.core.state_parts import Digest
from actors.core.text.count import Count
from actors.core.trimmed import trimmed
from protocol.account import Account
from protocol.facts import CompactionDeclined, HistoryAccounted

from .ladder import Ladder


def tell_as_account(state: State, *, count: Count) -> tuple[HistoryAccounted | CompactionDeclined, ...]:
    """Return the fact that brings the view down to the target, or why there is nothing to bring down."""
    assert state.episode is not None
    boundary = state.episode.boundary
    # the same texts are weighed at every rung
    count = cache(count)
    ladder = Ladder.of(state, count)
    ladder.descend()
    if not ladder.trims.of and not ladder.leaving:
        return (CompactionDeclined(boundary=boundary, stage="digest", reason="nothing older than the kept units"),)
    before = state.live_tokens
    through, known, told, tokens = _written(ladder)
    while ladder.leaves_more(ladder.staying_tokens + tokens):
        through, known, told, tokens = _written(ladder)
    trims = tuple(trim for trims in ladder.trims.of.values() for trim in trims)
    after = ladder.staying_tokens + tokens
    # a view that does not fit is changed in any case, and cut tells nothing of what it drops
    must = state.episode.cause == "overflow" or (ladder.hindsight.rules_3 and before > state.usable_tokens)
    least = 1 if must else gain_tokens_min(state)
    if before - after < least:
        reason = f"would win {before - after} tokens, less than {least}"
        return (CompactionDeclined(boundary=boundary, stage="digest", reason=reason),)
    fact = HistoryAccounted(
        boundary=boundary,
        through=through,
        kept=tuple(entry.number for entry in state.live if entry.number <= through and entry not in ladder.leaving),
        form=ladder.form,
        items=(),
        digest_tokens=tokens,
        before_tokens=before,
        after_tokens=after,
        account=told,
        trimmed=trims,
    )
    return (_with_ledger(state, fact, tuple(ladder.leaving), known),)


def _written(ladder: Ladder) -> tuple[int, Ledger, Account | None, int]:
    """Return up to which message the account goes, what is known then, the account if it is a new one, its tokens."""
    state, leaving = ladder.state, ladder.leaving
    through = max([state.digest.through if state.digest else 0, *(entry.number for entry in leaving)])
    if not leaving:
        return through, state.ledger, None, state.digest.tokens if state.digest else 0
    known = known_after(state, tuple(leaving))
    return through, known, *ladder.told_within(ladder.told_room(), through, known)


def _with_ledger(state: State, fact: HistoryAccounted, leaving: tuple[Entry, ...], known: Ledger) -> HistoryAccounted:
    """Return *fact* with what changes in the ledger, and with what became of what left or became shorter."""
    gone = frozenset(entry.number for entry in leaving)
    shorter = frozenset(trim.number for trim in fact.trimmed)
    changed = [entry for entry in state.live if entry.number in gone or entry.number in shorter]
    staying = trimmed([entry for entry in state.live if entry.number not in gone], fact.trimmed)
    if not leaving:
        return msgspec.structs.replace(fact, fates=fates(state, changed, staying, after=state.digest))
    shown = Digest(
        through=fact.through,
        form=fact.form,
        raw_items=NO_ITEMS,
        tokens=fact.digest_tokens,
        raw_account=write_account(fact.account or Account()),
    )
    return msgspec.structs.replace(
        fact,
        ledger=changes(state.shown.raw_ledger, known),
        fates=fates(state, changed, staying, after=shown),
    )
