"""The state: what all facts of a conversation add up to.

`hear` folds what agents said, `evolve` folds what actors did; the two commute, because a message is
admitted to the live view only when its own large parts are spilled and no compaction of an earlier
boundary is open. What a worker decides therefore depends on the order of the messages alone, never on
how fast anybody was.
"""

from __future__ import annotations

from typing import assert_never

import msgspec

from protocol import policy as policies
from protocol.codec import Commit
from protocol.errors import ChainBroken
from protocol.facts import (
    CompactionDeclined,
    ContextServed,
    DigestItem,
    DigestSqueezed,
    DoneFact,
    HistoryCut,
    HistoryDigested,
    MessageRepaired,
    RepairKind,
    StageFailed,
    ToolOutputSpilled,
    ToolOutputTrimmed,
)
from protocol.limits import WRITERS_REMEMBERED_MAX
from protocol.policy import Policy
from protocol.subjects import Actor

from .budget import over_target, over_trigger
from .entry import ABORTED_TOKENS, Entry, oversized

RECENT_CALLS_MAX = 2000
"""Call ids remembered to tell a repeated one; two in one view are closer than this."""


class Digest(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What stands for the messages up to `through`: an LLM's prose, if any, then the rules' items.

    `tokens` are those of the whole message that shows it.
    """

    through: int
    form: int
    items: tuple[DigestItem, ...]
    tokens: int
    prose: str = ""


class Episode(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One compaction under way: begun at `boundary`, now waiting for `stage`."""

    boundary: int
    stage: Actor


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A wish in the order of the messages: another budget from here on."""

    budget: int


class Arrived(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An entry that is not admitted yet."""

    entry: Entry
    ended: tuple[str, ...] = ()
    """Calls that its arrival ended unanswered. They are closed when it is admitted, not when it is heard."""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call without its result: the id as said, the id as shown, and its message."""

    said: str
    shown: str
    number: int


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation at one position of its log."""

    hash: bytes
    """Of the newest commit, or the genesis."""
    said_hash: bytes
    version: int = 0
    seq: int = 0
    done_seq: int = 0
    said_seq: int = 0
    name: str = ""
    model: str = ""
    layer: bytes = b"{}"
    policy: Policy | None = None
    policy_hash: str = ""
    tokenizer: str = ""
    budget: int = 0
    """Tokens that the agent asked for; 0: as the policy says."""
    writers: tuple[tuple[str, int], ...] = ()
    messages: int = 0
    begun: bool = False
    """Somebody has spoken after the leading instructions."""
    live: tuple[Entry, ...] = ()
    live_tokens: int = 0
    """Of `live` and the digest together: what a view of them costs."""
    waiting: tuple[Arrived | Asked, ...] = ()
    digest: Digest | None = None
    episode: Episode | None = None
    quiet_tokens: int = 0
    """After compaction could not help, none begins before the view is larger than this."""
    open_calls: tuple[OpenCall, ...] = ()
    recent_calls: tuple[str, ...] = ()
    unrecorded: tuple[MessageRepaired, ...] = ()

    @property
    def usable_tokens(self) -> int:
        """Return what a view may have: the asked budget, or the policy's, the smaller."""
        assert self.policy is not None
        return self._within(self.budget)

    @property
    def arrived(self) -> tuple[Entry, ...]:
        """Return the entries that are not admitted yet."""
        return tuple(one.entry for one in self.waiting if isinstance(one, Arrived))

    @property
    def coming(self) -> tuple[tuple[Entry, int], ...]:
        """Return the entries that are not admitted yet, each with the tokens usable when it will be."""
        budget, out = self.budget, []
        for one in self.waiting:
            if isinstance(one, Asked):
                budget = one.budget
            else:
                out.append((one.entry, self._within(budget)))
        return tuple(out)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all entries as they will be live, the waiting ones too."""
        entries = self.live
        for one in self.waiting:
            if isinstance(one, Arrived):
                entries = (*_ended(entries, one.ended), one.entry)
        return entries

    def _within(self, budget: int) -> int:
        assert self.policy is not None
        usable = self.policy.usable_tokens
        return min(budget, usable) if budget else usable


def initial(genesis: bytes) -> State:
    """Return the state before anything was said."""
    return State(hash=genesis, said_hash=genesis)


def evolve(state: State, commit: Commit, *, seq: int) -> State:
    """Return the state after *commit*. Raises `ChainBroken` if it does not follow."""
    if commit.version != state.version + 1 or commit.prev_hash != state.hash:
        raise ChainBroken(
            f"commit {commit.version} does not follow version {state.version}",
            version=commit.version,
            after=state.version,
            seq=seq,
        )
    state = msgspec.structs.replace(
        state, version=commit.version, hash=commit.hash, seq=seq, done_seq=seq, tokenizer=commit.tokenizer
    )
    if commit.policy:
        adopted = policies.decode(commit.policy)
        state = msgspec.structs.replace(state, policy=adopted, policy_hash=commit.policy_hash)
    for fact in commit.facts:
        state = _apply(state, fact)
    return admit(state)


def admit(state: State) -> State:
    """Return the state with all messages admitted that nothing holds back."""
    policy = state.policy
    while state.waiting and policy is not None and state.episode is None:
        first = state.waiting[0]
        if isinstance(first, Asked):
            state = msgspec.structs.replace(state, waiting=state.waiting[1:], budget=first.budget, quiet_tokens=0)
            boundary = bool(state.live)
        else:
            entry = first.entry
            if oversized(entry, policy, state.usable_tokens):
                break
            state = msgspec.structs.replace(
                state,
                waiting=state.waiting[1:],
                live=(*_ended(state.live, first.ended), entry),
                live_tokens=state.live_tokens + entry.tokens + len(first.ended) * ABORTED_TOKENS,
            )
            boundary = entry.boundary
        if boundary and over_trigger(state):
            number = state.live[-1].number
            state = msgspec.structs.replace(state, episode=Episode(boundary=number, stage="digest"))
    return state


def after_stage(state: State, stage: Actor) -> State:
    """Return the state with the episode handed to the next stage, or closed."""
    assert state.policy is not None
    if state.episode is None:
        return state
    if stage == "cut" or not over_target(state):
        quiet = state.live_tokens + int(state.usable_tokens * state.policy.target.min_gain)
        return msgspec.structs.replace(state, episode=None, quiet_tokens=quiet if over_target(state) else 0)
    squeezes = stage == "digest" and state.policy.squeeze.mode != "off" and state.digest is not None
    follower: Actor = "squeeze" if squeezes else "cut"
    return msgspec.structs.replace(state, episode=Episode(boundary=state.episode.boundary, stage=follower))


def remember_writer(state: State, writer: str, count: int) -> State | None:
    """Return the state that knows this envelope, or none if it was heard before."""
    for known, last in state.writers:
        if known == writer:
            if count <= last:
                return None
            break
    others = tuple(one for one in state.writers if one[0] != writer)
    return msgspec.structs.replace(state, writers=(*others, (writer, count))[-WRITERS_REMEMBERED_MAX:])


def repaired(state: State, number: int, kind: RepairKind, detail: str) -> State:
    """Return the state that still has to record a repair."""
    fact = MessageRepaired(number=number, kind=kind, detail=detail)
    return msgspec.structs.replace(state, unrecorded=(*state.unrecorded, fact))


def _apply(state: State, fact: DoneFact) -> State:
    match fact:
        case ToolOutputSpilled() | ToolOutputTrimmed():
            return _show(state, fact.number, fact.pointer, fact.text, fact.text_tokens)
        case MessageRepaired():
            left = tuple(one for one in state.unrecorded if one != fact)
            return msgspec.structs.replace(state, unrecorded=left)
        case HistoryDigested():
            return after_stage(_digested(state, fact), "digest")
        case DigestSqueezed():
            return after_stage(_squeezed(state, fact), "squeeze")
        case HistoryCut():
            return after_stage(_cut(state, fact), "cut")
        case CompactionDeclined(stage="spill"):
            return _looked(state, fact.boundary)
        case CompactionDeclined() | StageFailed():
            return after_stage(state, fact.stage) if fact.stage != "spill" else state
        case ContextServed():
            return state
    assert_never(fact)


def _looked(state: State, number: int) -> State:
    waiting = tuple(
        msgspec.structs.replace(one, entry=msgspec.structs.replace(one.entry, looked=True))
        if isinstance(one, Arrived) and one.entry.number == number
        else one
        for one in state.waiting
    )
    return msgspec.structs.replace(state, waiting=waiting)


def _show(state: State, number: int, pointer: str, text: str, tokens: int) -> State:
    def changed(entry: Entry) -> Entry:
        return entry.with_shown(pointer, text, tokens) if entry.number == number else entry

    waiting = tuple(
        msgspec.structs.replace(one, entry=changed(one.entry)) if isinstance(one, Arrived) else one
        for one in state.waiting
    )
    return _with_live(msgspec.structs.replace(state, waiting=waiting), tuple(map(changed, state.live)), state.digest)


def _ended(entries: tuple[Entry, ...], ended: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return *entries* with a written answer for each of *ended*, behind the last of their unit."""
    if not ended:
        return entries
    assert entries, "the unit of an open call never leaves"
    return (*entries[:-1], msgspec.structs.replace(entries[-1], answers=ended))


def _digested(state: State, fact: HistoryDigested) -> State:
    kept = frozenset(fact.kept)
    live = tuple(entry for entry in state.live if entry.number > fact.through or entry.number in kept)
    prose = state.digest.prose if state.digest else ""
    digest = Digest(through=fact.through, form=fact.form, items=fact.items, tokens=fact.digest_tokens, prose=prose)
    return _with_live(state, live, digest)


def _squeezed(state: State, fact: DigestSqueezed) -> State:
    assert state.digest is not None
    digest = msgspec.structs.replace(state.digest, prose=fact.prose, items=fact.items, tokens=fact.digest_tokens)
    return _with_live(state, state.live, digest)


def _cut(state: State, fact: HistoryCut) -> State:
    dropped = frozenset(fact.dropped)
    live = tuple(entry for entry in state.live if entry.number not in dropped)
    for trim in fact.trimmed:
        live = tuple(
            entry.with_shown(trim.pointer, trim.text, trim.tokens) if entry.number == trim.number else entry
            for entry in live
        )
    return _with_live(state, live, None if fact.digest_dropped else state.digest)


def _with_live(state: State, live: tuple[Entry, ...], digest: Digest | None) -> State:
    tokens = sum(entry.tokens for entry in live) + (digest.tokens if digest else 0)
    return msgspec.structs.replace(state, live=live, digest=digest, live_tokens=tokens)
