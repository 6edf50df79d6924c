"""The sections of a policy: every key with its default and what it says.

Shares are of the usable tokens (`Policy.usable_tokens`) unless a comment says otherwise.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from .hooks import Condition, Number, PolicySection, Share, Tokens


class Budget(PolicySection, frozen=True, kw_only=True):
    """How many tokens a view may have."""

    window: Annotated[int, msgspec.Meta(ge=1)] = 128_000
    """Tokens of the model's context window."""
    reserve: Tokens = 4_096
    """Tokens kept free for the answer; send it as `max_tokens`."""
    reserve_share: Share = 0.25
    """Share of the window that the reserve has at most, where nobody asked for a reserve."""
    headroom: Share = 0.0
    """Share of the rest kept free for what a tokenizer cannot see."""
    tools: Tokens = 0
    """Tokens of the tool definitions that the agent sends along."""
    calibrate: Literal["off", "tighten", "follow", "apart"] = "tighten"
    """What a provider's own counts change: nothing; the budget downwards only; the budget both ways; downwards only,
    with what it counts beside a view (instructions, tools) learned apart from how it counts texts."""


class Trigger(PolicySection, frozen=True, kw_only=True):
    """When compaction starts: at the earliest of its rules."""

    ratio: Share = 0.95
    """Share of `of` that the tokens in use are compared with."""
    of: Literal["usable", "window"] = "usable"
    """`usable` is the window less reserve, tools and headroom."""
    comparator: Literal["above", "at_least"] = "above"
    buffer: Tokens | None = None
    """Tokens that must stay free of `of`; none: the ratio alone decides."""
    buffer_share: Share = 1.0
    """Share of `of` that the buffer has at most, for small windows."""
    expected: Tokens | Literal["reserve"] = 0
    """Tokens of what comes next, added to the tokens in use before they are compared; `reserve`: the answer's."""
    conditions: tuple[Condition, ...] = ()
    """Any of them starts compaction too."""


class Target(PolicySection, frozen=True, kw_only=True):
    """Where compaction stops; the distance to the trigger keeps prompt caches hitting."""

    low_water: Share = 0.3
    """Share of the usable tokens, less the instructions at the head, that digest and cut go down to beside these."""
    min_gain: Share = 0.05
    """Share of the usable tokens that a step must win; less is declined, and so is nothing at all."""


class Cooldown(PolicySection, frozen=True, kw_only=True):
    """What must pass since the last compaction, each of them; a view over its budget does not wait."""

    turns: Number = 0
    """Messages of the user."""
    model_calls: Number = 0
    """Calls of the agent's model: in a run under one prompt, the only thing that passes beside time."""
    seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """By the times at which agents published, which the log holds."""
    growth: Tokens = 0


class Economy(PolicySection, frozen=True, kw_only=True):
    """Whether a compaction that is not forced must pay for the prompt cache that it breaks."""

    mode: Literal["off", "on"] = "off"
    cached_price: Share = 0.1
    """Price of a cached token, as a share of one that is not."""
    turns: Number | None = None
    """Turns that are still expected; none: as many as there were."""


class ToolCap(PolicySection, frozen=True, kw_only=True):
    """A tool's own limits; what is not given is as for every tool."""

    share: Share | None = None
    tokens: Tokens | None = None
    bytes: Number | None = None
    medium: Share | None = None


