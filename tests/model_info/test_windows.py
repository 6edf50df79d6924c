"""Windows come from a maintained table; an unknown model is said, never guessed in silence."""

import json

import pytest

from actors.host.bootstrap import Runtime
from actors.model_info.windows import window_of
from protocol import codec
from protocol.client import Client
from protocol.errors import BadPolicy
from protocol.facts import MessageRepaired
from tests.conftest import settled


@pytest.mark.parametrize(
    ("model", "tokens"), [("gpt-4o", 128_000), ("openai/gpt-4o", 128_000), ("claude-sonnet-4-5", 200_000)]
)
def test_known_models_have_their_window(model: str, tokens: int) -> None:
    assert window_of(model) == tokens


@pytest.mark.parametrize("model", ["", "nobody-knows-1", "…"])
def test_unknown_models_have_none(model: str) -> None:
    assert window_of(model) is None


async def test_a_conversation_has_the_window_of_its_model(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, model="claude-sonnet-4-5")
    await talk.append([{"role": "user", "content": "hi"}])
    assert (await talk.context()).budget == 200_000 - 4_096
    assert (await talk.context(model="gpt-4o")).budget == 128_000 - 4_096


async def test_an_unknown_model_is_noted_in_the_log(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, model="nobody-knows-1")
    await settled(working, talk.at)
    records = await working.log.read(talk.at, after=0)
    facts = [fact for one in records if one.side == "done" for fact in codec.decode_commit(one.body).facts]
    assert any(isinstance(fact, MessageRepaired) and "nobody-knows-1" in fact.detail for fact in facts)


@pytest.mark.parametrize("policy", [{"budgt": {}}, {"budget": {"window": "many"}}, {"spill": {"pct": 1}}])
async def test_a_policy_that_cannot_be_read_is_refused_at_the_client(
    client: Client, name: str, policy: dict[str, object]
) -> None:
    with pytest.raises(BadPolicy):
        await client.open(name, policy=policy)


async def test_a_small_window_without_a_reserve_keeps_most_of_itself(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=json.loads('{"budget": {"window": 4000}}'))
    await talk.append([{"role": "user", "content": "hi"}])
    assert (await talk.context()).budget == 3_000
