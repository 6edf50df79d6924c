"""Parts of the state: what belongs together, changes together, and goes back together.

Going back to an earlier version takes what the view is made of from there (`shown`, `exchange`, `counters`) and leaves
what orders, identifies or was learned as it is (`position`, `terms`, `heard`, `calibration`).
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal

import msgspec

from protocol.account import Account
from protocol.fact_parts import ToldTool
from protocol.facts import DigestItem, MessageRepaired
from protocol.policy import Policy
from protocol.subjects import Actor

from .account_text import FORM, account_text, first_request
from .digest_text import render
from .entry import Entry
from .packed_items import NO_ITEMS, read_account, read_items
from .recent_ids import NO_IDS

RECENT_CALLS_MAX = 2000
"""Call ids remembered to tell a repeated one; two in one view are closer than this."""

RECENT_RESULTS_MAX = 256

LATE_CALLS_MAX = 256
"""Calls whose results are still waited for; older ones are answered by nobody any more."""


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
    raw_account: bytes = b""

    @property
    def items(self) -> tuple[DigestItem, ...]:
        """Return its items, oldest first."""
        return read_items(self.raw_items)

    @property
    def text(self) -> str:
        """Return the text that the model reads."""
        if self.account is not None:
            return account_text(self.account, prose=self.prose, through=self.through, form=self.form)
        return render(self.items, prose=self.prose, through=self.through, form=self.form)

    @property
    def tells(self) -> bool:
        """Tell whether it is an account; that is asked for each view, and need not read it."""
        return bool(self.raw_account)

    @property
    def account(self) -> Account | None:
        """Return its account, from form 2 on; None: it is a list of values."""
        return read_account(self.raw_account) if self.raw_account else None

    @cached_property
    def stands_before(self) -> int:
        """Return the number of the first message that stands below an account, of those that are older than its end.

        By the marks of form 3 that is what comes behind a request that the account tells.
        """
        account = self.account if self.form >= FORM else None
        return (account and first_request(account)) or self.through + 1

    @cached_property
    def content(self) -> bytes:
        """Return its text as JSON; written once, since every view shows it, and as bytes, a third of the text."""
        return msgspec.json.encode(self.text)


Cause = Literal["trigger", "hook", "overflow"]
"""Why a compaction begins."""


class Episode(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One compaction under way: begun at `boundary`, now waiting for `stage`."""

    boundary: int
    stage: Actor
    cause: Cause = "trigger"
    down_to: int = 0
    """Tokens that it goes down to; 0: the policy's target."""
    applied: bool = False
    """A stage of it changed the view."""
    before: int = 0
    """Tokens of the view in which it began."""
    hook: str = ""
    """The hook that began it, by its id."""