class Spill(PolicySection, frozen=True, kw_only=True):
    """The cap of one part: the smallest of the three; equality is allowed."""

    share: Share = 0.15
    of: Literal["usable", "window"] = "usable"
    tokens: Tokens = 25_000
    bytes: Number = 65_536
    """Looked at first: a larger part is spilled without being counted."""
    of_result: Literal["part", "texts", "all"] = "part"
    """What the cap of a tool's result is for: each of its parts alone; or all of them together, images too. Above it
    its texts become one artifact, and its images artifacts too: with `texts` only where they do not fit alone."""
    batch: Share = 0.3
    """Share that the results of one batch of parallel calls may have together."""
    per_tool: dict[str, ToolCap] = msgspec.field(default_factory=dict)
    """By the name of a tool, or by the beginning of one with a `*` behind it; the longest that fits counts."""
    preview: Share = 0.4
    """Share of the cap that the pointer with its preview may take."""
    shown: Literal["kind", "in_order", "first"] = "kind"
    on_store_error: Literal["degrade", "wait", "refuse"] = "degrade"
    """After the retries. `degrade`: a preview in its place, the original stays in the log and is stored later;
    `refuse`: an error that asks the model to narrow its request."""
    medium: Share = 0.03
    """A tool's result above this is shortened by its kind, the original kept as an artifact; 1: only above the cap."""
    medium_bytes: Number | None = None
    """The same bound in bytes; the smaller counts."""
    medium_keep: Share = 0.5
    """Share of such a result that may stay."""
    index: Share = 0.6
    """Share of a pointer for the values in what is left out."""
    repeated: Literal["point", "near", "keep"] = "point"
    """What a result becomes that repeats an earlier one: a pointer to it (`near`: if that came just before)."""
    users: Literal["spill", "keep"] = "spill"
    """What a text or an image of the user's becomes that is over the cap; the caps of tools are not theirs."""
    assistants: Literal["spill", "keep"] = "spill"
    """The same for what an assistant said: in a conversation of several, that is often what a tool printed. Where
    `digest.records` is `fields`, over 1.3 times the cap."""


class Digest(PolicySection, frozen=True, kw_only=True):
    """What the rule-made summary keeps."""

    mode: Literal["on", "off"] = "on"
    style: Literal["values", "account"] = "values"
    """`values` lists what old messages named; `account` tells what was done (never anew under squeeze's `v1`)."""
    keep_blocks: Number | None = None
    """Newest blocks kept verbatim. Where none of these four limits is named, `values` keeps as many as fit the target;
    `account` goes only as far as the target needs, the oldest first, and shortens before it lets anything leave."""
    keep_messages: Number | None = None
    """Newest messages kept verbatim, and what a whole unit needs beside them."""
    keep_share: Share | None = None
    """Share of the messages kept verbatim, by their number."""
    keep_tokens: Tokens | None = None
    """Tokens of the newest units kept verbatim; at least the newest unit, whatever its size."""
    cap: Share = 0.25
    """Largest size of the digest, as a share of what the instructions at the head leave of the usable tokens."""
    cap_tokens: Tokens | None = None
    """The same in tokens; the smaller counts."""
    told: Share = 0.0
    """Of a list of values, for sentences in which a user told what no other request has words for."""
    secrets: Literal["handle", "show"] = "handle"
    records: Literal["lines", "fields"] = "lines"
    """What an account tells of a JSON object that a tool looked up: lines that mattered, or fields that say most.
    With `fields` an account is told as rules 3 tell it in all else too: what counts as failed, how coarse a few steps
    become, what joined ones say, and how low a small window goes."""
    categories: dict[str, Number] = msgspec.field(default_factory=dict)
    """Most items of a category; 0 leaves it out. Not named: ranked by worth alone."""

    @property
    def rules_3(self) -> bool:
        """Tell whether an account is told as rules 3 tell it, which `records` switches on."""
        return self.records == "fields"


class Squeeze(PolicySection, frozen=True, kw_only=True):
    """Whether an LLM may shorten the digest, or summarize what it stands for."""

    mode: Literal["off", "squeeze", "summarize", "select", "auto"] = "off"
    """`squeeze`: from the digest alone; `summarize`: from the messages that leave, too; `select`: it only names steps
    of an account to leave out, and writes nothing; `auto`: `summarize` where `model` names one, else `off`."""
    model: str = ""
    """Empty: the conversation's own."""
    window: Tokens = 0
    """Tokens of that model's window; 0: from the table of models, else the conversation's own."""
    cap: Share = 0.15
    """Size asked of the model; the answer is cut off above it and then refused."""
    cap_tokens: Tokens | None = None
    """The same in tokens; the smaller counts."""
    offers: Literal["unchanged", "looks"] = "unchanged"
    """Which steps a small model may leave out (`select`): those that changed nothing, or those that only looked: they
    failed at nothing, told the user nothing, and did not read what agents are told to do."""
    restore: Share = 0.1
    """Most that may be put behind an answer because it is missing there; a worse answer is refused."""
    prompt_version: Literal["v1", "v2", "v3"] = "v1"
    """`v2` retells an account, `v3` also what the account shortens of the user's messages; where it is `v1`, digest
    writes values for squeeze."""
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0
    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3
    chunks: Annotated[int, msgspec.Meta(ge=1, le=100)] = 16
    """Most requests for one summary whose input is larger than the model's window."""

    @property
    def way(self) -> Literal["off", "squeeze", "summarize", "select"]:
        """Return the mode; `auto` asks a model only where somebody named one."""
        if self.mode != "auto":
            return self.mode
        return "summarize" if self.model else "off"

    @property
    def retells_requests(self) -> bool:
        """Tell whether a model retells what an account shortens of the user's messages."""
        return self.way == "summarize" and self.prompt_version not in ("v1", "v2")


