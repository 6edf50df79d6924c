"""The policy: one typed document that says when and how a context is lightened, in sections (`policy_sections.py`).

The resolved document is written into the log when a conversation adopts it, and its hash into every commit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .errors import UNREADABLE, BadPolicy
from .hooks import Hook, PolicySection
from .jsonbytes import without_surrogates
from .limits import SET_MAX
from .policy_sections import (
    Budget,
    Cooldown,
    Cut,
    Digest,
    Economy,
    Emergency,
    Reminder,
    Shape,
    Spill,
    Squeeze,
    Target,
    Trigger,
)
from .policy_words import allowed, key_of, meant
from .presets import PRESETS, Preset, merge
from .retention import Retention


class Policy(PolicySection, frozen=True, kw_only=True):
    """The whole document; every section has defaults."""

    preset: Preset = "jettison"
    """What the layers lie on."""
    budget: Budget = Budget()
    trigger: Trigger = Trigger()
    target: Target = Target()
    cooldown: Cooldown = Cooldown()
    economy: Economy = Economy()
    spill: Spill = Spill()
    digest: Digest = Digest()
    squeeze: Squeeze = Squeeze()
    cut: Cut = Cut()
    emergency: Emergency = Emergency()
    hooks: tuple[Hook, ...] = ()
    reminder: Reminder = Reminder()
    shape: Shape = Shape()
    retention: Retention = Retention()

    @property
    def usable_tokens(self) -> int:
        """Return the tokens that a view may have."""
        return self._usable(self.budget.window, self.budget.reserve)

    def usable_tokens_in(self, window: int) -> int:
        """Return the tokens that a view may have in a model's *window* that turned out to be smaller."""
        window = min(window, self.budget.window)
        return self._usable(window, min(self.budget.reserve, share_of(window, self.budget.reserve_share)))

    def _usable(self, window: int, reserve: int) -> int:
        return max(0, share_of(window - reserve - self.budget.tools, 1 - self.budget.headroom))


_NO_RETENTION = b',"retention":' + msgspec.json.encode(Retention())
_DECODER = msgspec.json.Decoder(Policy)


def share_of(tokens: int, share: float) -> int:
    """Return *share* of *tokens*, rounded down; 0.29 of 100 is 29 although 100 * 0.29 is a little less."""
    return int(tokens * share + 1e-6)


def resolve(layers: Iterable[Mapping[str, Any]]) -> Policy:
    """Return the policy of *layers*, the later ones over the earlier, key by key, all over the last named preset.

    Raises `BadPolicy` that names the key.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        if not isinstance(layer, Mapping):
            raise BadPolicy(f"policy: a layer must be an object, not {type(layer).__name__}", key="")
        merged = merge(_without_llm(merged) if _refuses_llm(layer) else merged, layer)
    preset = merged.get("preset", "jettison")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise BadPolicy(f"preset must be one of {', '.join(PRESETS)}, not {preset!r:.40}", key="preset")
    policy = converted(merge(PRESETS[preset], merged))
    most = share_of(policy.budget.window, policy.budget.reserve_share)
    if "reserve" not in merged.get("budget", {}) and policy.budget.reserve > most:
        # nobody asked for a reserve: a small window keeps most of itself
        policy = msgspec.structs.replace(policy, budget=msgspec.structs.replace(policy.budget, reserve=most))
    _check(policy)
    _check_values(msgspec.to_builtins(policy), "")
    return policy


def _refuses_llm(layer: Mapping[str, Any]) -> bool:
    """Tell whether *layer* names a preset that says itself that no LLM takes part: layers below bring none in."""
    named = layer.get("preset")
    return isinstance(named, str) and PRESETS.get(named, {}).get("squeeze", {}).get("mode") == "off"


def _without_llm(layer: Mapping[str, Any]) -> dict[str, Any]:
    squeeze = layer.get("squeeze")
    left = {key: value for key, value in squeeze.items() if key != "mode"} if isinstance(squeeze, Mapping) else squeeze
    return dict(layer) | ({"squeeze": left} if "squeeze" in layer else {})


def converted(layer: Mapping[str, Any]) -> Policy:
    """Return *layer* over the defaults, whether its parts fit or not; raises `BadPolicy` that names a wrong key."""
    try:
        return msgspec.convert(layer, Policy, strict=False)
    except msgspec.ValidationError as error:
        key = key_of(str(error))
        raise BadPolicy(f"policy: {error}{allowed(Policy, key)}{meant(Policy, str(error))}", key=key) from None


def encode(policy: Policy) -> bytes:
    """Return the canonical bytes of *policy* (JSON, fields in declared order), a late key where it says anything."""
    raw = msgspec.json.encode(policy).replace(b'"secrets":"handle",', b"").replace(b'"shown":"kind",', b"")
    return raw.replace(_NO_RETENTION, b"")


def decode(raw: bytes) -> Policy:
    """Return the policy that `encode` wrote; raises `BadPolicy` for a newer or damaged one."""
    try:
        return _DECODER.decode(raw)
    except UNREADABLE as error:
        raise BadPolicy(f"the recorded policy cannot be read: {error}", key="") from None


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a layer: every key may be left out."""
    return msgspec.json.schema(Policy)


def fingerprint(policy: Policy) -> str:
    """Return the hash that commits carry (SHA-256, first 16 hex digits)."""
    return fingerprint_of(encode(policy))


def fingerprint_of(raw: bytes) -> str:
    """Return the hash of a policy's bytes, as commits carry it."""
    return hashlib.sha256(raw).hexdigest()[:16]


def _check(policy: Policy) -> None:
    if policy.usable_tokens <= 0:
        raise BadPolicy("budget: reserve, tools and headroom leave no token of the window", key="budget")
    if policy.target.low_water > policy.trigger.ratio:
        told = f"target.low_water ({policy.target.low_water}) must not be above trigger.ratio ({policy.trigger.ratio})"
        raise BadPolicy(f"{told}: set both, or leave both out", key="target.low_water")
    if len({hook.id for hook in policy.hooks}) < len(policy.hooks):
        raise BadPolicy("hooks: two hooks have the same id", key="hooks")


def _check_values(value: object, key: str) -> None:
    """Raise `BadPolicy` for what no record has: a number without end, or too large to be summed up, half a letter."""
    if isinstance(value, Mapping):
        for name, one in value.items():
            _check_values(name, key)
            _check_values(one, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for place, one in enumerate(value):
            _check_values(one, f"{key}[{place}]")
    elif isinstance(value, str):
        if without_surrogates(value) != value:
            raise BadPolicy(f"{key}: a text has half of a surrogate pair, which is no character", key=key)
    elif isinstance(value, int | float) and not abs(value) <= SET_MAX:
        raise BadPolicy(f"{key} must be between {-SET_MAX:,} and {SET_MAX:,}, not {value!r:.40}", key=key)
