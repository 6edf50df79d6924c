"""Steps: what each actor does with a state, rule and effect together.

A step loads nothing and retries nothing. It returns the facts to commit, after whatever they promise is
done: bytes are stored before the fact that points to them, an answer is there before the fact that uses it.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocol import policy as policies
from protocol.errors import ArtifactsUnavailable, BadPolicy, ModelUnavailable, NotFound, Rejected
from protocol.facts import CompactionDeclined, DoneFact, MessageRepaired, StageFailed
from protocol.ids import Address
from protocol.subjects import Actor
from storage.ports import Artifacts

from .llm import Model
from .rules.cut import cut
from .rules.digest import digest
from .rules.entry import Count
from .rules.spill import Spilled, claims, degraded, spill
from .rules.squeeze import Answer, Ask, ask, judge
from .rules.state import State
from .tokens import counter, tokenizer_for
from .windows import window_of

OUTCOMES_MAX = 64
"""Answers kept for their commit: more than the slots that one worker holds at once."""

DEGRADE_AFTER_DELIVERIES = 4
"""Deliveries of a slot (about 4 s of a store that is down) before spill goes on without it."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """Facts to commit; `adopt` is the policy that a new conversation begins with."""

    facts: tuple[DoneFact, ...] = ()
    adopt: policies.Policy | None = None


@dataclass(kw_only=True)
class Steps:
    """The four actors' steps, with what they need from outside."""

    artifacts: Artifacts
    layers: tuple[Mapping[str, Any], ...] = ()
    """The service's own layers of the policy, below a conversation's."""
    model: Model | None = None
    outcomes: OrderedDict[tuple[str, int], Answer | StageFailed] = field(default_factory=OrderedDict)
    """What asking came to and may not be committed yet, by the id and the boundary of the request."""

    async def step(self, actor: Actor, at: Address, state: State, *, deliveries: int) -> Step:
        """Return what *actor* does with *state*. Raises `ArtifactsUnavailable` while spill should wait."""
        count = counter(tokenizer_for(state.model).encoding)
        actions: dict[Actor, Callable[[], Awaitable[Step]]] = {
            "spill": lambda: self._spill(at, state, count, deliveries),
            "digest": lambda: _ready(digest(state, count=count)),
            "squeeze": lambda: self._squeeze(state, count),
            "cut": lambda: _ready(cut(state, count=count)),
        }
        return await actions[actor]()

    async def _spill(self, at: Address, state: State, count: Count, deliveries: int) -> Step:
        if state.policy is None:
            return self._adopt(state)
        try:
            uploads = {sha256: await self._upload(at, sha256) for sha256 in claims(state)}
            spilled = spill(state, uploads=uploads, count=count)
            for body in spilled.bodies if spilled else ():
                await self.artifacts.put(at.tenant, body)
        except ArtifactsUnavailable as error:
            if state.policy.spill.on_store_error == "wait" or deliveries < DEGRADE_AFTER_DELIVERIES:
                raise
            spilled = degraded(state, reason=f"{error}"[:120], count=count)
        return await _ready(spilled.facts if isinstance(spilled, Spilled) else ())

    async def _upload(self, at: Address, sha256: str) -> str | None:
        try:
            return (await self.artifacts.get(at.tenant, sha256)).decode("utf-8", "replace")
        except NotFound:
            return None

    async def _squeeze(self, state: State, count: Count) -> Step:
        asked = ask(state)
        if not isinstance(asked, Ask):
            return await _ready((asked,) if asked else ())
        if self.model is None:
            reason = "this worker has no model endpoint configured"
            return await _ready((CompactionDeclined(boundary=asked.boundary, stage="squeeze", reason=reason),))
        outcome = self.outcomes.get((asked.id, asked.boundary)) or await self._asked(asked, self.model, state.policy)
        # kept, failed or not: whoever commits first in between (an agent is served) costs no second call
        self.outcomes[asked.id, asked.boundary] = outcome
        if len(self.outcomes) > OUTCOMES_MAX:
            self.outcomes.popitem(last=False)
        fact = outcome if isinstance(outcome, StageFailed) else judge(state, asked, outcome, count=count)
        return await _ready((fact,))

    async def _asked(self, asked: Ask, model: Model, policy: policies.Policy | None) -> Answer | StageFailed:
        assert policy is not None
        try:
            return await model.answer(
                asked, deadline_seconds=policy.squeeze.deadline_seconds, attempts=policy.squeeze.attempts
            )
        except (ModelUnavailable, Rejected) as error:
            attempts = int(str(error.fields.get("attempts", 1)))
            return StageFailed(boundary=asked.boundary, stage="squeeze", error=f"{error}"[:200], attempts=attempts)

    def _adopt(self, state: State) -> Step:
        """Adopt the policy of a new conversation; what of it cannot be used is left out, and that is a fact."""
        window = window_of(state.model)
        table = {"budget": {"window": window}} if window else {}
        notes = []
        if state.model and window is None:
            notes.append(f"the window of model {state.model!r:.60} is not known")
        try:
            policy = policies.resolve([table, *self.layers, json.loads(state.layer)])
        except (BadPolicy, ValueError, TypeError, RecursionError) as error:
            notes.append(f"policy: {error}")
            policy = policies.resolve([table, *self.layers])
        facts = tuple(MessageRepaired(number=0, kind="refused", detail=note[:200]) for note in notes)
        return Step(adopt=policy, facts=facts)


def given_up(actor: Actor, state: State, error: Exception) -> Step:
    """Return the step that goes on without *actor*, whose own step fails by a fault of ours.

    Spill shows what it can without its rule's help; the other stages are passed by. Raises *error* where
    there is nothing to pass by.
    """
    if actor == "spill":
        count = counter(tokenizer_for(state.model).encoding)
        spilled = degraded(state, reason=f"fault: {type(error).__name__}", count=count)
        if spilled is None:
            raise error
        return Step(facts=spilled.facts)
    if state.episode is None:
        raise error
    failed = StageFailed(boundary=state.episode.boundary, stage=actor, error=type(error).__name__)
    return Step(facts=(failed,))


async def _ready(facts: tuple[DoneFact, ...]) -> Step:
    return Step(facts=facts)
