"""Worked: what the workers of this process did since somebody asked last, in a line that people read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from protocol.semconv import Outcome
from protocol.subjects import ACTORS, Actor


@dataclass
class _Work:
    outcomes: Counter[str] = field(default_factory=Counter)
    removed_tokens: int = 0
    slowest_seconds: float = 0.0


class Worked:
    """Adds up steps until they are drained."""

    def __init__(self) -> None:
        self._by_actor: dict[Actor, _Work] = {}

    def add(self, actor: Actor, outcome: Outcome, *, seconds: float, removed: int) -> None:
        """Add one step, which took so many tokens out of a view."""
        work = self._by_actor.setdefault(actor, _Work())
        work.outcomes[outcome] += 1
        work.removed_tokens += removed
        work.slowest_seconds = max(work.slowest_seconds, seconds)

    def drained(self) -> list[str]:
        """Return a line for each actor that did something, and begin anew."""
        done, self._by_actor = self._by_actor, {}
        return [_line(actor, done[actor]) for actor in ACTORS if actor in done]


def _line(actor: Actor, work: _Work) -> str:
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(work.outcomes.items()))
    steps = work.outcomes.total()
    left = f"; {work.removed_tokens:,} tokens left views" if work.removed_tokens else ""
    return f"{actor}: {steps:,} steps ({outcomes}), the slowest {work.slowest_seconds:.1f} s{left}"


WORKED = Worked()
"""Of this process: all its workers add to it, and `jettison worker` and `up` print it."""
