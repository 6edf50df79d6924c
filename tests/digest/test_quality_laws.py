"""What must be remembered of the recorded sample, whatever the weights are: floors well below what is measured."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from statistics import fmean
from typing import Any

import pytest

from actors.core.entry import shown_message
from actors.core.extract import messages_text
from actors.core.ledger import LEDGER_CHARS_MAX, LEDGER_ITEMS_MAX, Ledger
from protocol.facts import DigestItem, HistoryDigested
from protocol.formats import messages
from protocol.policy import resolve
from tests.builders import Talk, sample
from tests.programs.quality.lived import Run, lived, row
from tests.score_adapter import Jettison

FACTS = (
    "OPS-4312", "/srv/ledger", "83c4568", "OPS-4207", "ORD-C374EA92", "WEB-000060", "2c68f55c2e45f3ff",
    "ch_1e8bbe6865", "ch_4f28d0155f", "18af72a", "777fdaa", "528764f", "c8f7f59", "PG-2023-118",
    "gateway.timeout_ms", "ORD-E329BABA", "BANK-5521", "DATA-207", "f171afffb8d62437", "ORD-42270567",
)  # fmt: skip
"""What the sample's users and its last answers turn on: ticket, orders, charges, traces, commits, settings."""

CYCLES_MIN = 20


@cache
def run(budget_tokens: int) -> Run:
    return lived(sample(), Jettison(budget_tokens), budget_tokens)


def offline(window: int, **sections: Mapping[str, Any]) -> Talk:
    return Talk(resolve([{"budget": {"window": window, "reserve": 0}}, sections]))


def remembered(talk: Talk) -> str:
    view = "\n".join(messages_text(messages.decode(raw)) for raw in talk.view().messages)
    return "\n".join((view, *(item.value for item in talk.state.ledger)))


def test_the_facts_of_the_sample_are_in_the_view_or_the_ledger_at_every_turn_after_they_were_said() -> None:
    talk = offline(8_000)
    lost = []
    said: set[str] = set()
    for number, message in enumerate(sample(), 1):
        talk.play(message)
        if message["role"] != "tool":
            said |= {fact for fact in FACTS if fact in messages_text(message)}
        if message["role"] == "assistant" or talk.state.exchange.open_calls:
            continue  # nobody asks for a view between a call and its results
        now = remembered(talk)
        lost += [(number, fact) for fact in said if fact not in now]
    assert said == set(FACTS)
    assert lost == []


@pytest.mark.parametrize(("window", "ratio"), [(1_500, 0.95), (3_000, 0.5), (6_000, 0.4)])
def test_twenty_compactions_in_a_row_lose_no_entry_of_the_ledger_that_was_not_superseded(
    window: int, ratio: float
) -> None:
    talk = offline(window, trigger={"ratio": ratio}, target={"low_water": 0.2, "min_gain": 0.0}, digest={"cap": 0.15})
    ledger: Ledger = ()
    for message in sample():
        talk.play(message)
        now = talk.state.ledger
        assert len(now) < LEDGER_ITEMS_MAX
        assert sum(len(item.value) for item in now) < LEDGER_CHARS_MAX
        there = {(item.category, item.value) for item in now}
        lost = [item for item in ledger if (item.category, item.value) not in there]
        assert [item for item in lost if not excused(item, now)] == []
        ledger = now
    assert sum(isinstance(fact, HistoryDigested) for fact in talk.facts) >= CYCLES_MIN


def excused(item: DigestItem, now: Ledger) -> bool:
    """Tell whether *item* left for a reason: answered, replaced by a newer value, or its file is no longer there."""
    if item.category == "request":
        return any(one.category == "answered" and one.value == item.value for one in now)
    if item.category == "path" and any(one.category == "moved" and item.value in one.value for one in now):
        return True
    return bool(item.key) and any(
        one.category == item.category and one.key == item.key and one.number > item.number for one in now
    )


@pytest.mark.parametrize(
    ("budgets", "far", "sent", "busts"),
    [((7_000, 8_000, 9_000), 0.66, 0.4, 41.0), ((30_000, 32_000, 34_000, 36_000), 0.9, 0.8, 9.0)],
)
def test_what_is_used_next_is_mostly_there_and_little_is_sent(
    budgets: tuple[int, ...], far: float, sent: float, busts: float
) -> None:
    rows = [row("jettison", budget, [run(budget)]) for budget in budgets]
    # three of 152 values, and one rewritten beginning of 53 turns, come and go with the window
    assert fmean(found.far_share for found in rows) > far
    assert fmean(found.busts_per_100 for found in rows) < busts
    for found in rows:
        assert found.turns == 53
        assert found.far_behind_share == pytest.approx(1.0, abs=0.005)
        assert found.sent_share < sent
        assert (found.illegal, found.over_budget, found.task_lost) == (0, 0, 0)


def test_the_same_run_gives_the_same_figures() -> None:
    assert lived(sample(), Jettison(8_000), 8_000) == run(8_000)


def test_the_sample_is_compacted_without_the_instructions_being_shortened() -> None:
    talk = offline(8_000)
    talk.append(*sample())
    talk.settle()
    assert messages_text(shown_message(talk.state.live[0])) == messages_text(sample()[0])
