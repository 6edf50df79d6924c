"""A call that is repeated because nobody confirmed it, while other calls of the same conversation go on."""

from __future__ import annotations

import asyncio

import pytest

from actors.host.settings import Settings
from protocol.client import Client, Conversation
from protocol.errors import OutcomeUnknown
from protocol.ids import fresh_id
from protocol.limits import CLAIM_BYTES_MIN
from tests.conftest import Json, at_work, settled
from tests.protocol.test_client import said, user
from tests.protocol.test_client_outages import Proxy, proxied

ONE, TWO = user("one"), user("two")


async def unconfirmed(proxy: Proxy, talk: Conversation, new: list[Json]) -> None:
    """Append what nobody confirms, and let the server answer again."""
    talk.client.patience_seconds = 0.3
    proxy.answers.clear()
    with pytest.raises(OutcomeUnknown):
        await talk.append(new)
    proxy.answers.set()
    talk.client.patience_seconds = 30.0


async def heard(settings: Settings, talk: Conversation) -> list[Json]:
    async with at_work(settings) as busy:
        await settled(busy, talk.at)
        return await said(busy, talk.at)


@pytest.mark.parametrize("confirmed_to", ["another", "the same call"])
async def test_an_append_that_another_call_confirmed_is_not_stored_again_when_it_is_repeated(
    settings: Settings, confirmed_to: str
) -> None:
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await client.open(f"repeated-{fresh_id()}")
        await unconfirmed(proxy, talk, [ONE])
        if confirmed_to == "another":
            await asyncio.create_task(talk.append([TWO]))
        await talk.append([ONE])
        assert await heard(settings, talk) == ([ONE, TWO] if confirmed_to == "another" else [ONE])


async def test_what_is_said_twice_on_purpose_after_something_else_is_stored_twice(settings: Settings) -> None:
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await client.open(f"twice-{fresh_id()}")
        await unconfirmed(proxy, talk, [ONE])
        # the agent did not repeat it, and went on
        await talk.append([TWO])
        await talk.append([ONE])
        assert await heard(settings, talk) == [ONE, TWO, ONE]


async def test_a_large_append_goes_on_where_it_broke_off_though_others_spoke_meanwhile(settings: Settings) -> None:
    large = [user(f"{number} " + "x" * (CLAIM_BYTES_MIN - 1_000)) for number in range(12)]
    failed, again = asyncio.Event(), asyncio.Event()

    async def append() -> None:
        with pytest.raises(OutcomeUnknown):
            await talk.append(large)
        failed.set()
        await again.wait()
        await talk.append(large)

    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await client.open(f"large-{fresh_id()}")
        client.patience_seconds = 0.3
        appending = asyncio.create_task(append())
        while talk._voice.count < 3:  # the opening and the first part are confirmed, the second part is on its way
            await asyncio.sleep(0)
        proxy.answers.clear()
        await failed.wait()
        proxy.answers.set()
        client.patience_seconds = 30.0
        await talk.append([TWO])
        again.set()
        await appending
        assert [one for one in await heard(settings, talk) if one != TWO] == large
