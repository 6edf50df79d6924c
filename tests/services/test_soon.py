"""An agent that asks soon gets what stood before a compaction, where that fits: it waits for nobody who calculates."""

from __future__ import annotations

import asyncio
from threading import Lock

from msgspec.structs import replace

from actors.core.state import State
from actors.digest.decide import digest
from actors.host.settings import Settings
from actors.runtime.registry import Deciding
from actors.services.serving import fits_as_it_is
from protocol import policy as policies
from protocol.client import Client
from protocol.facts import CompactionDeclined, ContextServed
from protocol.ids import address, fresh_id
from protocol.service_messages import ContextAsked
from tests.builders import AT, COUNT, Talk, policy, sample
from tests.conftest import at_work, chatter, layer

TRIGGER = {"trigger": {"ratio": 0.5}}
TURNS = 8


def at_digest() -> Talk:
    talk = Talk(policy(2000, **TRIGGER))
    talk.append(*chatter(TURNS, words=20))
    talk.until("digest")
    return talk


def test_what_fits_whole_is_shown_while_a_compaction_is_under_way_that_the_trigger_began() -> None:
    state = at_digest().state
    assert state.episode is not None
    assert fits_as_it_is(ContextAsked(), state)
    assert not fits_as_it_is(ContextAsked(budget=state.live_tokens - 1), state)
    refused = replace(state, agenda=replace(state.agenda, episode=replace(state.episode, cause="overflow")))
    assert not fits_as_it_is(ContextAsked(), refused)


async def test_a_view_that_is_served_meanwhile_makes_nobody_decide_again() -> None:
    talk, asked = at_digest(), list[State]()

    def rule(state: State, *, count: object) -> tuple[CompactionDeclined]:
        asked.append(state)
        return (CompactionDeclined(boundary=1, stage="digest", reason=f"asked {len(asked)} times"),)

    deciding = Deciding(rule=rule, beside_the_loop=True)

    async def decided() -> str:
        step = await deciding.step(AT, talk.state, count=COUNT, release_credit=lambda: None)
        return step.facts[0].reason  # type: ignore[union-attr]

    assert await decided() == "asked 1 times"
    served = ContextServed(upto=3, budget=2000, profile="openai-chat", view_hash="", tokens=9, level="none")
    talk.land(talk.sealed((served,)))
    talk.append({"role": "user", "content": "And now?"})
    assert await decided() == "asked 1 times"
    talk.settle()
    assert await decided() == "asked 2 times"


async def test_beside_the_loop_one_calculates_after_the_other() -> None:
    """Two would hand the interpreter to each other, and the loop that serves views waits for both."""
    state, calculating, most = at_digest().state, Lock(), list[bool]()

    def rule(state: State, *, count: object) -> tuple[CompactionDeclined]:
        most.append(alone := calculating.acquire(blocking=False))
        for _ in range(100):
            digest(state, count=COUNT)  # hands the interpreter over now and then
        if alone:
            calculating.release()
        return (CompactionDeclined(boundary=1, stage="digest", reason="no"),)

    deciding = Deciding(rule=rule, beside_the_loop=True)
    places = [address(f"a{number}") for number in range(4)]
    await asyncio.gather(*(deciding.step(at, state, count=COUNT, release_credit=lambda: None) for at in places))
    assert most == [True] * 4


def test_digest_looks_at_nothing_but_what_its_decision_is_known_by() -> None:
    told = policies.resolve([{"budget": {"window": 3000, "reserve": 0}}])
    for wanted in (policy(3000), told):
        talk, empty, compactions = Talk(wanted), Talk(wanted).state, 0
        for message in sample():
            talk.append(message)
            while (commit := talk.decided()) is not None:
                state = talk.state
                if state.episode is not None and state.episode.stage == "digest":
                    agenda = replace(empty.agenda, episode=state.episode)
                    bare = replace(empty, terms=state.terms, shown=state.shown, agenda=agenda)
                    assert digest(bare, count=COUNT) == commit.facts
                    compactions += 1
                talk.land(commit)
        assert compactions > 2


async def test_it_is_served_where_nobody_compacts(settings: Settings, client: Client) -> None:
    said = chatter(TURNS)
    async with at_work(settings, ("spill", "cut")) as running:
        talk = await client.open(f"soon-{fresh_id()}", policy=layer(window=4000, **TRIGGER))
        await talk.append(said)
        async with asyncio.timeout(180):
            seen = await talk.context(soon=True, patience=300)
        assert (await running.conversations.load(talk.at)).episode is not None
    assert [message["content"] for message in seen.messages] == [message["content"] for message in said]
    assert seen.tokens <= seen.budget
