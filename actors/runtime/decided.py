"""Decided: each rule with what came from outside given to it, and what it was as the log says it.

This is how tests play whole conversations without servers, and how `replay` decides a step a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from actors.core.state import State
from actors.core.text.count import Count
from actors.spill.decide import claims, spill
from actors.spill.without_store import degraded
from actors.squeeze.decide import Ask, Completion, recorded_answers, squeeze
from protocol.facts import DigestSqueezed, DoneFact, HistorySummarized, StageFailed, ToolOutputTrimmed

Facts = tuple[DoneFact, ...]


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


def passed_by(state: State, error: str, count: Count) -> Facts:
    """Return the fact that passes a stage by, whose rule fails by a fault of ours."""
    if state.episode is None:
        return ()
    return (StageFailed(boundary=state.episode.boundary, stage=state.episode.stage, error=error),)


def of_the_log_alone(before: State, facts: Facts) -> Outside | None:
    """Nothing came from outside: its rule needs the log alone."""
    return Outside()


def spilled(state: State, outside: Outside, count: Count) -> Decided:
    """Return spill's facts, decided with the uploads of *outside*."""
    found = spill(state, uploads=outside.uploads, count=count)
    return Decided(facts=found.facts, bodies=found.bodies) if found else Decided()


def spill_passed_by(state: State, error: str, count: Count) -> Facts:
    """Return the facts by which spill goes on without its rule's help."""
    found = degraded(state, reason=f"fault: {error}", count=count)
    return found.facts if found else ()


def outside_of_spill(before: State, facts: Facts) -> Outside | None:
    """None for a policy as it was adopted, which rests on files and on the table of models, for what was decided on
    what the store said, and for uploads that only the store holds."""
    rests = before.policy is None or any(isinstance(fact, ToolOutputTrimmed) for fact in facts) or claims(before)
    return None if rests else Outside()


def squeezed(state: State, outside: Outside, count: Count) -> Decided:
    """Return squeeze's facts, decided with the answers of *outside*."""
    answers = outside.answers
    while isinstance(found := squeeze(state, answers, count=count), Ask):
        if outside.ask is None:
            return Decided()
        answer = outside.ask(found)
        if not isinstance(answer, Completion):
            return Decided(facts=(answer,))
        answers = (*answers, answer)
    return Decided(facts=(found,) if found else ())


def outside_of_squeeze(before: State, facts: Facts) -> Outside | None:
    """The answers that the fact itself has; None where it has none."""
    match facts[0]:
        case DigestSqueezed() | HistorySummarized() as made:
            return Outside(answers=recorded_answers(made))
        case _:
            return None
