"""Policies: what is refused or not known is said to who asked, and a change is a fact with a version."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from actors.audit.replay import replay
from actors.audit.versions import versions
from actors.cli.inspect import facts_told
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.client import Client
from protocol.errors import BadPolicy, PolicyDiffers
from protocol.facts import HistoryCut, HistoryDigested, PolicySet
from protocol.ids import address, fresh_id
from tests.cli.test_cli import jettison
from tests.conftest import chatter, done_facts, layer, settled


async def test_a_policy_that_cannot_be_used_is_refused_to_who_opens(
    working: Runtime, client: Client, name: str
) -> None:
    with pytest.raises(BadPolicy, match="leave no token of the window") as refused:
        await client.open(name, policy={"budget": {"window": 100, "reserve": 100}})
    assert refused.value.fields["key"] == "budget"
    assert await working.log.read(address(name), after=0) == [], "nothing was changed"
    with pytest.raises(BadPolicy, match=r"low_water \(0\.9\) must not be above trigger\.ratio \(0\.5\): set both"):
        await client.open(name, policy={"target": {"low_water": 0.9}, "trigger": {"ratio": 0.5}})


async def test_another_policy_is_refused_and_the_same_is_not(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=9_000))
    await talk.append(chatter(1))
    await talk.context()
    for same in ({}, layer(window=9_000), {"budget": {"window": "9000"}}, {"cut": {"mode": "on"}}):
        again = await client.open(name, policy=same)
        assert (await again.context()).budget == 9_000
    with pytest.raises(PolicyDiffers, match=r"has another policy than it is opened with \(budget.window\)") as refused:
        await client.open(name, policy=layer(window=8_000))
    assert refused.value.fields["key"] == "budget.window"
    with pytest.raises(PolicyDiffers):
        await client.open(name, policy={"preset": "holmes"})


async def test_a_model_that_nobody_knows_is_warned_of_once(
    working: Runtime, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    model = f"nobody-{fresh_id()}"
    with caplog.at_level(logging.WARNING, "jettison"):
        for number in range(3):
            await client.open(f"{name}-{number}", model=model)
        await client.open(f"{name}-known", model=model, policy=layer(window=9_000))
    told = [record.getMessage() for record in caplog.records if model[:20] in record.getMessage()]
    assert len(told) == 1
    assert "128,000 tokens are assumed: set budget.window" in told[0]


async def test_a_changed_policy_holds_from_its_version_on(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(chatter(20))
    before = await talk.context()
    changed = await talk.set_policy({"budget": {"window": 2_000}}, by="a test")
    assert changed.keys == ("budget.window",)
    after = await talk.context()
    assert (before.budget, after.budget, before.version < changed.version < after.version) == (60_000, 2_000, True)
    state = await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)
    facts = done_facts(records)
    assert [fact.by for fact in facts if isinstance(fact, PolicySet)] == ["a test"]
    assert any(isinstance(fact, HistoryDigested | HistoryCut) for fact in facts)
    assert state.live_tokens <= 2_000
    assert (replay(talk.at, records).divergence, replay(talk.at, records).hash) == (None, state.hash.hex())
    (row,) = [row for row in versions(talk.at, records) if row.version == changed.version]
    assert (row.stage, row.reasons) == ("policy", ("set by a test: budget.window",))
    assert (await talk.set_policy({"budget": {"window": 2_000}})).keys == (), "twice is once"
    assert (await client.open(name, policy=layer(window=2_000))).at == talk.at


async def test_messages_that_come_while_a_policy_changes_are_folded_alike_by_all(
    working: Runtime, settings: Settings, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer(window=30_000))
    other = await client.open(name)
    await talk.append(chatter(2))
    await talk.context()

    async def speak() -> None:
        for turn in chatter(30):
            await other.append([turn])

    async def change() -> None:
        for window in (9_000, 1_500, 20_000, 3_000, 12_000):
            await talk.set_policy({"budget": {"window": window}})

    await asyncio.gather(speak(), change())
    state = await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)
    found = replay(talk.at, records)
    assert (found.divergence, found.hash, found.tokens) == (None, state.hash.hex(), state.live_tokens)
    assert (await talk.context()).budget == 12_000


async def test_an_operator_sets_it_from_a_shell(
    working: Runtime, settings: Settings, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer(window=60_000))
    await talk.append(chatter(2))
    await talk.context()
    stack = ("--nats", settings.nats.url, "--json")
    done = await asyncio.to_thread(jettison, "policy", "set", name, "budget.window=2000", "cut.mode=off", *stack)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["keys"] == ["budget.window", "cut.mode"]
    assert (await talk.context()).budget == 2_000
    refused = await asyncio.to_thread(jettison, "policy", "set", name, "cut.mode=sometimes", *stack)
    assert (refused.returncode, "allowed: off, on" in refused.stderr) == (1, True), refused.stderr
    rows = [row["fact"] for record in await working.log.read(talk.at, after=0) for row in facts_told(record)]
    assert [row for row in rows if row.startswith("Policy")] == ["PolicyAdopted", "PolicyAdopted", "PolicySet"]