class Compacted(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """The last compaction that changed the view: when it was, and what it left."""

    user_messages: int
    at_ms: int
    tokens: int
    replies: int = 0


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
    user_messages: int
    at_ms: int


class BudgetWish(msgspec.Struct, frozen=True, kw_only=True, tag="Asked"):
    """A wish in the order of the messages: another budget from here on."""

    budget: int


class Counted(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A provider told how many tokens a view has for it, as a ratio to our count; `refused` if that was too many."""

    ratio: float
    refused: bool = False
    window: int = 0
    """Tokens that it allows; 0: it did not say."""
    ours: int = 0
    """Tokens of the view as we count them; 0: it is not known for which view it is."""
    told: int = 0
    """Tokens that the provider counted, less those of `budget.tools`."""


class Arrived(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """An entry that is not admitted yet."""

    entry: Entry
    ended: tuple[str, ...] = ()
    """Calls that its arrival ended unanswered. They are closed when it is admitted, not when it is heard."""
    at_ms: int = 0
    awaited: bool = False
    """The result of what it ended may still come."""


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """A call without its result: the id as said, the id as shown, and its message."""

    said: str
    shown: str
    number: int
    tool: str = ""
    kind: str = ""


class Position(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """How far the log is folded, and the hashes that cover all of it."""

    hash: bytes
    """Of the newest commit, or the genesis."""
    said_hash: bytes
    version: int = 0
    seq: int = 0
    done_seq: int = 0
    said_seq: int = 0
    done_bytes: int = 0
    """Of all commits together: what a fold of the log has to read besides the messages."""
    archived_seq: int = 0
    """Of the newest commit that says that the log before it is in an archive."""
    archived_upto: int = 0
    """Of the newest record in that archive."""
    idle_ms: int = 0
    """When the log got what stands before that commit."""


class Terms(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the conversation is held under: what its agent said when it opened it, and the policy that was adopted."""

    name: str = ""
    model: str = ""
    layer: bytes = b"{}"
    policy: Policy | None = None
    policy_hash: str = ""
    tokenizer: str = ""
    budget: int = 0
    """The standing one: tokens that the agent wants from then on; 0: as the policy says."""
    asked: int = 0
    """Tokens that the newest served call asked for by itself; 0: none."""
    asked_upto: int = 0
    """How many messages had been said by then."""
    late_results: bool = False
    """A call that others spoke over is not aborted."""
    format: str = ""
    """The profile that the messages are written for; empty: told of each by its shape."""
    tools: tuple[ToldTool, ...] = ()
    """What the agent offers its model."""


class Heard(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What tells a repetition from news, and what hearing left to record."""

    writers: tuple[tuple[str, int], ...] = ()
    """Who spoke, each with its own count."""
    messages: int = 0
    recent_calls: bytes = NO_IDS
    """Ids of the newest calls as they are shown."""
    unrecorded: tuple[MessageRepaired, ...] = ()


class Calibration(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What the provider's own counts taught."""

    served: tuple[tuple[str, int], ...] = ()
    """Hash and tokens of the newest served views: what a provider's count is compared with."""
    ratio: float = 0.0
    """Tokens as the provider counts them / as we do; 0: it never said."""
    window: int = 0
    """Tokens that the provider said it allows when it refused a view; 0: it never did."""
    upto: int = 0
    """Messages that had been said when the newest view was served."""
    overhead: float = 0.0
    """Tokens that the provider counts beside a view, where the policy learns them apart from the ratio."""
    at_ours: int = 0
    """Tokens of the view that the next ratio is taken from the difference to, as we count them; 0: there is none."""
    at_told: int = 0
    """The same as the provider counted them."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """Where the talk of the agent and its tools stands: what the next message may be an answer to."""

    begun: bool = False
    """Somebody has spoken after the leading instructions."""
    open_calls: tuple[OpenCall, ...] = ()
    batch: tuple[int, ...] = ()
    """Tokens of the results that came so far to the batch of calls that is open."""
    recent_results: tuple[tuple[str, int], ...] = ()
    """Hashes of newer results with the number of the message that had each first."""
    recent_repeats: tuple[tuple[str, int], ...] = ()
    """Of those that came again, the number of the newest."""
    late_calls: tuple[OpenCall, ...] = ()
    """Calls that others spoke over, of which the result may still come."""
    late_last: bool = False
    """The newest message is such a result, and stands elsewhere."""


class Shown(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a view is made of."""

    live: tuple[Entry, ...] = ()
    live_tokens: int = 0
    """Of `live` and the digest together: what a view of them costs."""
    digest: Digest | None = None
    raw_ledger: bytes = NO_ITEMS
    """What must outlive every summary, bounded; the digest shows the worthiest of it."""


class Counters(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What triggers, cooldowns and hooks count in; only admitted messages count."""

    user_messages: int = 0
    replies: int = 0
    """Messages of the assistant: calls of a model."""
    calls: int = 0
    """Tool calls."""
    now_ms: int = 0
    """When the newest of them was said."""
    compacted: Compacted | None = None
    hooks: tuple[HookMemory, ...] = ()
    refusals: int = 0
    """Overflows reported in a row."""


class Agenda(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What has to be done now, and from when on the next compaction may begin."""

    episode: Episode | None = None
    due: tuple[Due, ...] = ()
    quiet_tokens: int = 0
    """After compaction could not help, none begins before the view is larger than this."""
