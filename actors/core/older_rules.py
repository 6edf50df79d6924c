"""Older rules: a release decides by them for as long as workers are left that read no newer ones.

What a new version of the rules changes is a key of the policy wherever it can be, with the old way as its default;
`KEYS_SINCE` names it. Then the rules branch on the policy alone, and no rule asks for a version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from protocol import codec
from protocol import policy as policies
from protocol.policy import Policy

from .state import State

KEYS_SINCE: Mapping[str, Mapping[str, Mapping[str, Any]]] = {"2": {"digest": {"style": "values"}}}
"""By version of the rules: the keys of the policy that it brought, by section, and the value that is the way before."""

VALUES_SINCE: Mapping[str, Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
    "2": {"squeeze": {"mode": {"auto": "off", "select": "off"}, "prompt_version": {"v2": "v1"}}}
}
"""The same for values that a version brought to older keys: by section and key, the new value and the way before it."""


def under(rules: str, state: State) -> State:
    """Return *state* as rules of the version *rules* see it: keys of the policy that came later say the old way."""
    if state.policy is None or rules == codec.RULES_VERSION:
        return state
    return replace(state, terms=replace(state.terms, policy=policy_under(rules, state.policy)))


def policy_under(rules: str, policy: Policy) -> Policy:
    """Return *policy* with the keys that came after *rules* set to the way before them."""
    for section, keys in _newer(rules):
        policy = replace(policy, **{section: replace(getattr(policy, section), **keys)})
    return _in_older_words(rules, policy)


def policy_bytes(rules: str, policy: Policy) -> bytes:
    """Return *policy* as releases read it that know no newer rules than *rules*: without the keys that came later."""
    body = policies.encode(_in_older_words(rules, policy))
    newer = list(_newer(rules))
    if not newer:
        return body
    told = msgspec.json.decode(body, type=dict[str, Any])
    for section, keys in newer:
        told[section] = {key: value for key, value in told[section].items() if key not in keys}
    return msgspec.json.encode(told)


def _in_older_words(rules: str, policy: Policy) -> Policy:
    """Return *policy* without values that came after *rules*."""
    for version in codec.RULES_VERSIONS[codec.RULES_VERSIONS.index(rules) + 1 :]:
        for section, keys in VALUES_SINCE.get(version, {}).items():
            said = getattr(policy, section)
            older = {key: words[getattr(said, key)] for key, words in keys.items() if getattr(said, key) in words}
            policy = replace(policy, **{section: replace(said, **older)}) if older else policy
    return policy


def _newer(rules: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for version in codec.RULES_VERSIONS[codec.RULES_VERSIONS.index(rules) + 1 :]:
        yield from KEYS_SINCE.get(version, {}).items()
