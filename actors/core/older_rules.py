"""Older rules: a release decides by them for as long as workers are left that read no newer ones.

What a new version of the rules changes is a key of the policy wherever it can be, with the old way as its default;
`KEYS_SINCE` names it. Then the rules branch on the policy alone, and no rule asks for a version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol import codec
from protocol import policy as policies
from protocol.policy import Policy
from protocol.retention import Retention

from .in_force import in_force
from .observations import without_marks
from .state import State

KeyTree = Mapping[str, Any]
"""Keys of the policy by section, within one another as they are there."""

KEYS_SINCE: Mapping[str, KeyTree] = {
    "2": {
        "spill": {"of_result": "part", "shown": "in_order"},
        "digest": {"style": "values", "told": 0.0, "secrets": "handle"},
        "cooldown": {"model_calls": 0},
        "cut": {"kept": "take", "floor": {"calls": "stay"}},
        "reminder": {"few": 20},
        "emergency": {"keep_messages": None, "down_to": None, "part": None},
        "shape": {"overdue_seconds": 0.0, "read_tool": msgspec.UNSET, "read_keys": msgspec.UNSET},
    },
    "3": {"digest": {"records": "lines"}, "squeeze": {"offers": "unchanged"}, "retention": Retention()},
}
"""By version of the rules: the keys of the policy that it brought, and the value that is the way before."""


VALUES_SINCE: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "2": {
        "squeeze": {"mode": {"auto": "off", "select": "off"}, "prompt_version": {"v2": "v1"}},
        "reminder": {"mode": {"auto": "tools"}},
    },
    "3": {
        "budget": {"calibrate": {"apart": "tighten"}},
        "spill": {"repeated": {"near": "point"}, "shown": {"in_order": "kind"}},
        "squeeze": {"prompt_version": {"v3": "v2"}},
    },
}
"""The same for values that a version brought to older keys: by section and key, the new value and the way before it."""

HOOK_KEYS_SINCE: Mapping[str, KeyTree] = {
    "2": {
        "compact": {"strategy": "", "keep_messages": None, "cap_tokens": None},
        "inject": {"role": "", "fill": False},
        "log": {"fill": False},
    }
}
"""The same of what hooks do, by its kind."""

WORDS_SINCE: Mapping[str, frozenset[str]] = {"2": frozenset(("call_start", "call_end", "model_calls"))}
"""Words that a version brought: a hook or a condition that says one means nothing to older rules."""


def under(rules: str, state: State) -> State:
    """Return *state* as the rules of the version *rules* see it, in a compaction by the policy that it works by.

    Keys of the policy that came later say the old way.
    """
    if state.policy is None:
        return state
    if rules == codec.RULES_VERSION:
        return in_force(state)
    policy = policy_under(rules, state.policy)
    if not policy.digest.rules_3:
        state = without_marks(state, waiting=False)
    return replace(state, terms=replace(state.terms, policy=policy))


def policy_under(rules: str, policy: Policy) -> Policy:
    """Return *policy* with the keys that came after *rules* set to the way before them."""
    older = policies.decode(policy_bytes(rules, policy))
    for version in _newer(rules):
        older = _with(older, KEYS_SINCE.get(version, {}))
    return older


def policy_bytes(rules: str, policy: Policy) -> bytes:
    """Return *policy* as releases read it that know no newer rules than *rules*: without the keys that came later."""
    body = policies.encode(policy)
    newer = _newer(rules)
    if not newer:
        return body
    told = msgspec.json.decode(body, type=dict[str, Any])
    # what a newer version made of a value may itself be new to the one before
    for version in reversed(newer):
        told = _without(told, KEYS_SINCE.get(version, {}))
        for section, keys in VALUES_SINCE.get(version, {}).items():
            told[section] |= {
                # a late key is written only where it says anything (`policies.encode`)
                key: older[told[section][key]]
                for key, older in keys.items()
                if told[section].get(key) in older
            }
        words = WORDS_SINCE.get(version, frozenset())
        told["hooks"] = [hook for hook in told["hooks"] if not _says(hook, words)]
        told["trigger"]["conditions"] = [one for one in told["trigger"]["conditions"] if not _says(one, words)]
        for hook in told["hooks"]:
            hook["do"] = _without(hook["do"], HOOK_KEYS_SINCE.get(version, {}).get(hook["do"]["kind"], {}))
    return msgspec.json.encode(told)


def _newer(rules: str) -> tuple[str, ...]:
    return codec.RULES_VERSIONS[codec.RULES_VERSIONS.index(rules) + 1 :]


def _with(section: Any, keys: KeyTree) -> Any:
    """Return *section* with *keys* in it."""
    for key, value in keys.items():
        inner = _with(getattr(section, key), value) if isinstance(value, Mapping) else value
        section = replace(section, **{key: inner})
    return section


def _says(value: Any, words: frozenset[str]) -> bool:
    """Tell whether one of *words* stands in *value*, not counting texts and names that a person wrote."""
    if isinstance(value, Mapping):
        return any(_says(inner, words) for key, inner in value.items() if key not in ("id", "text", "name"))
    if isinstance(value, list):
        return any(_says(inner, words) for inner in value)
    return isinstance(value, str) and value in words


def _without(section: Mapping[str, Any], keys: KeyTree) -> dict[str, Any]:
    """Return *section*, as it is written, without *keys*."""
    left = dict(section)
    for key, value in keys.items():
        if isinstance(value, Mapping):
            left[key] = _without(left[key], value)
        else:
            left.pop(key, None)
    return left
