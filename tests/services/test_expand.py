"""An agent asks for what left its view, over the wire."""

from __future__ import annotations

import json

import pytest

from actors.audit.replay import replay
from actors.host.bootstrap import Runtime
from protocol.client import Client
from protocol.errors import BudgetRefused, NotFound, Rejected
from tests.conftest import chatter, layer, settled


async def test_an_agent_has_digested_messages_put_back(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer(window=4000))
    said = chatter(24)
    for index in range(0, len(said), 2):
        await talk.append(said[index : index + 2])
        await talk.context()
    before = await settled(working, talk.at)
    assert before.digest is not None
    with pytest.raises(BudgetRefused, match="tokens more") as refused:
        await talk.expand(messages="1-40")
    assert refused.value.fields["budget"] == before.usable_tokens
    found = await talk.expand(messages="3-3")
    assert (found.restored, found.before_tokens) == ((3,), before.live_tokens)
    context = await talk.context()
    assert said[2]["content"] in json.dumps(context.messages)
    again = await talk.expand(messages="3-3")
    assert (again.restored, again.before_tokens) == ((), again.after_tokens)
    assert replay(talk.at, await working.log.read(talk.at, after=0)).divergence is None


async def test_a_wish_that_makes_no_sense_is_refused(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append(chatter(1))
    await talk.context()
    for wish, error in (
        ({}, Rejected),
        ({"messages": "1", "artifact": "ab"}, Rejected),
        ({"messages": "9-1"}, Rejected),
        ({"messages": "\ud800"}, Rejected),
        ({"messages": "50-60"}, NotFound),
        ({"artifact": "../other"}, NotFound),
    ):
        with pytest.raises(error):
            await talk.expand(**wish)
