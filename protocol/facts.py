"""Every fact that the log can hold, in the past tense; those that a person or an agent asked for: `wish_facts.py`.

Stored names are for ever. A fact's tag is its type and schema version. Fields are append-only and need a default; a
change of meaning is a class with a tag of its own (`HistoryDigested.2` is `HistoryAccounted`).
A *number* is a message's place in its conversation, from 1. A *boundary* is the number of the message at which the view
was measured and compaction began. A *level* is how far cut had to go (`actors/core/cut_plan.py`).
"""

from __future__ import annotations

import msgspec

from .account import Account, AccountValue, Trim
from .fact_parts import Claim as Claim
from .fact_parts import DigestItem as DigestItem
from .fact_parts import Fate as Fate
from .fact_parts import MessageSize as MessageSize
from .fact_parts import RepairKind as RepairKind
from .fact_parts import StoredFact, ToldTool
from .fact_parts import Trust as Trust
from .subjects import Actor
from .wish_facts import ConversationArchived as ConversationArchived
from .wish_facts import ConversationErased as ConversationErased
from .wish_facts import ConversationForked as ConversationForked
from .wish_facts import ConversationRepaired as ConversationRepaired
from .wish_facts import ConversationRewound as ConversationRewound
from .wish_facts import HistoryExpanded as HistoryExpanded
from .wish_facts import PolicySet as PolicySet


