"""Control over the wire: hooks, reminder, what a provider counted and what it refused, and the policy's refusals."""

from __future__ import annotations

import json

import msgspec
import pytest

from actors.audit.replay import replay
from actors.host.bootstrap import Runtime
from protocol.client import Client, Conversation
from protocol.errors import BudgetRefused
from protocol.facts import HistoryDigested, HookFired
from tests.conftest import chatter, done_facts, layer, settled


async def spoken(talk: Conversation, turns: int) -> None:
    """Say *turns* messages and their answers, with a context after each."""
    said = chatter(turns)
    for index in range(0, len(said), 2):
        await talk.append(said[index : index + 2])
        await talk.context(patience=180)


async def test_hooks_note_call_and_compact_and_the_log_says_what_they_did(
    working: Runtime, client: Client, name: str
) -> None:
    hooks = [
        {
            "id": "tests",
            "on": "turn_start",
            "when": {"kind": "turns", "every": 3},
            "do": {"kind": "inject", "text": "RUN"},
        },
        {"id": "page", "when": {"kind": "turns", "at_least": 4}, "do": {"kind": "call", "name": "pager"}, "most": 1},
        {"id": "early", "when": {"kind": "turns", "at_least": 1}, "do": {"kind": "compact"}, "most": 1},
        {"id": "late", "when": {"kind": "pressure", "at_least": 0.6}, "do": {"kind": "compact"}, "most": 1},
    ]
    calls = await client.connection.subscribe(f"ctx.v1.hook.default.{name}.*")
    talk = await client.open(name, policy={**layer(window=4000), "hooks": hooks})
    await spoken(talk, 14)
    called = await calls.next_msg(timeout=180)
    assert called.subject.endswith(".pager")
    assert msgspec.json.decode(called.data)["hook"] == "page"
    await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)
    facts = done_facts(records)
    fired = [(fact.hook, fact.action, fact.detail) for fact in facts if isinstance(fact, HookFired)]
    assert ("tests", "inject", "") in fired
    assert [one for one in fired if one[0] == "page"] == [("page", "call", "pager")]
    idle = next(detail for hook, _, detail in fired if hook == "early")
    assert idle.endswith("tokens are not above the target of 1,200")
    assert ("late", "compact", "") in fired
    digested = [fact for fact in facts if isinstance(fact, HistoryDigested)]
    assert digested[0].boundary < 20, "far below the trigger of 95 %"
    assert any("RUN" in json.dumps(message) for message in (await talk.context()).messages)
    assert replay(talk.at, records).divergence is None


async def test_what_a_provider_counts_and_refuses_makes_the_next_view_fit_it(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer(budget={"window": 8000, "reserve": 0, "calibrate": "tighten"}))
    await spoken(talk, 12)
    before = await talk.context()
    assert before.tokens > 2_000
    error = (
        f"This model's maximum context length is 2000 tokens. However, your messages resulted in "
        f"{before.tokens * 2} tokens. Please reduce the length of the messages."
    )
    await talk.report_overflow(view_hash=before.hash, message=error)
    after = await talk.context(patience=180)
    assert (after.budget, after.tokens <= 1_000) == (1_000, True), "the window it named, each token counted double"
    await talk.report_usage(input_tokens=after.tokens, view_hash=after.hash)
    learned = await talk.context(patience=180)
    assert learned.budget == 1_333, "the ratio is the mean of what was told"


async def test_after_a_compaction_an_agent_is_reminded_of_its_tools(
    working: Runtime, client: Client, name: str
) -> None:
    tools = [{"name": "kubectl_get", "about": "read what runs"}]
    talk = await client.open(name, policy=layer(window=6000, reminder={"mode": "tools", "tools": tools, "cap": 0.2}))
    await spoken(talk, 40)
    view = (await talk.context()).messages
    reminders = [
        str(message["content"]) for message in view if "- kubectl_get: read what runs" in str(message["content"])
    ]
    assert len(reminders) == 1


async def test_a_policy_that_drops_nothing_refuses_with_names_and_goes_on_listening(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer(window=4000, digest={"mode": "off"}, cut={"mode": "off"}))
    await talk.append([{"role": "system", "content": "You are careful."}])
    with pytest.raises(BudgetRefused, match=r"what must stay needs .* tokens, the budget is .*; largest: message"):
        await spoken(talk, 60)
    state = await settled(working, talk.at)
    await talk.append([{"role": "user", "content": "still heard"}])
    assert (await settled(working, talk.at)).messages == state.messages + 1
