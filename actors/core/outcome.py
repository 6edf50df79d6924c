"""Outcome: how a step ended, for spans, metrics and audit alike."""

from __future__ import annotations

from collections.abc import Sequence

from protocol.facts import CompactionDeclined, DoneFact, StageFailed
from protocol.semconv import Outcome

from .known_facts import known


def outcome_of(facts: Sequence[DoneFact], *, landed: bool = True) -> Outcome:
    """Return how the step of *facts* ended; not *landed*: another writer was faster."""
    if not landed:
        return "rejected"
    if any(isinstance(fact, StageFailed) for fact in facts):
        return "failed"
    if any(known(fact).tokens != "same" for fact in facts):
        return "applied"
    declined = [fact for fact in facts if isinstance(fact, CompactionDeclined)]
    if any(fact.attempts for fact in declined):
        return "rejected"  # a model answered, and its answer was refused
    return "declined" if declined else "noop"
