"""Registry: each actor with its rule, its effect, and what it needs; whoever asks something of an actor asks here."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast

from actors.core.known_facts import whose
from actors.core.seal import Step
from actors.core.state import State
from actors.core.text.count import Count
from actors.cut.decide import cut
from actors.digest.decide import digest
from actors.model_info.windows import window_of
from actors.spill.act import Storing
from actors.spill.decide import claims, degraded, spill
from actors.spill.policy_layers import NO_LAYERS, Layers
from actors.squeeze.act import Asking
from actors.squeeze.decide import Ask, Completion, next_ask, recorded_answers
from actors.squeeze.model import Model
from protocol.facts import (
    DigestSqueezed,
    DoneFact,
    HistorySummarized,
    StageFailed,
    ToolOutputTrimmed,
)
from protocol.ids import Address
from protocol.subjects import Actor
from storage.ports import Artifacts

Facts = tuple[DoneFact, ...]


@dataclass(frozen=True, kw_only=True)
class Tools:
    """What the actors of one process work with."""

    artifacts: Artifacts
    layers: Layers = NO_LAYERS
    """What the policy of a new conversation lies on."""
    model: Model | None = None


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What came from outside of the log, for a decision that is made without store and model."""

    uploads: Mapping[str, str | None] = field(default_factory=dict)
    """Text of each upload by its SHA-256; None if it never came."""
    answers: tuple[Completion, ...] = ()
    ask: Callable[[Ask], Completion | DoneFact] | None = None
    """What a model says where `answers` end, or the fact that ends the asking; None: there is nobody to ask."""


@dataclass(frozen=True, kw_only=True)
class Decided:
    """What a rule decided: bytes to store first, then facts."""

    facts: Facts = ()
    bodies: tuple[bytes, ...] = ()


class Effect(Protocol):
    """An actor's rule together with what it does outside."""

    async def step(self, at: Address, state: State, *, count: Count, make_room: Callable[[], None]) -> Step:
        """Return what the actor does with *state*, after whatever its facts promise is done.

        *make_room* is called where it begins to wait. Raises `Unavailable` while it should wait.
        """
        ...


def _failed(state: State, error: str, count: Count) -> Facts:
    if state.episode is None:
        return ()
    return (StageFailed(boundary=state.episode.boundary, stage=state.episode.stage, error=error),)


def _of_the_log_alone(before: State, facts: Facts) -> Outside | None:
    return Outside()


def _nothing(tools: Tools) -> object:
    return None


@dataclass(frozen=True, kw_only=True)
class ActorSpec:
    """One actor."""

    rule: Callable[[State, Outside, Count], Decided]
    make_effect: Callable[[Tools], Effect]
    asks_model: bool = False
    """No agent waits for it, and its slots have no priority lane: two lanes could ask the model twice."""
    needs_store: bool = False
    serves: bool = False
    """Its process also serves contexts and sweeps: it has the states of those whose agents ask."""
    without: Callable[[State, str, Count], Facts] = _failed
    """The facts that go on without its rule, which fails by a fault of ours; none where there is nothing to pass by."""
    recorded: Callable[[State, Facts], Outside | None] = _of_the_log_alone
    """What came from outside for facts of the log, as it says itself; None where it does not, and the step rests."""
    warm: Callable[[Tools], object] = _nothing
    """Loads what its first step would wait for."""


@dataclass(frozen=True, kw_only=True)
class Deciding:
    """The effect of an actor that does nothing but decide."""

    rule: Callable[..., Facts]
    beside_the_loop: bool = False

    async def step(self, at: Address, state: State, *, count: Count, make_room: Callable[[], None]) -> Step:
        """See `Effect.step`."""
        if self.beside_the_loop:
            return Step(facts=await asyncio.to_thread(self.rule, state, count=count))
        return Step(facts=self.rule(state, count=count))


def deciding(rule: Callable[..., Facts], *, beside_the_loop: bool = False, serves: bool = False) -> ActorSpec:
    """Return an actor that decides from the log alone, and does nothing outside."""
    return ActorSpec(
        rule=lambda state, outside, count: Decided(facts=rule(state, count=count)),
        make_effect=lambda tools: Deciding(rule=rule, beside_the_loop=beside_the_loop),
        serves=serves,
    )


def _spilled(state: State, outside: Outside, count: Count) -> Decided:
    found = spill(state, uploads=outside.uploads, count=count)
    return Decided(facts=found.facts, bodies=found.bodies) if found else Decided()


def _degraded(state: State, error: str, count: Count) -> Facts:
    found = degraded(state, reason=f"fault: {error}", count=count)
    return found.facts if found else ()


def _of_spill(before: State, facts: Facts) -> Outside | None:
    """None for a policy as it was adopted, which rests on files and on the table of models, for what was decided on
    what the store said, and for uploads that only the store holds."""
    rests = before.policy is None or any(isinstance(fact, ToolOutputTrimmed) for fact in facts) or claims(before)
    return None if rests else Outside()


def _squeezed(state: State, outside: Outside, count: Count) -> Decided:
    answers = outside.answers
    while isinstance(found := next_ask(state, answers, count=count), Ask):
        if outside.ask is None:
            return Decided()
        answer = outside.ask(found)
        if not isinstance(answer, Completion):
            return Decided(facts=(answer,))
        answers = (*answers, answer)
    return Decided(facts=(found,) if found else ())


def _of_squeeze(before: State, facts: Facts) -> Outside | None:
    match facts[0]:
        case DigestSqueezed() | HistorySummarized() as made:
            return Outside(answers=recorded_answers(made))
        case _:
            return None


ACTOR_SPECS: dict[Actor, ActorSpec] = {
    "spill": ActorSpec(
        rule=_spilled,
        make_effect=lambda tools: Storing(artifacts=tools.artifacts, layers=tools.layers),
        needs_store=True,
        without=_degraded,
        recorded=_of_spill,
        warm=lambda tools: window_of("gpt-4o"),
    ),
    # a window of 128,000 tokens takes a fifth of a second: the loop goes on beside it
    "digest": deciding(digest, beside_the_loop=True),
    "squeeze": ActorSpec(
        rule=_squeezed,
        make_effect=lambda tools: Asking(model=tools.model),
        asks_model=True,
        recorded=_of_squeeze,
        warm=lambda tools: importlib.import_module("openai") if tools.model else None,
    ),
    "cut": deciding(cut, serves=True),
}


def spec_of(facts: Sequence[DoneFact]) -> ActorSpec | None:
    """Return the actor that decided *facts*; None if no actor did: a view was served, somebody wished for it."""
    return ACTOR_SPECS.get(cast(Actor, whose(facts[0]))) if facts else None


def asks_model(actor: Actor | None) -> bool:
    """Tell whether *actor* is one that asks a model, for whom no agent waits."""
    return actor is not None and ACTOR_SPECS[actor].asks_model
