"""The provider of the soak: strict, with a small window, and at times slow to end an answer."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from tests.gateway.model import Reply
from tests.gateway.provider import Answer, Asked
from tests.programs.gateway_faults import model

WINDOW = 32_000
ENDS_EVERY = 12
"""Turns after which the model has seen enough, and its agent says what comes next."""

SLOW_SHARE, SLOW_SECONDS = 0.1, 8.0
"""Of the answers, and in their middle; the others take a moment."""

QUICK_SECONDS = 0.5


def replies(run: str, place: int) -> Reply:
    """Return what the model says."""
    turn = place // 10
    if turn % ENDS_EVERY == 0:
        return Reply(text=f"Turn {turn} of {run} is done.", thinks=f"thought {turn}")
    return model.replies(run, place)


@dataclass(kw_only=True)
class SlowModel(model.FaultyModel):
    """A strict model some of whose answers take long."""

    rng: random.Random = field(default_factory=lambda: random.Random(17))

    def __call__(self, asked: Asked) -> Answer:
        answer = super().__call__(asked)
        is_slow = self.rng.random() < SLOW_SHARE
        self.done["slow"] += is_slow
        middle = len(answer.pieces) // 2
        seconds = SLOW_SECONDS if is_slow else self.rng.uniform(0, QUICK_SECONDS)
        return replace(answer, pieces=(*answer.pieces[:middle], seconds, *answer.pieces[middle:]))
