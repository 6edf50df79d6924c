"""The policy: one typed document that says when and how a context is lightened.

Shares are of the usable tokens (`Policy.usable_tokens`) unless a comment says otherwise. The resolved
document is written into the log when a conversation adopts it, and its hash into every commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec

from .errors import BadPolicy

Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Tokens = Annotated[int, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A part of the policy; an unknown key is an error."""


class Budget(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many tokens a view may have."""

    window: Annotated[int, msgspec.Meta(ge=1)] = 128_000
    """Tokens of the model's context window."""
    reserve: Tokens = 4_096
    """Tokens kept free for the answer (not given: at most a quarter of the window); send it as `max_tokens`."""
    headroom: Share = 0.0
    """Share of the rest kept free for what a tokenizer cannot see."""
    tools: Tokens = 0
    """Tokens of the tool definitions that the agent sends along."""


class Trigger(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When compaction starts."""

    ratio: Share = 0.85
    """Share of the usable tokens above which digest is woken."""


class Target(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where compaction stops; the distance to the trigger keeps prompt caches hitting."""

    low_water: Share = 0.35
    """Share of the usable tokens that digest and cut go down to."""
    min_gain: Share = 0.05
    """Share of the usable tokens that a step must win; less is declined."""


class Spill(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cap of one part: the smallest of the three; equality is allowed."""

    share: Share = 0.15
    tokens: Tokens = 25_000
    bytes: Count = 65_536
    """Bytes are looked at first: a larger part is spilled without being counted."""
    preview: Share = 0.5
    """Share of the cap that the pointer with its preview may take."""
    on_store_error: Literal["degrade", "wait"] = "degrade"
    """`degrade`: after the retries an inline preview is used; the original stays in the log."""
    medium: Share = 0.03
    """A tool's result above this is shortened by its kind, the original kept as an artifact; 1: only above the cap."""
    medium_keep: Share = 0.6
    """Share of such a result that may stay."""
    index: Share = 0.5
    """Share of a pointer for the values in what is left out."""


class Digest(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the rule-made summary keeps."""

    keep_blocks: Count | None = None
    """Newest blocks kept verbatim; none: as many as fit the target."""
    keep_tokens: Tokens | None = None
    """Tokens of the newest units kept verbatim; none: what the target leaves."""
    cap: Share = 0.25
    """Largest size of the digest."""


class Squeeze(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether an LLM may shorten the digest."""

    mode: Literal["off", "squeeze"] = "off"
    model: str = ""
    cap: Share = 0.15
    """Size asked of the model; the answer is cut off above it and then refused."""
    prompt_version: Literal["v1"] = "v1"
    deadline_seconds: Annotated[float, msgspec.Meta(gt=0, le=86_400)] = 60.0
    attempts: Annotated[int, msgspec.Meta(ge=1, le=10)] = 3


class Cut(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the last resort may do."""

    pins: tuple[Literal["first_user", "last_user"], ...] = ("last_user",)
    """Messages beside the instructions that stay, whatever their age."""
    on_overflow: Literal["shrink", "refuse"] = "shrink"
    """When not even the pinned messages fit: shorten inside them, or refuse at once."""


class Shape(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a view is written for its provider."""

    profile: Literal["openai-chat"] = "openai-chat"
    summary_role: Literal["user", "system", "developer"] = "user"


class Policy(_Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole document; every section has defaults."""

    budget: Budget = Budget()
    trigger: Trigger = Trigger()
    target: Target = Target()
    spill: Spill = Spill()
    digest: Digest = Digest()
    squeeze: Squeeze = Squeeze()
    cut: Cut = Cut()
    shape: Shape = Shape()

    @property
    def usable_tokens(self) -> int:
        """Return the tokens that a view may have."""
        free = self.budget.window - self.budget.reserve - self.budget.tools
        return max(0, int(free * (1 - self.budget.headroom)))


def resolve(layers: Iterable[Mapping[str, Any]]) -> Policy:
    """Return the policy of *layers*, the later ones over the earlier, key by key.

    Raises `BadPolicy` that names the key.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        if not isinstance(layer, Mapping):
            raise BadPolicy(f"policy: a layer must be an object, not {type(layer).__name__}", key="")
        merged = _merge(merged, layer)
    policy = converted(merged)
    budget = merged.get("budget", {})
    if "reserve" not in budget and policy.budget.reserve > policy.budget.window // 4:
        # nobody asked for a reserve: a small window keeps most of itself
        fitting = msgspec.structs.replace(policy.budget, reserve=policy.budget.window // 4)
        policy = msgspec.structs.replace(policy, budget=fitting)
    _check(policy)
    return policy


def converted(layer: Mapping[str, Any]) -> Policy:
    """Return *layer* over the defaults, its keys and types checked but not whether they fit together.

    Raises `BadPolicy` that names the key.
    """
    try:
        return msgspec.convert(layer, Policy, strict=False)
    except msgspec.ValidationError as error:
        raise BadPolicy(f"policy: {error}", key=key_of(str(error))) from None


def encode(policy: Policy) -> bytes:
    """Return the canonical bytes of *policy* (JSON, fields in declared order)."""
    return msgspec.json.encode(policy)


def decode(raw: bytes) -> Policy:
    """Return the policy that `encode` wrote; raises `BadPolicy` for a newer or damaged one."""
    try:
        return msgspec.json.decode(raw, type=Policy)
    except msgspec.MsgspecError as error:
        raise BadPolicy(f"the recorded policy cannot be read: {error}", key="") from None


def fingerprint(policy: Policy) -> str:
    """Return the hash that commits carry (SHA-256, first 16 hex digits)."""
    return hashlib.sha256(encode(policy)).hexdigest()[:16]


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(base)
    for key, value in over.items():
        below = out.get(key)
        out[key] = _merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return out


def key_of(error: str) -> str:
    """Return the dotted key that msgspec's sentence is about; of an unknown one its own name too."""
    path = error.rpartition("`$")[2].strip(".`") if "`$" in error else ""
    unknown = error.partition("unknown field `")[2].partition("`")[0]
    return ".".join(filter(None, (path, unknown)))


def _check(policy: Policy) -> None:
    if policy.usable_tokens <= 0:
        raise BadPolicy("budget: reserve, tools and headroom leave no token of the window", key="budget")
    if policy.target.low_water > policy.trigger.ratio:
        raise BadPolicy("target.low_water must not be above trigger.ratio", key="target.low_water")
    if policy.squeeze.mode != "off" and not policy.squeeze.model:
        raise BadPolicy("squeeze.mode needs squeeze.model", key="squeeze.model")
