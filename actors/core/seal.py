"""Seal: a step that was decided becomes the commit that follows the state it was decided on.

Hashing and encoding are the codec's (`protocol/codec.py`); `runtime/conversations.py` appends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from protocol import codec
from protocol import policy as policies
from protocol.facts import DoneFact

from .older_rules import policy_bytes
from .state import State


@dataclass(frozen=True, kw_only=True)
class Step:
    """What one actor decided: facts to commit; `adopt` is the policy that a new conversation begins with."""

    facts: tuple[DoneFact, ...] = ()
    adopt: policies.Policy | None = None


def sealed(
    state: State,
    facts: tuple[DoneFact, ...],
    *,
    rules: str,
    writer: str,
    tokenizer: str,
    adopt: policies.Policy | None = None,
) -> codec.Commit:
    """Return *facts*, decided by *rules*, as the next commit; with *adopt*, the conversation's policy from there on."""
    policy = policy_bytes(rules, adopt) if adopt else b""
    assert policy or state.policy is not None, "the first commit adopts a policy"
    return codec.seal(
        codec.Commit(
            version=state.version + 1,
            commit_id=codec.commit_id(prev_hash=state.hash, step=step_name(facts)),
            writer=writer,
            upto=state.position.said_seq,
            prev_hash=state.hash,
            said_hash=state.position.said_hash,
            policy_hash=policies.fingerprint_of(policy) if policy else state.terms.policy_hash,
            rules_version=rules,
            tokenizer=tokenizer,
            facts=facts,
            policy=policy,
        )
    )


def step_name(facts: Iterable[DoneFact]) -> str:
    """Return the name of a step: after the same commit, the same kind of step lands at most once."""
    return ",".join(type(fact).__name__ for fact in facts) or "adopt"
