"""Act of squeeze: carry its questions to a model, and keep what came of each until its fact is in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from cachetools import LRUCache

from actors.core.seal import Step
from actors.core.state import State
from actors.core.text.count import Count
from protocol.errors import ModelUnavailable, Rejected
from protocol.facts import CompactionDeclined, DoneFact, StageFailed
from protocol.ids import Address

from .decide import squeeze
from .model import Model
from .questions import Ask, Completion, paid
from .sizes import deadline_seconds, fits

OUTCOMES_MAX = 1024
"""Answers kept for their commit: more than the slots that one worker holds at once, times their requests."""


@dataclass(kw_only=True)
class Asking:
    """One process's questions."""

    model: Model | None = None
    outcomes: LRUCache[tuple[str, int], Completion | CompactionDeclined | StageFailed] = field(
        default_factory=lambda: LRUCache(OUTCOMES_MAX)
    )
    """What asking came to and may not be committed yet, by the id and the boundary of the request."""

    async def step(self, at: Address, state: State, *, count: Count, release_credit: Callable[[], None]) -> Step:
        """Return the fact that ends squeeze on *state*, after as many questions as it takes; none if not asked."""
        return Step(facts=await self.facts(state, count=count))

    async def facts(self, state: State, *, count: Count) -> tuple[DoneFact, ...]:
        """Return the facts of `step`."""
        # every walk counts the same pieces again
        count = cache(count)
        ends = asyncio.get_running_loop().time() + (deadline_seconds(state) if state.policy else 0)
        answers: tuple[Completion, ...] = ()
        # what became of the digest's values is looked for in all that stays, which takes tens of milliseconds
        while isinstance(found := await asyncio.to_thread(squeeze, state, answers, count=count), Ask):
            outcome = self.outcomes.get((found.id, found.boundary)) or await self._outcome(state, found, answers, ends)
            # kept, failed or not: whoever commits first in between (an agent is served) costs no second call
            self.outcomes[found.id, found.boundary] = outcome
            if not isinstance(outcome, Completion):
                return (outcome,)
            answers = (*answers, outcome)
        return (found,) if found else ()

    async def _outcome(
        self, state: State, asked: Ask, before: tuple[Completion, ...], ends: float
    ) -> Completion | CompactionDeclined | StageFailed:
        assert state.policy is not None
        if self.model is None:
            reason = "this worker has no model endpoint configured"
            return CompactionDeclined(boundary=asked.boundary, stage="squeeze", reason=reason)
        left = round(max(0.0, ends - asyncio.get_running_loop().time()), 1)
        try:
            return await self.model.answer(asked, deadline_seconds=left, attempts=state.policy.squeeze.attempts)
        except (ModelUnavailable, Rejected) as error:
            spent = paid(before)
            spent["attempts"] += int(str(error.fields.get("attempts", 1)))
            if error.fields.get("rate_limited") and fits(state):
                reason = "rate limited; the context still fits"
                return CompactionDeclined(boundary=asked.boundary, stage="squeeze", reason=reason, **spent)
            return StageFailed(boundary=asked.boundary, stage="squeeze", error=f"{error}"[:200], **spent)
