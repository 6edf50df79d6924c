"""Windows come from a maintained table; an unknown model is said, never guessed in silence."""

import json
import re

import pytest

from actors.host.bootstrap import Runtime
from actors.model_info.prices import price_of
from actors.model_info.windows import CORRECTED, FAMILIES, _in_table, window_found, window_of
from protocol import codec
from protocol.client import Client
from protocol.errors import BadPolicy
from protocol.facts import MessageRepaired
from tests.conftest import settled


def test_a_name_as_long_as_a_book_is_of_no_model_and_takes_no_time() -> None:
    assert window_of("gpt-9" + "-000" * 200_000 + "x") is None
    assert price_of("gpt-4o" * 200_000) is None


@pytest.mark.parametrize(
    ("model", "tokens"), [("gpt-4o", 128_000), ("openai/gpt-4o", 128_000), ("claude-sonnet-4-5", 200_000)]
)
def test_known_models_have_their_window(model: str, tokens: int) -> None:
    assert window_of(model) == tokens


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        # Digitorn's table of known windows
        ("deepseek-chat", 131_072), ("gpt-4o", 128_000), ("gpt-4o-mini", 128_000), ("o3", 200_000),
        ("o3-mini", 200_000), ("llama-3.3-70b-versatile", 128_000), ("mistral-large-latest", 128_000),
        # llm4s' own example
        ("gpt-3.5-turbo", 16_385),
        ("gemini-2.5-pro", 1_000_000), ("groq/llama-3.3-70b-versatile", 128_000), ("mistral-small-latest", 128_000),
        ("command-r-plus", 128_000), ("gpt-4o-2031-01-01", 128_000), ("claude-sonnet-9-20311231", 200_000),
    ],
)  # fmt: skip
def test_models_of_the_documents_and_of_known_families_have_theirs(model: str, tokens: int) -> None:
    found = window_found(model)
    assert found is not None
    assert (found.tokens, bool(found.why)) == (tokens, True)


def test_where_the_table_is_doubtful_is_named() -> None:
    """Each is a window of the table that others contradict; one that came to agree is to be taken out here."""
    doubtful = {"deepseek-chat": 64_000, "deepseek-reasoner": 64_000}
    assert {name: _in_table(name) for name in CORRECTED} == doubtful
    lower = []
    for name in ("gpt-4o", "gpt-4.1", "gpt-5", "gpt-4", "gpt-3.5-turbo", "o1", "o3", "claude-sonnet-4-5", "grok-3",
                 "grok-4", "gemini-1.5-pro", "gemini-2.5-flash", "codestral-latest"):  # fmt: skip
        least = next(window for pattern, window in FAMILIES if re.match(pattern, name))
        lower += [name] if _in_table(name) < least else []
    assert lower == []


@pytest.mark.parametrize("model", ["", "nobody-knows-1", "…", "llama3.1:8b", "qwen2.5:14b"])
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
