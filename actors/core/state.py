"""The state: what all facts of a conversation add up to.

`apply_said` folds what agents said, `apply_done` folds what actors did; the two commute, because a message is
admitted to the live view only when its own large parts are spilled and no compaction of an earlier
boundary is open. What a worker decides therefore depends on the order of the messages alone, never on
how fast anybody was.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from protocol.codec import Commit
from protocol.facts import DigestItem, MessageRepaired, RepairKind
from protocol.limits import WRITERS_REMEMBERED_MAX
from protocol.policy import Policy

from .calibrating import overhead_in
from .entry import Entry
from .packed_items import read_items
from .spent import Spent
from .state_parts import (
    Agenda,
    Arrived,
    BudgetWish,
    Calibration,
    Counted,
    Counters,
    Digest,
    Episode,
    Exchange,
    Heard,
    Position,
    Shown,
    Terms,
)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One conversation at one position of its log."""

    position: Position
    terms: Terms = Terms()
    heard: Heard = Heard()
    calibration: Calibration = Calibration()
    exchange: Exchange = Exchange()
    shown: Shown = Shown()
    waiting: tuple[Arrived | BudgetWish | Counted, ...] = ()
    """What was said and is not admitted to `shown`."""
    counters: Counters = Counters()
    agenda: Agenda = Agenda()
    spent: Spent = Spent()
    erased: bool = False
    """Only the tombstone is left; what is said after it is not heard."""

    @property
    def version(self) -> int:
        """Return the number of commits that are folded."""
        return self.position.version

    @property
    def seq(self) -> int:
        """Return the place in the stream up to which all is folded."""
        return self.position.seq

    @property
    def archived(self) -> bool:
        """Tell whether nothing was said or done since its log was archived."""
        position = self.position
        # an archive is older than the commit that tells of it; an imported one tells of places elsewhere
        here = 0 < position.archived_upto < position.archived_seq
        return here and position.archived_seq == position.done_seq and position.said_seq <= position.archived_upto

    @property
    def hash(self) -> bytes:
        """Return the hash of the newest commit, or the genesis."""
        return self.position.hash

    @property
    def policy(self) -> Policy | None:
        """Return the adopted policy; None before the first commit."""
        return self.terms.policy

    @property
    def messages(self) -> int:
        """Return the number of messages that were said."""
        return self.heard.messages

    @property
    def live(self) -> tuple[Entry, ...]:
        """Return the admitted messages that no digest stands for."""
        return self.shown.live

    @property
    def live_tokens(self) -> int:
        """Return the tokens of a view of `live` and the digest."""
        return self.shown.live_tokens

    @property
    def digest(self) -> Digest | None:
        """Return the digest of older messages; None before the first one."""
        return self.shown.digest

    @property
    def episode(self) -> Episode | None:
        """Return the compaction that is under way; None if there is none."""
        return self.agenda.episode

    @property
    def ledger(self) -> tuple[DigestItem, ...]:
        """Return the ledger, which outlives every summary."""
        return read_items(self.shown.raw_ledger)

    @property
    def usable_tokens(self) -> int:
        """Return the budget of a view in tokens: the asked one or the policy's, the smaller."""
        assert self.policy is not None
        return self._within(self.terms.budget)

    @property
    def arrived(self) -> tuple[Entry, ...]:
        """Return the entries that are not admitted yet."""
        return tuple(one.entry for one in self.waiting if isinstance(one, Arrived))

    @property
    def coming(self) -> tuple[tuple[Entry, int], ...]:
        """Return the entries that are not admitted yet, each with the tokens usable when it will be."""
        usable, out = self._within(self.terms.budget), list[tuple[Entry, int]]()
        for one in self.waiting:
            match one:
                case BudgetWish():
                    usable = self._within(one.budget)
                case Arrived():
                    out += ((one.entry, usable),)
                case Counted():
                    pass
        return tuple(out)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """Return all entries as they will be live, the waiting ones too."""
        entries = list(self.live)
        for one in self.waiting:
            if isinstance(one, Arrived):
                if one.ended:
                    entries = list(with_ended(tuple(entries), one.ended, awaited=one.awaited))
                entries.append(one.entry)
        return tuple(entries)

    def _within(self, budget: int) -> int:
        assert self.policy is not None
        calibrate = self.policy.budget.calibrate
        usable = self.policy.usable_tokens
        if self.calibration.window and calibrate != "off":
            usable = min(usable, self.policy.usable_tokens_in(self.calibration.window))
        if calibrate == "apart":
            usable -= overhead_in(usable, self.calibration)
        asked = min(budget, usable) if budget else usable
        if calibrate == "off" or not self.calibration.ratio or (calibrate != "follow" and self.calibration.ratio <= 1):
            return asked
        return max(1, int(asked / self.calibration.ratio))


def initial(genesis: bytes) -> State:
    """Return the state before anything was said."""
    return State(position=Position(hash=genesis, said_hash=genesis))


def tombstone(commit: Commit, *, seq: int) -> State:
    """Return the state of an erased conversation."""
    position = Position(
        hash=commit.hash,
        said_hash=commit.said_hash,
        version=commit.version,
        seq=seq,
        done_seq=seq,
        said_seq=commit.upto,
    )
    return State(position=position, terms=Terms(tokenizer=commit.tokenizer), erased=True)


def remember_writer(state: State, writer: str, count: int) -> State | None:
    """Return the state that knows this envelope; None if it was heard before."""
    for known, last in state.heard.writers:
        if known == writer:
            if count <= last:
                return None
            break
    others = tuple(one for one in state.heard.writers if one[0] != writer)
    writers = (*others, (writer, count))[-WRITERS_REMEMBERED_MAX:]
    return replace(state, heard=replace(state.heard, writers=writers))


def repaired(state: State, number: int, kind: RepairKind, detail: str) -> State:
    """Return the state that still has to record a repair."""
    fact = MessageRepaired(number=number, kind=kind, detail=detail)
    return replace(state, heard=replace(state.heard, unrecorded=(*state.heard.unrecorded, fact)))


def with_ended(entries: tuple[Entry, ...], ended: tuple[str, ...], *, awaited: bool) -> tuple[Entry, ...]:
    """Return *entries* with a written answer for each of *ended*, behind the last of their unit."""
    if not ended:
        return entries
    # a late result of another call may have come since
    place = next((at for at in range(len(entries) - 1, -1, -1) if not entries[at].late), -1)
    assert place >= 0, "the unit of an open call never leaves"
    return (*entries[:place], replace(entries[place], answers=ended, awaited=awaited), *entries[place + 1 :])
