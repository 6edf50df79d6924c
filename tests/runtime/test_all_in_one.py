"""One process in the role `all` does what the processes of all roles do."""

from __future__ import annotations

import asyncio

from actors.host.bootstrap import Runtime, work
from protocol.client import Client
from protocol.facts import ContextServed, HistoryDigested
from tests.conftest import chatter, done_facts, layer, served


async def test_one_process_in_the_role_all_compacts_and_answers(running: Runtime, client: Client, name: str) -> None:
    working = asyncio.create_task(work(running, ("all",)))
    try:
        await served(running)
        talk = await client.open(name, policy=layer(window=4_000))
        await talk.append(chatter(60))
        assert (await talk.context(patience=180)).tokens <= 4_000
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    kinds = {type(fact) for fact in done_facts(await running.log.read(talk.at, after=0))}
    assert {HistoryDigested, ContextServed} <= kinds
