"""Cases: which numbered cases of a system are covered by a test, so that a reader can see that none was forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from actors.core.view import View
from actors.squeeze.decide import Ask
from protocol.errors import BudgetRefused
from protocol.facts import HistoryCut, HistoryDigested
from protocol.formats.validate import problems
from protocol.policy import Policy
from tests.builders import Talk, sample

Test = TypeVar("Test", bound=Callable[..., Any])


class Cases:
    """The cases of one system, each by its letter and number."""

    def __init__(self, **numbers: int) -> None:
        """Expect the cases 1 to the number of each letter."""
        self.expected = frozenset(f"{letter}{at}" for letter, most in numbers.items() for at in range(1, most + 1))
        self.covered: set[str] = set()

    def of(self, *cases: str) -> Callable[[Test], Test]:
        """Mark a test as the one of *cases*."""
        assert self.expected.issuperset(cases), f"no such cases: {set(cases) - self.expected}"
        self.covered.update(cases)
        return lambda test: test


def lightened_sample(wanted: Policy, *, answer: str | Callable[[Ask], str] = "", refused: int = 0) -> Talk:
    """Play the recorded run under *wanted*, judge the view after each message; at most *refused* may be refused."""
    talk = Talk(wanted)
    talk.answer = answer
    newest = refusals = 0
    for number, message in enumerate(sample(), 1):
        talk.play(message)
        newest = number if message["role"] == "user" else newest
        try:
            shown = talk.view()
        except BudgetRefused:
            refusals += 1
            continue
        judge(shown, within=talk.state.usable_tokens, last_user=newest)
    compactions = [fact for fact in talk.facts if isinstance(fact, HistoryDigested | HistoryCut)]
    assert len(compactions) >= 3, "the window is too large to say anything"
    assert refusals <= refused
    return talk


def judge(shown: View, *, within: int, last_user: int) -> None:
    """Assert what holds for every view: legal, within its budget, in order, the last user message there once."""
    assert problems([json.loads(raw) for raw in shown.messages]) == []
    assert shown.tokens <= within
    assert list(shown.numbers) == sorted(set(shown.numbers))
    assert shown.numbers.count(last_user) == bool(last_user)