class Floor(PolicySection, frozen=True, kw_only=True):
    """The newest history that stays: the most of the three."""

    blocks: Number = 0
    messages: Number = 0
    tokens: Tokens = 0
    mode: Literal["soft", "hard"] = "soft"
    """`soft`: gives way before texts are shortened; `hard`: texts inside it are shortened instead."""
    calls: Literal["stay", "leave"] = "stay"
    """`leave`: inside it, calls go with their results; of each block the request and the last answer stay."""


class Cut(PolicySection, frozen=True, kw_only=True):
    """What the last resort may do."""

    mode: Literal["on", "off"] = "on"
    """`off`: nothing is ever dropped; a view that does not fit is refused."""
    by: Literal["units", "blocks"] = "units"
    """What leaves together; `blocks`: an answer leaves with its question. The newest block is parted by units."""
    pins: tuple[Literal["system", "first_user", "last_user"], ...] = ("last_user",)
    """Messages beside the instructions at the head that stay, whatever their age; `system`: later instructions."""
    floor: Floor = Floor()
    window: Number | None = None
    """Newest blocks that stay when it acts; older ones leave at once, not only as many as must."""
    kept: Literal["take", "leave"] = "take"
    """Newest messages that `digest.keep_*` or `emergency.keep_messages` name; `leave`: these stay while a view fits."""
    first: tuple[Literal["results", "talk"], ...] = ()
    """Kinds of units that leave before all others: batches of calls with their results, or the rest."""
    down_to: Literal["target", "usable"] = "target"
    on_overflow: Literal["shrink", "refuse"] = "shrink"
    """When not even the pinned messages fit: shorten inside them, or refuse at once."""


class Emergency(PolicySection, frozen=True, kw_only=True):
    """What happens when a provider says that a view was too long for it."""

    keep_units: Number = 4
    """Newest units kept verbatim."""
    keep_messages: Number | None = None
    """Newest messages kept verbatim, and what a whole unit needs beside them, in place of units."""
    down_to: Share | None = None
    """Share of the usable tokens that it goes down to, or half the refused view if less; none: target or that half."""
    part: Share | None = None
    """Share of the usable tokens to which a text is shortened that stays, where it is still over its target."""
    ratio: Annotated[float, msgspec.Meta(gt=1, le=4)] = 1.25
    """By how much the provider counts more than we do, where it does not say."""
    retries: Number = 3
    """Reports in a row that are acted upon."""


class Tool(PolicySection, frozen=True, kw_only=True):
    """A tool that a reminder names."""

    name: str
    category: str = ""
    about: str = ""


class Reminder(PolicySection, frozen=True, kw_only=True):
    """What an agent is reminded of after a compaction."""

    mode: Literal["off", "tools", "categories", "auto"] = "off"
    """`auto`: one by one where they are few, else by categories."""
    few: Number = 20
    tools: tuple[Tool, ...] = ()
    """None: those that the agent gave when it opened the conversation."""
    text: str = ""
    cap: Share = 0.05


class Shape(PolicySection, frozen=True, kw_only=True):
    """How a view is written for its provider."""

    profile: Literal["openai-chat", "openai-responses", "anthropic-messages"] = "openai-chat"
    summary_role: Literal["user", "system", "developer"] = "user"
    overdue_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    read_tool: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]{0,64}$")] | msgspec.UnsetType = msgspec.UNSET
    read_keys: Literal["plain", "named"] | msgspec.UnsetType = msgspec.UNSET
