"""Of a view that goes on as the one before only what is new is sent."""

from __future__ import annotations

import asyncio

from actors.core.running_hash import RunningHash
from actors.host.settings import Settings
from protocol.client import Client
from protocol.ids import fresh_id
from protocol.jsonbytes import decode
from protocol.service_messages import ContextAsked
from tests.conftest import at_work, chatter, layer


def test_the_last_two_arrays_are_remembered_by_their_hashes() -> None:
    running, items = RunningHash(), (b"1", b"2", b"3")
    first, second = running.of(items[:1]), running.of(items[:2])
    assert running.begins(items, first) == 1
    assert running.begins(items, second) == 2
    assert running.begins((b"0", *items), second) == 0
    assert running.of(items[:2]) == second
    assert running.begins(items, first) == 1
    running.of(items)
    assert running.begins(items, first) == 0


async def test_what_two_views_begin_with_is_sent_once(settings: Settings, client: Client) -> None:
    said = chatter(8, words=40)
    async with at_work(settings, ("spill", "digest", "squeeze", "cut")), asyncio.timeout(180):
        talk = await client.open(f"after-{fresh_id()}", policy=layer(window=4000))
        await talk.append(said[:3])
        first = await talk.context()
        await talk.append(said[3:5])
        second = await talk.context(after=first)
        assert (second.same, second.messages) == (3, said[:5])
        # who has none gets all of it, and another view than that which is named is never put before it
        assert (await talk.context()).messages == said[:5]
        other = await client.open(f"after-{fresh_id()}", policy=layer(window=4000))
        await other.append(said[5:7])
        assert (await other.context(after=second)).messages == said[5:7]
        # who says that nobody else spoke, and is wrong, gets at least what it said itself
        await (await client.open(str(talk.at.conversation), policy=layer(window=4000))).append(said[5:6])
        await talk.append(said[6:7])
        assert (await talk.context(after=second)).messages == said[:7]
        # what was compacted since begins otherwise
        await talk.append([*chatter(8, words=500)])
        third = await talk.context(after=second)
        assert third.compacted
        assert third.messages == (await talk.context()).messages


async def test_who_passes_a_view_on_gets_its_bytes_with_the_instructions(settings: Settings, client: Client) -> None:
    said = [{"role": "system", "content": "Be brief."}, *chatter(4, words=40)]
    async with at_work(settings, ("spill", "digest", "squeeze", "cut")), asyncio.timeout(180):
        policy = layer(window=4000, shape={"profile": "anthropic-messages"})
        talk = await client.open(f"after-{fresh_id()}", policy=policy)
        await talk.append(said[:4])
        first = await talk.written(ContextAsked(wait_seconds=180.0))
        await talk.append(said[4:6])
        second = await talk.written(ContextAsked(wait_seconds=180.0), after=first)
        assert second.same == 4
        assert [*map(decode, second.raw)] == said[:6]
