"""Budgets: the standing one is what compacts; one that a call names is for that call."""

from __future__ import annotations

import asyncio

import pytest

from actors.audit.versions import served_context
from actors.host.bootstrap import Runtime
from protocol.client import Client
from protocol.errors import BudgetRefused
from protocol.facts import ContextServed, HistoryCut, HistoryDigested
from protocol.formats.validate import problems
from tests.conftest import SAMPLE, chatter, done_facts, layer, settled


async def compactions(running: Runtime, at: object) -> int:
    records = await running.log.read(at, after=0)  # type: ignore[arg-type]
    return sum(isinstance(fact, HistoryCut | HistoryDigested) for fact in done_facts(records))


async def test_a_small_budget_serves_one_call_and_compacts_nothing(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(SAMPLE[:31])
    before = await talk.context()
    small = await talk.context(budget=400)
    after = await talk.context()
    assert (small.tokens <= small.budget == 400, small.standing) == (True, before.budget)
    assert problems(small.messages) == []
    assert after.messages == before.messages
    assert await compactions(working, talk.at) == 0


async def test_the_answer_says_what_was_left_out(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(chatter(10))
    small = await talk.context(budget=900)
    whole = await talk.context()
    left = 20 - len(small.messages)
    assert (small.left_out, small.shortened) == (f"1-{left}", "")
    assert small.messages == whole.messages[left:]
    assert (whole.left_out, whole.shortened) == ("", "")
    tiny = await talk.context(budget=60)
    assert (tiny.left_out, tiny.shortened) == ("1-18", "19-20")


async def test_what_one_call_asked_for_is_recorded_and_rebuilt(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(chatter(10))
    small = await talk.context(budget=900)
    records = await working.log.read(talk.at, after=0)
    fact = next(fact for fact in done_facts(records) if isinstance(fact, ContextServed))
    assert (fact.asked, fact.budget) == (900, 900)
    rebuilt = served_context(talk.at, records, version=small.version)
    assert (rebuilt.same, rebuilt.view.hash if rebuilt.view else "") == (True, small.hash)


async def test_the_same_budget_twice_in_a_row_stands(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(chatter(20))
    for budget in (1_500, 3_000):
        await talk.context(budget=budget)
        assert (await talk.context()).budget == 60_000, "once each is no habit"
    await talk.context(budget=2_000)
    twice = await talk.context(budget=2_000)
    assert (twice.budget, twice.standing) == (2_000, 2_000)
    assert (await talk.context()).budget == 2_000
    assert await compactions(working, talk.at) > 0


async def test_who_opens_anew_for_each_call_is_understood_too(working: Runtime, client: Client, name: str) -> None:
    for turn in chatter(12):
        talk = await client.open(name, policy=layer(window=60_000))
        await talk.append([turn])
        assert (await talk.context(budget=900)).tokens <= 900
    assert (await talk.context()).budget == 900
    await settled(working, talk.at)
    assert await compactions(working, talk.at) > 0


async def test_the_standing_budget_is_given_to_open_or_set(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000), budget=2_000)
    await talk.append(chatter(20))
    assert (await talk.context()).budget == 2_000
    other = await client.open(name)
    assert (await other.context()).budget == 2_000
    await other.set_budget(5_000)
    assert ((await other.context()).budget, (await talk.context(budget=50_000)).budget) == (5_000, 5_000)
    await other.set_budget(0)
    assert (await other.context()).budget == 60_000


async def test_a_refusal_names_the_smallest_budget_that_works(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([{"role": "system", "content": "Never guess. " * 9}, {"role": "user", "content": "Why? " * 60}])
    with pytest.raises(BudgetRefused, match=r"what must stay needs \d+ tokens, the budget is 5; largest: ") as refused:
        await talk.context(budget=5)
    least = refused.value.fields["tokens"]
    assert isinstance(least, int)
    with pytest.raises(BudgetRefused):
        await talk.context(budget=least - 1)
    assert (await talk.context(budget=least)).tokens <= least
    whole = await talk.context()
    assert whole.level == "none", "whatever was refused before"
    with pytest.raises(BudgetRefused):
        await asyncio.wait_for(talk.context(budget=5), 180)
