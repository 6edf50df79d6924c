"""The state: what all facts of a conversation add up to.

`hear` folds what agents said, `evolve` folds what actors did; the two commute, because a message is
admitted to the live view only when its own large parts are spilled and no compaction of an earlier
boundary is open. What a worker decides therefore depends on the order of the messages alone, never on
how fast anybody was.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from protocol.codec import Commit
from protocol.facts import ConversationErased, DigestItem, MessageRepaired, RepairKind
from protocol.limits import WRITERS_REMEMBERED_MAX
from protocol.policy import Policy
from protocol.subjects import Actor

from .digest_text import render
from .entry import Entry
from .packed_items import NO_ITEMS, read_items
from .recent_ids import NO_IDS

RECENT_CALLS_MAX = 2000
"""Call ids remembered to tell a repeated one; two in one view are closer than this."""


RECENT_RESULTS_MAX = 256


class Digest(msgspec.Struct, frozen=True, kw_only=True, array_like=True, dict=True):
    """What stands for the messages up to `through`: an LLM's prose, if any, then the rules' items.

    `tokens` are those of the whole message that shows it.
    """

    through: int
    form: int
    raw_items: bytes
    tokens: int
    prose: str = ""
    pending: tuple[Entry, ...] = ()
    """Messages that a summary still has to take in; kept only where the policy asks for summaries."""

    @property
    def items(self) -> tuple[DigestItem, ...]:
        """Return its items, oldest first."""
        return read_items(self.raw_items)

    @property
    def text(self) -> str:
        """Return what the model reads."""
        return render(self.items, prose=self.prose, through=self.through, form=self.form)

    @cached_property
    def content(self) -> bytes:
        """Return its text as JSON; written once, since every view shows it, and as bytes, a third of the text."""
        return msgspec.json.encode(self.text)


class Episode(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One compaction under way: begun at `boundary`, now waiting for `stage`."""

    boundary: int
    stage: Actor
    cause: Literal["trigger", "hook", "overflow"] = "trigger"
    down_to: int = 0
    """Tokens that it goes down to; 0: the policy's target."""
    applied: bool = False
    """A stage of it changed the view."""
    before: int = 0
    """Tokens of the view in which it began."""


class Compacted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The last compaction that changed the view: when it was, and what it left."""

    turns: int
    at_ms: int
    tokens: int


class Due(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Something beside the stages that has to be recorded: a hook that fired, by its id, or `REMINDER`."""

    number: int
    hook: str
    idle: str = ""
    """Why a hook that asks for a compaction begins none."""


REMINDER = ""
"""Name of the note that follows a compaction."""
OVERFLOW = "!"
"""Name of an overflow that is not acted upon any more; neither can be a hook's."""


class HookMemory(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """When a hook fired last, and how often."""

    hook: str
    times: int
    turns: int
    at_ms: int


class Asked(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A wish in the order of the messages: another budget from here on."""

    budget: int


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A provider told how many tokens a view has for it, as a ratio to our count; `refused` if that was too many."""

    ratio: float
    refused: bool = False
    window: int = 0
    """Tokens that it allows; 0: it did not say."""


class Arrived(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An entry that is not admitted yet."""

    entry: Entry
    ended: tuple[str, ...] = ()
    """Calls that its arrival ended unanswered. They are closed when it is admitted, not when it is heard."""
    at_ms: int = 0


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call without its result: the id as said, the id as shown, and its message."""

    said: str
    shown: str
    number: int
    tool: str = ""
    kind: str = ""


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
    waiting: tuple[Arrived | Asked | Counted, ...] = ()
    digest: Digest | None = None
    raw_ledger: bytes = NO_ITEMS
    """What must outlive every summary, bounded; the digest shows the worthiest of it."""
    episode: Episode | None = None
    quiet_tokens: int = 0
    """After compaction could not help, none begins before the view is larger than this."""
    open_calls: tuple[OpenCall, ...] = ()
    batch: tuple[int, ...] = ()
    """Tokens of the results that came so far to the batch of calls that is open."""
    recent_calls: bytes = NO_IDS
    """Ids of the newest calls as they are shown."""
    recent_results: tuple[tuple[str, int], ...] = ()
    """Hashes of newer results with the number of the message that had each first."""
    unrecorded: tuple[MessageRepaired, ...] = ()
    due: tuple[Due, ...] = ()
    hooks: tuple[HookMemory, ...] = ()
    turns: int = 0
    """Admitted messages of the user."""
    replies: int = 0
    """Admitted messages of the assistant: calls of a model."""
    calls: int = 0
    """Admitted tool calls."""
    now_ms: int = 0
    """When the newest admitted message was said."""
    compacted: Compacted | None = None
    served: tuple[tuple[str, int], ...] = ()
    """Hash and tokens of the newest served views: what a provider's count is compared with."""
    ratio: float = 0.0
    """Tokens as the provider counts them / as we do; 0: it never said."""
    window: int = 0
    """Tokens that the provider said it allows when it refused a view; 0: it never did."""
    refusals: int = 0
    """Overflows reported in a row."""
    erased: bool = False
    """Only the tombstone is left; what is said after it is not heard."""

    @property
    def ledger(self) -> tuple[DigestItem, ...]:
        """Return what must outlive every summary."""
        return read_items(self.raw_ledger)

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
        usable, out = self._within(self.budget), list[tuple[Entry, int]]()
        for one in self.waiting:
            match one:
                case Asked():
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
                    entries[-1:] = with_ended(tuple(entries[-1:]), one.ended)
                entries.append(one.entry)
        return tuple(entries)

    def _within(self, budget: int) -> int:
        assert self.policy is not None
        calibrate = self.policy.budget.calibrate
        usable = self.policy.usable_tokens
        if self.window and calibrate != "off":
            usable = min(usable, self.policy.usable_tokens_in(self.window))
        asked = min(budget, usable) if budget else usable
        if calibrate == "off" or not self.ratio or (calibrate == "tighten" and self.ratio <= 1):
            return asked
        return max(1, int(asked / self.ratio))


def initial(genesis: bytes) -> State:
    """Return the state before anything was said."""
    return State(hash=genesis, said_hash=genesis)


def is_tombstone(commit: Commit) -> bool:
    """Tell whether *commit* is what an erased conversation leaves."""
    return any(isinstance(fact, ConversationErased) for fact in commit.facts)


def tombstone(commit: Commit, *, seq: int) -> State:
    """Return the state of an erased conversation."""
    return State(
        hash=commit.hash,
        said_hash=commit.said_hash,
        version=commit.version,
        seq=seq,
        done_seq=seq,
        said_seq=commit.upto,
        tokenizer=commit.tokenizer,
        erased=True,
    )


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


def with_ended(entries: tuple[Entry, ...], ended: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return *entries* with a written answer for each of *ended*, behind the last of their unit."""
    if not ended:
        return entries
    assert entries, "the unit of an open call never leaves"
    return (*entries[:-1], msgspec.structs.replace(entries[-1], answers=ended))
