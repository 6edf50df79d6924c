"""Policy layers: what a conversation's policy is resolved from.

The table of models, the service's file, its tenant's part, and what the agent asked for, the later ones over the
earlier. A key that an operator locked is as it is without the agent's layer.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from actors.core.seal import Step
from actors.core.state import State
from actors.model_info.windows import window_found, window_of
from protocol import policy as policies
from protocol.errors import BadPolicy
from protocol.facts import MessageRepaired
from protocol.ids import Address, Token
from protocol.policy import Policy
from protocol.presets import merge
from protocol.retention import Retention
from protocol.warned import warn

log = logging.getLogger("jettison.worker")

Json = Mapping[str, Any]

OPERATORS = ("digest.secrets", "retention.archive_after", "retention.erase_after")
"""Keys that are always locked: who could change them with a request could have secrets repeated, or end what is kept
of them before its time."""


@dataclass(frozen=True, kw_only=True)
class TenantLayer:
    """What one tenant's conversations have beside the service's own."""

    policy: Json = field(default_factory=dict)
    locked: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """A policy, and what is to be told of it to who asked and in the log."""

    policy: Policy
    notes: tuple[str, ...] = ()
    refused: str = ""
    """Why the agent's layer is left out."""


@dataclass(frozen=True, kw_only=True)
class Layers:
    """The service's own layers, below a conversation's."""

    service: Json = field(default_factory=dict)
    locked: tuple[str, ...] = ()
    tenants: Mapping[Token, TenantLayer] = field(default_factory=dict)

    def resolved(self, tenant: Token, *, model: str, layer: Json) -> Resolved:
        """Return the policy of a conversation of *tenant* that asks for *layer*. Raises `BadPolicy`."""
        below = self._below(tenant, model)
        policy = policies.resolve([*below, layer])
        _check_locks(policies.resolve(below), policy, (*OPERATORS, *self.locked, *self._of(tenant).locked))
        notes = []
        if model and window_of(model) is None and not any(_names_window(one) for one in (*below, layer)):
            notes.append(
                f"the window of model {model!r:.60} is not known, {policy.budget.window:,} tokens are assumed: "
                "set budget.window"
            )
        policy, unknown = _with_window(policy, model)
        if unknown:
            notes.append(f"the window of model {unknown!r:.60}, which squeezes, is not known: set squeeze.window")
        return Resolved(policy=policy, notes=tuple(notes))

    def retention(self, tenant: Token) -> Retention:
        """Return how long conversations of *tenant* may be idle, as the operator's layers say it now."""
        return policies.resolve(self._below(tenant, "")).retention

    def window(self, tenant: Token, *, model: str) -> int:
        """Return the tokens of the largest window that anything names for *model*; 0 where it would be assumed."""
        named = (one["budget"]["window"] for one in self._below(tenant, model) if _names_window(one))
        return max(named, default=0)

    def guessed(self, tenant: Token, *, model: str, layer: Json) -> tuple[str, ...]:
        """Return the warnings about a *model* that no table has, and whose name begins like others."""
        found = window_found(model)
        told = any(_names_window(one) for one in (self.service, self._of(tenant).policy, layer))
        if found is None or found.source != "family" or told:
            return ()
        return (
            f"model {model!r:.60} is in no table: {found.tokens:,} tokens are taken for its window, the least that "
            "models have whose names begin so; is it spelt right? If so, set budget.window",
        )

    def adopted(self, tenant: Token, *, model: str, layer: bytes) -> Resolved:
        """Return the policy that a new conversation begins with; what of *layer* cannot be used is noted, left out."""
        try:
            return self.resolved(tenant, model=model, layer=json.loads(layer))
        except (BadPolicy, ValueError, TypeError, RecursionError) as error:
            found = self.resolved(tenant, model=model, layer={})
            return Resolved(policy=found.policy, notes=found.notes, refused=f"policy: {error}")

    def check(self) -> None:
        """Raise `BadPolicy` for a layer or a lock that would refuse every conversation."""
        for tenant in (Token(""), *self.tenants):
            policy = policies.resolve(self._below(tenant, ""))
            for lock in (*self.locked, *self._of(tenant).locked):
                _value(policy, lock)

    def _below(self, tenant: Token, model: str) -> list[Json]:
        window = window_of(model)
        table: Json = {"budget": {"window": window}} if window else {}
        return [table, self.service, self._of(tenant).policy]

    def _of(self, tenant: Token) -> TenantLayer:
        return self.tenants.get(tenant, TenantLayer())


NO_LAYERS = Layers()


def adopting(layers: Layers, at: Address, state: State) -> Step:
    """Return the step by which a new conversation adopts its policy; what cannot be used is left out, as a fact."""
    found = layers.adopted(at.tenant, model=state.terms.model, layer=state.terms.layer)
    warn(found.notes)
    if found.refused:
        log.warning("%s: what its agent asked for is left out: %s", at, found.refused)
    notes = (found.refused, *found.notes) if found.refused else found.notes
    # a note may quote what was asked for, surrogates too
    told = (note[:200].encode("utf-8", "replace").decode() for note in notes)
    facts = tuple(MessageRepaired(number=0, kind="refused", detail=note) for note in told)
    return Step(adopt=found.policy, facts=facts)


def merged(layer: bytes, change: Json) -> dict[str, Any]:
    """Return a conversation's own *layer* with *change* over it, key by key."""
    try:
        base = json.loads(layer)
    except (ValueError, RecursionError):
        base = {}
    return merge(base if isinstance(base, dict) else {}, change)


def differing(one: Policy, other: Policy) -> tuple[str, ...]:
    """Return the keys in which two policies differ."""
    return tuple(_differing(msgspec.to_builtins(one), msgspec.to_builtins(other), ""))


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted(one.keys() | other.keys()):
            yield from _differing(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other:
        yield path


def _names_window(layer: Json) -> bool:
    budget = layer.get("budget")
    return isinstance(budget, Mapping) and "window" in budget


def _check_locks(below: Policy, policy: Policy, locks: tuple[str, ...]) -> None:
    """Refuse what changes a locked key, by itself or through a preset."""
    for lock in locks:
        if _value(below, lock) != _value(policy, lock):
            raise BadPolicy(f"policy: {lock} is locked by the operator of the service", key=lock)


def _value(policy: Policy, key: str) -> Any:
    value: Any = msgspec.to_builtins(policy)
    for step in key.split("."):
        if not isinstance(value, Mapping) or step not in value:
            raise BadPolicy(f"locked: the policy has no key {key!r:.80}", key=key)
        value = value[step]
    return value


def _with_window(policy: Policy, model: str) -> tuple[Policy, str]:
    """Return *policy* with the window of the model that squeezes, or that model's name if the table lacks it.

    Written down once: a newer table must not change what was decided.
    """
    wanted = policy.squeeze
    if wanted.way == "off" or wanted.window:
        return policy, ""
    window = window_of(wanted.model or model)
    if window is None:
        # of its own model the conversation says so already
        return policy, wanted.model if wanted.model != model else ""
    return msgspec.structs.replace(policy, squeeze=msgspec.structs.replace(wanted, window=window)), ""