class SaidMessage(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One provider message as JSON bytes, verbatim but for its claimed parts."""

    raw: bytes
    claims: tuple[Claim, ...] = ()


# What agents say -------------------------------------------------------------------------------


class ConversationOpened(StoredFact, frozen=True, tag="ConversationOpened.1"):
    """An agent began (or resumed) a conversation, with its own layer of the policy."""

    name: str
    """The id as the agent wrote it; in the address it may be encoded."""
    model: str = ""
    policy: bytes = b"{}"
    """JSON object over the service's own layers."""
    late_results: bool = False
    """A call without a result, after which others spoke, still runs: a late result is shown behind it. False, as
    older releases opened: such a call counts as aborted."""
    format: str = ""
    """The profile whose requests the messages are from: each is shown to it as it came, also one that this release does
    not know. Empty: a message's format is told by its shape."""
    tools: tuple[ToldTool, ...] = ()
    """What the agent offers its model; a later opening may bring others."""


class MessagesAppended(StoredFact, frozen=True, tag="MessagesAppended.1"):
    """An agent appended messages, in order."""

    messages: tuple[SaidMessage, ...]


class UsageReported(StoredFact, frozen=True, tag="UsageReported.1"):
    """A provider told how many tokens a served view really cost."""

    input_tokens: int
    output_tokens: int = 0
    cached_tokens: int = 0
    view_hash: str = ""


class CompactionRequested(StoredFact, frozen=True, tag="CompactionRequested.1"):
    """An agent set the standing budget: that of its views and compactions from now on (0: as the policy says)."""

    budget: int = 0
    reason: str = ""


class OverflowReported(StoredFact, frozen=True, tag="OverflowReported.1"):
    """A provider refused a served view because it was too long for it."""

    view_hash: str = ""
    requested_tokens: int = 0
    """What the provider counted; 0: it did not say."""
    limit_tokens: int = 0
    """What the provider allows; 0: it did not say."""
    message: str = ""


SaidFact = ConversationOpened | MessagesAppended | UsageReported | CompactionRequested | OverflowReported


# What actors did -------------------------------------------------------------------------------


class ToolOutputSpilled(StoredFact, frozen=True, tag="ToolOutputSpilled.1"):
    """A part was stored as an artifact; *text* is exactly what the model sees in its place."""

    number: int
    pointer: str
    sha256: str
    bytes: int
    tokens: int
    """Tokens of the original; of a very large part an estimate."""
    estimated: bool
    kind: str
    text: str
    text_tokens: int


class ToolOutputTrimmed(StoredFact, frozen=True, tag="ToolOutputTrimmed.1"):
    """A part was shortened in place and nothing was stored; its original is in the log."""

    number: int
    pointer: str
    bytes: int
    tokens: int
    estimated: bool
    reason: str
    text: str
    text_tokens: int
    owed: bool = False
    """The store was down: the original is stored later, and the text stays."""


class MessageRepaired(StoredFact, frozen=True, tag="MessageRepaired.1"):
    """A message that no provider would accept is shown in a form that it does; the log keeps the original."""

    number: int
    kind: RepairKind
    detail: str = ""


class HistoryDigested(StoredFact, frozen=True, tag="HistoryDigested.1"):
    """Messages up to *through* left the view; *items* is the whole digest that stands for them."""

    boundary: int
    through: int
    kept: tuple[int, ...]
    """Numbers up to *through* that stay in the view (pinned)."""
    form: int
    """Version of the rule that writes the items as text."""
    items: tuple[DigestItem, ...]
    digest_tokens: int
    before_tokens: int
    after_tokens: int
    ledger: tuple[DigestItem, ...] = ()
    """What changes in the ledger: new and newer entries, and those that are gone."""
    fates: tuple[Fate, ...] = ()
    """What became of the values in the messages that left, and in the digest before, by category."""


class HistoryAccounted(HistoryDigested, frozen=True, tag="HistoryDigested.2"):
    """Old results became their outcome in place, and messages up to *through* left the view for an account."""

    account: Account | None = None
    """Stands in the place of the items; None: nothing left, results only became shorter."""
    trimmed: tuple[Trim, ...] = ()
    """Older results that are shortened in place to their outcome."""


class DigestSqueezed(StoredFact, frozen=True, tag="DigestSqueezed.1"):
    """An LLM shortened the digest; its answer is recorded before anything uses it."""

    boundary: int
    prose: str
    items: tuple[DigestItem, ...]
    """Items that the answer does not contain and that must not be lost."""
    digest_tokens: int
    model: str
    prompt_hash: str
    answers: tuple[str, ...]
    """One for each request, in order; empty: that request was too long for the provider."""
    input_tokens: int
    output_tokens: int
    attempts: int
    before_tokens: int
    after_tokens: int
    cost_microdollars: int = 0
    fates: tuple[Fate, ...] = ()
    """What became of the values in the digest before, by category."""


class HistorySummarized(StoredFact, frozen=True, tag="HistorySummarized.1"):
    """An LLM summarized the digested messages, the summary before merged in; its answers are recorded before use."""

    boundary: int
    through: int
    prose: str
    items: tuple[DigestItem, ...]
    """Items that the summary does not contain and that must not be lost."""
    digest_tokens: int
    model: str
    prompt_hash: str
    answers: tuple[str, ...]
    """One for each request, in order; empty: that request was too long for the provider."""
    input_tokens: int
    output_tokens: int
    attempts: int
    before_tokens: int
    after_tokens: int
    cost_microdollars: int = 0
    fates: tuple[Fate, ...] = ()
    """What became of the values in the digest before, by category."""


class AccountSqueezed(HistorySummarized, frozen=True, tag="HistorySummarized.2"):
    """An LLM retold older steps of the account, or named those to leave out; its answers are recorded before use."""

    left: tuple[int, ...] = ()
    """Steps that are left out of the account from now on, by their first messages."""
    values: tuple[AccountValue, ...] = ()
    """All that the account says beside its steps from now on."""
    struck: tuple[str, ...] = ()
    """Sentences of the answer that were taken out of the prose, each behind the reason."""


class HistoryCut(StoredFact, frozen=True, tag="HistoryCut.1"):
    """Whole units left the view, and at the last level parts inside the rest were shortened."""

    boundary: int
    dropped: tuple[int, ...]
    trimmed: tuple[Trim, ...]
    level: str
    digest_dropped: bool
    before_tokens: int
    after_tokens: int
    ledger: tuple[DigestItem, ...] = ()
    """What changes in the ledger, as in `HistoryDigested`."""
    fates: tuple[Fate, ...] = ()
    """What became of the values in the messages that left or were shortened, by category."""


class CompactionDeclined(StoredFact, frozen=True, tag="CompactionDeclined.1"):
    """A stage looked and did not act."""

    boundary: int
    stage: Actor
    reason: str
    input_tokens: int = 0
    """What was paid for answers that were refused."""
    output_tokens: int = 0
    attempts: int = 0
    cost_microdollars: int = 0


class StageFailed(StoredFact, frozen=True, tag="StageFailed.1"):
    """A stage could not do its part; the next one goes on."""

    boundary: int
    stage: Actor
    error: str
    attempts: int = 1
    input_tokens: int = 0
    """What was paid for answers that came before the failure."""
    output_tokens: int = 0
    cost_microdollars: int = 0


class ContextServed(StoredFact, frozen=True, tag="ContextServed.1"):
    """A view was handed out: what the model sees in its next call."""

    upto: int
    budget: int
    profile: str
    view_hash: str
    tokens: int
    level: str
    asked: int = 0
    """The budget that the agent gave with this call alone; 0: none, the standing one was meant."""
    unsent: tuple[int, ...] = ()
    """Versions of earlier views that were handed out and that no model got, as who asked for them says."""
    sizes: tuple[MessageSize, ...] = ()
    """Of messages that came since the view before: who folds this log later need not count them."""


class HookFired(StoredFact, frozen=True, tag="HookFired.1"):
    """A condition of the policy held at a message, and its action was done."""

    number: int
    hook: str
    action: str
    detail: str = ""
    """A log's line, a call's name, or why no compaction began."""


class ReminderInjected(StoredFact, frozen=True, tag="ReminderInjected.1"):
    """A note was put behind a message of the view, in place of an earlier one of the same name."""

    number: int
    name: str
    """Of the hook that asked for it; empty: the reminder after a compaction."""
    text: str
    tokens: int
    role: str = ""  # empty: that of summaries


DoneFact = (
    ToolOutputSpilled
    | ToolOutputTrimmed
    | MessageRepaired
    | HistoryDigested
    | HistoryAccounted
    | DigestSqueezed
    | HistorySummarized
    | AccountSqueezed
    | HistoryCut
    | CompactionDeclined
    | StageFailed
    | ContextServed
    | HookFired
    | ReminderInjected
    | HistoryExpanded
    | ConversationRewound
    | PolicySet
    | ConversationForked
    | ConversationErased
    | ConversationRepaired
    | ConversationArchived
)
