"""Every preset: on random conversations and small windows, its views are what every view must be."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.errors import BudgetRefused
from protocol.formats.validate import problems
from protocol.policy import resolve
from protocol.presets import PRESETS
from tests.builders import Talk
from tests.core.conversations import ANSWERS, conversations
from tests.laws import LAWS


@given(preset=st.sampled_from(sorted(PRESETS)), said=conversations(), answer=ANSWERS, window=st.integers(300, 20_000))
@settings(LAWS, max_examples=LAWS.max_examples // 3)
def test_views_are_legal_in_order_and_within_the_budget_or_refused(
    preset: str, said: list[dict[str, Any]], answer: str, window: int
) -> None:
    talk = Talk(resolve([{"preset": preset, "budget": {"window": window}, "squeeze": {"model": "m"}}]))
    talk.answer = answer
    for message in said:
        talk.play(message)
        try:
            shown = talk.view()
        except BudgetRefused:
            continue
        assert problems([json.loads(raw) for raw in shown.messages]) == []
        assert shown.tokens <= talk.state.usable_tokens
        assert list(shown.numbers) == sorted(set(shown.numbers))
