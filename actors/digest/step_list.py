"""Steps: those of an account within their room; they are made coarser or joined where it is used up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actors.core.account_text import JOINED_LEVEL, step_text
from actors.core.text.count import Count
from actors.core.text.excerpt import is_header
from protocol.account import AccountStep

from .account_steps import (
    MATTERS_WORTH,
    LevelChars,
    coarser,
    is_report,
    joined,
    pieces_of,
    with_reruns,
    without_older,
    without_task_list,
    worth,
)
from .hindsight import Hindsight

REPORTED = 0.7
"""Levels that a step is coarser, for a report behind it: that says what came of it."""

JOINED_MESSAGES = 16
"""Of the messages that one step stands for while others can be made coarser."""

SPOKEN_LATER = 20
"""Times later than others steps are joined in which the assistant told something."""

COARSENESS_MAX = 6.0

COARSENESS_STEP = 0.25


@dataclass(kw_only=True)
class AccountSteps:
    """The steps of an account that is being written, oldest first, with what each costs and is worth."""

    count: Count
    hindsight: Hindsight
    levels: Sequence[LevelChars]
    steps: list[AccountStep] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    worths: list[float] = field(default_factory=list)
    headers: dict[str, int] = field(default_factory=dict)
    """Names of columns, and the first step that has them."""
    tokens: int = 0
    """The sum of the sizes."""

    def add(self, step: AccountStep) -> None:
        """Let *step* be the newest; of calls that it made again, older ones tell little from now on."""
        ran = {act.call for older in self.steps for act in older.acts if act.outcome and older.level < JOINED_LEVEL}
        step = with_reruns(step, ran)
        for place, older in enumerate(self.steps):
            if (short := without_older(older, step)) is not older:
                self.put(slice(place, place + 1), short)
        self.put(slice(len(self.steps), len(self.steps)), step)

    def put(self, places: slice, step: AccountStep) -> None:
        """Let *step* stand for the steps at *places*."""
        size = self._size(step)
        self.tokens += size - sum(self.sizes[places])
        self.steps[places], self.sizes[places], self.worths[places] = [step], [size], [worth(step)]

    def forget_task_list(self) -> None:
        """Take the assistant's own list of tasks out of the steps: there is a newer one."""
        for place in reversed(range(len(self.steps))):
            step = without_task_list(self.steps[place])
            if step == self.steps[place]:
                continue
            if step.said or step.acts:
                self.put(slice(place, place + 1), step)
            else:
                self.tokens -= self.sizes[place]
                del self.steps[place], self.sizes[place], self.worths[place]

    def rewrite(self, room: int) -> None:
        """Make the steps coarser, the older the more, until they fit *room*; then join what only looked."""
        coarseness = 0.0
        while self.tokens > room and coarseness < COARSENESS_MAX:
            coarseness += COARSENESS_STEP
            last = max(1, len(self.steps) - 1)
            report = next((place for place in reversed(range(len(self.steps))) if is_report(self.steps[place])), 0)
            for place, step in enumerate(self.steps):
                if self.tokens <= room:
                    break
                age = (last - place) / last
                level = int(coarseness * (0.35 + 0.65 * age) - self.worths[place] + REPORTED * (place < report) + 0.5)
                if level > step.level:
                    short = coarser(step, min(level, JOINED_LEVEL - 1), self.hindsight, self.levels)
                    self.put(slice(place, place + 1), short)
            self._join_looks(room)
        if self.tokens > room:
            self._join(room)

    def _join_looks(self, room: int) -> None:
        """Join neighbours that only looked and are as coarse as can be, up to a few messages together."""
        place = 0
        while place + 1 < len(self.steps) and self.tokens > room:
            one, other = self.steps[place : place + 2]
            coarse = min(one.level, other.level) >= JOINED_LEVEL - 1
            looked = max(self.worths[place : place + 2]) < MATTERS_WORTH
            if coarse and looked and other.last - one.first < JOINED_MESSAGES:
                self.put(slice(place, place + 2), joined((one, other), told=self._told(beside=place)))
            else:
                place += 1

    def _join(self, room: int) -> None:
        """Join neighbours, those first that stand for the fewest messages and only looked, and are old."""
        while len(self.steps) > 1 and self.tokens > room:
            last = len(self.steps)

            def price(place: int) -> float:
                one, other = self.steps[place], self.steps[place + 1]
                kept = max(sum(self.worths[place : place + 2]), SPOKEN_LATER * (not one.acts or not other.acts))
                return (other.last - one.first + 1) * (1 + 2 * kept) * (0.2 + place / last)  # noqa: B023

            place = min(range(len(self.steps) - 1), key=price)
            self.put(slice(place, place + 2), joined(self.steps[place : place + 2], told=self._told(beside=place)))

    def _told(self, *, beside: int) -> frozenset[str]:
        """Return what joined steps tell of what was said, but for the two at *beside*."""
        others = (*self.steps[:beside], *self.steps[beside + 2 :])
        return frozenset(piece for step in others for piece in pieces_of(step))

    def _size(self, step: AccountStep) -> int:
        """Return the tokens of a step; the names of columns that another one has cost hardly anything."""
        lines = step_text(step).split("\n")
        for place, line in enumerate(lines):
            if is_header(line) and self.headers.setdefault(line, step.first) != step.first:
                lines[place] = "(as above):"
        return self.count("\n".join(lines)) + 1
