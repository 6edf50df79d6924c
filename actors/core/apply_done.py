"""Apply what was done: fold what actors did into the state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from msgspec.structs import replace

from protocol import policy as policies
from protocol.codec import Commit
from protocol.errors import ChainBroken, PastNeeded
from protocol.facts import (
    AccountSqueezed,
    CompactionDeclined,
    ContextServed,
    ConversationArchived,
    ConversationErased,
    ConversationForked,
    ConversationRepaired,
    ConversationRewound,
    DigestSqueezed,
    DoneFact,
    HistoryAccounted,
    HistoryCut,
    HistoryDigested,
    HistoryExpanded,
    HistorySummarized,
    HookFired,
    MessageRepaired,
    PolicySet,
    ReminderInjected,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.subjects import FIRST_ACTOR

from .account_text import without_steps
from .admit import admit
from .entry import Entry, Noted, ShownPart
from .flow import after_stage, begun
from .in_force import in_force
from .ledger import Ledger, remembered
from .observations import without_marks
from .packed_items import write_account, write_items
from .pressure import begins
from .rewind import Past, expanded, rewound
from .spent import Day, with_call, with_rewriting
from .state import State, tombstone
from .state_parts import OVERFLOW, Arrived, Digest
from .trimmed import trimmed

SERVED_REMEMBERED_MAX = 8
NO_PAST: Past = {}


def apply_done(state: State, commit: Commit, *, seq: int, size: int, past: Past = NO_PAST) -> State:
    """Return the state after *commit*, whose envelope has *size* bytes; *past* holds the states around earlier commits.

    Raises `ChainBroken` if it does not follow, `PastNeeded` if it goes back to a version that *past* has not.
    """
    if commit.version > state.version and commit.is_tombstone:
        # what it follows is gone, for a reader who had seen it too
        return tombstone(commit, seq=seq)
    if commit.version != state.version + 1 or commit.prev_hash != state.hash:
        raise ChainBroken(
            f"commit {commit.version} does not follow version {state.version}",
            version=commit.version,
            after=state.version,
            seq=seq,
        )
    if commit.said_hash != state.position.said_hash and any(isinstance(fact, PolicySet) for fact in commit.facts):
        # a message that was said between was not admitted by the new policy
        raise PastNeeded(f"version {commit.version} has another policy for messages that are folded", seq=seq)
    terms = replace(state.terms, tokenizer=commit.tokenizer)
    if commit.policy:
        policy = policies.decode(commit.policy)
        terms = replace(terms, policy=policy, policy_hash=commit.policy_hash)
        state = _as_ruled(replace(state, terms=terms))
    position = replace(
        state.position,
        version=commit.version,
        hash=commit.hash,
        seq=seq,
        done_seq=seq,
        done_bytes=state.position.done_bytes + size,
    )
    state = replace(state, position=position, terms=terms)
    # all that one step spilled or repaired, each in one walk
    state = _show(state, [fact for fact in commit.facts if isinstance(fact, ToolOutputSpilled | ToolOutputTrimmed)])
    recorded = {fact for fact in commit.facts if isinstance(fact, MessageRepaired)}
    if recorded:
        left = tuple(one for one in state.heard.unrecorded if one not in recorded)
        state = replace(state, heard=replace(state.heard, unrecorded=left))
    for fact in commit.facts:
        state = _apply(_paid(state, fact), fact, past)
    return admit(state)


def _paid(state: State, fact: DoneFact) -> State:
    """Return the state that knows what *fact* cost; an answer that was refused was paid for too."""
    match fact:
        case DigestSqueezed() | HistorySummarized() | CompactionDeclined() | StageFailed() if fact.cost_microdollars:
            cost = fact.cost_microdollars
            return replace(state, spent=with_rewriting(state.spent, upto=fact.boundary, microdollars=cost))
        case _:
            return state


def _apply(state: State, fact: DoneFact, past: Past) -> State:
    match fact:
        case ToolOutputSpilled() | ToolOutputTrimmed() | MessageRepaired():
            return state  # folded before the others
        case HistoryDigested():
            return after_stage(_digested(state, fact), "digest", applied=True)
        case DigestSqueezed() | HistorySummarized():
            return after_stage(_squeezed(state, fact), "squeeze", applied=True)
        case HistoryCut():
            return after_stage(_cut(state, fact), "cut", applied=True)
        case CompactionDeclined() if fact.stage == FIRST_ACTOR:
            return _looked(state, fact.boundary)
        case StageFailed() if fact.stage == FIRST_ACTOR:
            return _undue(state, OVERFLOW)
        case CompactionDeclined() | StageFailed():
            return after_stage(state, fact.stage, applied=False)
        case ContextServed():
            return _served(state, fact)
        case HookFired():
            return _undue(state, fact.hook) if fact.action != "inject" else state
        case ReminderInjected():
            return _undue(_noted(state, fact), fact.name)
        case HistoryExpanded():
            return _as_ruled(expanded(state, fact, past))
        case ConversationRewound():
            return _as_ruled(rewound(state, fact, past))
        case PolicySet():
            return _reset(state, fact)
        case ConversationForked():
            # what it copied was spent by its parent
            spent = replace(state.spent, days=tuple(Day(day=one.day, first=one.first) for one in state.spent.days))
            return replace(state, terms=replace(state.terms, name=fact.name), spent=spent)
        case ConversationRepaired():
            return state  # the chain says it: this follows the last sound commit
        case ConversationArchived():
            position = replace(
                state.position, archived_seq=state.position.seq, archived_upto=fact.last, idle_ms=fact.idle_ms
            )
            return replace(state, position=position)
        case ConversationErased():
            raise AssertionError("a tombstone is a commit of its own")
    assert_never(fact)


def _as_ruled(state: State) -> State:
    """Return *state* with observations only where its policy knows them: what is taken back was said under another."""
    knows = state.policy is None or state.policy.digest.rules_3
    return state if knows else without_marks(state)


def _reset(state: State, fact: PolicySet) -> State:
    """Return the state under the policy that this commit adopts: what was going on by the old one begins anew."""
    state = replace(
        state,
        terms=replace(state.terms, layer=fact.layer),
        agenda=replace(state.agenda, episode=None, quiet_tokens=0),
    )
    if not state.live or not begins(state):
        return state
    return begun(state, "trigger", boundary=state.live[-1].number)


def _served(state: State, fact: ContextServed) -> State:
    served = (*state.calibration.served, (fact.view_hash, fact.tokens))[-SERVED_REMEMBERED_MAX:]
    newer = (*(one.entry for one in reversed(state.waiting) if isinstance(one, Arrived)), *reversed(state.live))
    window = state.policy.budget.window if state.policy else 0
    spent = with_call(state.spent, upto=fact.upto, newer=newer, tokens=fact.tokens, window=window)
    return replace(
        state,
        spent=spent,
        calibration=replace(state.calibration, served=served, upto=fact.upto),
        terms=replace(state.terms, asked=fact.asked, asked_upto=fact.upto if fact.asked else 0),
    )


def _looked(state: State, number: int) -> State:
    waiting = tuple(
        replace(one, entry=replace(one.entry, looked=True))
        if isinstance(one, Arrived) and one.entry.number == number
        else one
        for one in state.waiting
    )
    return replace(state, waiting=waiting)


def _show(state: State, facts: Sequence[ToolOutputSpilled | ToolOutputTrimmed]) -> State:
    if not facts:
        return state
    by_number: dict[int, list[ToolOutputSpilled | ToolOutputTrimmed]] = {}
    for fact in facts:
        by_number.setdefault(fact.number, []).append(fact)

    def changed(entry: Entry) -> Entry:
        # all at once: a result may have thousands of parts
        new: dict[str, ShownPart] = {}
        for fact in by_number.get(entry.number, ()):
            owed = isinstance(fact, ToolOutputTrimmed) and fact.owed
            new.pop(fact.pointer, None)
            new[fact.pointer] = ShownPart(
                pointer=fact.pointer, raw=fact.text.encode(), tokens=fact.text_tokens, owed=owed
            )
        others = (one for one in entry.shown if one.pointer not in new)
        return replace(entry, shown=(*others, *new.values())) if new else entry

    waiting = tuple(
        replace(one, entry=changed(one.entry)) if isinstance(one, Arrived) else one for one in state.waiting
    )
    return _with_live(replace(state, waiting=waiting), tuple(map(changed, state.live)), state.digest)


def _digested(state: State, fact: HistoryDigested) -> State:
    kept = frozenset(fact.kept)
    live = tuple(entry for entry in state.live if entry.number > fact.through or entry.number in kept)
    prose = state.digest.prose if state.digest else ""
    pending: tuple[Entry, ...] = ()
    ruled = in_force(state).policy
    if ruled is not None and ruled.squeeze.way == "summarize":
        before = state.digest.pending if state.digest else ()
        leaving = (entry for entry in state.live if entry.number <= fact.through and entry.number not in kept)
        window = ruled.budget.window
        if isinstance(fact, HistoryAccounted):
            # as much as the model that squeezes may read at once
            window = ruled.squeeze.window or window
        pending = _newest((*before, *leaving), window)
    digest = Digest(
        through=fact.through,
        form=fact.form,
        raw_items=write_items(fact.items),
        tokens=fact.digest_tokens,
        prose=prose,
        pending=pending,
    )
    if isinstance(fact, HistoryAccounted):
        live = tuple(trimmed(live, fact.trimmed))
        if fact.account is None:
            # nothing left: results only became shorter in place
            return _with_live(_remembering(state, fact.ledger), live, state.digest)
        digest = replace(digest, raw_account=write_account(fact.account))
    return _with_live(_remembering(state, fact.ledger), live, digest)


def _squeezed(state: State, fact: DigestSqueezed | HistorySummarized) -> State:
    assert state.digest is not None
    digest = replace(
        state.digest, prose=fact.prose, raw_items=write_items(fact.items), tokens=fact.digest_tokens, pending=()
    )
    if isinstance(fact, AccountSqueezed) and digest.account is not None:
        account = without_steps(digest.account, fact.left, fact.values)
        digest = replace(digest, raw_account=write_account(account))
    return _with_live(state, state.live, digest)


def _cut(state: State, fact: HistoryCut) -> State:
    dropped = frozenset(fact.dropped)
    live = tuple(entry for entry in state.live if entry.number not in dropped)
    live = tuple(trimmed(live, fact.trimmed))
    return _with_live(_remembering(state, fact.ledger), live, None if fact.digest_dropped else state.digest)


def _remembering(state: State, changes: Ledger) -> State:
    if not changes:
        return state
    raw_ledger = remembered(state.shown.raw_ledger, changes)
    return replace(state, shown=replace(state.shown, raw_ledger=raw_ledger))


def _with_live(state: State, live: tuple[Entry, ...], digest: Digest | None) -> State:
    tokens = sum(entry.tokens for entry in live) + (digest.tokens if digest else 0)
    return replace(state, shown=replace(state.shown, live=live, digest=digest, live_tokens=tokens))


def _undue(state: State, hook: str) -> State:
    """Return the state in which the oldest thing that is due under *hook* is done."""
    due = state.agenda.due
    for index, one in enumerate(due):
        if one.hook == hook:
            return replace(state, agenda=replace(state.agenda, due=due[:index] + due[index + 1 :]))
    return state


def _noted(state: State, fact: ReminderInjected) -> State:
    """Put a note behind its message, and take an earlier one of the same name away."""
    live = tuple(entry.without_note(fact.name) for entry in state.live)
    if not fact.text:
        # there was no room for one
        return _with_live(state, live, state.digest)
    note = Noted(name=fact.name, text=fact.text, tokens=fact.tokens, role=fact.role)
    live = tuple(replace(entry, notes=(*entry.notes, note)) if entry.number == fact.number else entry for entry in live)
    return _with_live(state, live, state.digest)


def _newest(entries: tuple[Entry, ...], tokens_max: int) -> tuple[Entry, ...]:
    """Return the newest of *entries* within *tokens_max*: what summaries were declined for is not kept for ever."""
    taken = 0
    for index in range(len(entries) - 1, -1, -1):
        taken += entries[index].tokens
        if taken > tokens_max:
            return entries[index + 1 :]
    return entries
