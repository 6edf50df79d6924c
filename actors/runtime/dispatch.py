"""Dispatch: what each actor does with a state, rule and effect together.

A step loads nothing and retries nothing. It returns the facts to commit, after whatever they promise is
done: bytes are stored before the fact that points to them, an answer is there before the fact that uses it.
Whose effect that is stands in `registry.py` (`ACTOR_SPECS`): spill's is `actors/spill/act.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from actors.core.older_rules import under
from actors.core.seal import Step
from actors.core.state import State
from actors.spill.policy_layers import NO_LAYERS, Layers
from actors.squeeze.model import Model
from protocol import codec
from protocol.facts import MessageRepaired
from protocol.ids import Address
from protocol.subjects import Actor
from storage.ports import Artifacts

from .fold import count_of
from .registry import ACTOR_SPECS, Effect, Tools

log = logging.getLogger("jettison.worker")


@dataclass(kw_only=True)
class Steps:
    """The actors' steps in one process, with what they need from outside."""

    artifacts: Artifacts
    layers: Layers = NO_LAYERS
    """What the policy of a new conversation lies on."""
    model: Model | None = None
    effects: dict[Actor, Effect] = field(init=False)

    def __post_init__(self) -> None:
        self.effects = {actor: one.make_effect(self.tools) for actor, one in ACTOR_SPECS.items()}

    @property
    def tools(self) -> Tools:
        """Return what the actors work with."""
        return Tools(artifacts=self.artifacts, layers=self.layers, model=self.model)

    async def step(
        self,
        actor: Actor,
        at: Address,
        state: State,
        *,
        rules: str = codec.RULES_VERSION,
        make_room: Callable[[], None] = lambda: None,
    ) -> Step:
        """Return what *actor* does with *state* by *rules*; *make_room* is called where it begins to wait.

        Raises `ArtifactsUnavailable` while spill should wait, `Busy` while too many others do.
        """
        return await self.effects[actor].step(at, under(rules, state), count=count_of(state), make_room=make_room)


def tell(at: Address, step: Step) -> None:
    """Log what was repaired or refused, and nothing of what a message says."""
    for fact in step.facts:
        # what is not known of a model was said when its policy was adopted, once for all conversations
        if isinstance(fact, MessageRepaired) and step.adopt is None:
            what = f"message {fact.number}: {fact.kind}" if fact.number else f"{fact.kind}: {fact.detail}"
            log.warning("%s: %s", at, what)


def given_up(actor: Actor, state: State, error: Exception) -> Step:
    """Return the step that goes on without *actor*, whose own step fails by a fault of ours.

    Spill shows what it can without its rule's help; the other stages are passed by. Raises *error* where
    there is nothing to pass by.
    """
    facts = ACTOR_SPECS[actor].without(state, type(error).__name__, count_of(state))
    if not facts:
        raise error
    return Step(facts=facts)
