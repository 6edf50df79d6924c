"""Outages: a store that is down costs detail, never the conversation."""

import msgspec

from actors.host.settings import Settings
from protocol.client import Client
from protocol.facts import ToolOutputSpilled, ToolOutputTrimmed
from protocol.formats.validate import problems
from protocol.ids import fresh_id
from tests.conftest import Json, at_work, done_facts, layer
from tests.stack import LOOPBACK, free_port

LOG = "\n".join(f"2026-11-20 12:00:{index % 60:02} worker-{index} took {index * 7} ms" for index in range(900))


def call_and_result(ident: str, text: str) -> list[Json]:
    call = {"id": ident, "type": "function", "function": {"name": "read_log", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"Read log {ident}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ident, "content": text},
    ]


def without_store(settings: Settings) -> Settings:
    s3 = msgspec.structs.replace(settings.s3, endpoint=f"http://{LOOPBACK}:{free_port()}")
    return msgspec.structs.replace(settings, s3=s3)


async def test_without_a_store_results_are_shortened_in_place_and_the_talk_goes_on(
    settings: Settings, client: Client
) -> None:
    async with at_work(without_store(settings)) as busy:
        talk = await client.open(f"down-{fresh_id()}", policy=layer())
        await talk.append(call_and_result("a", LOG))
        context = await talk.context(patience=180)
        assert problems(context.messages) == []
        assert context.tokens <= context.budget
        shown = context.messages[-1]["content"]
        assert "the store was not reachable" in shown
        assert 'read_artifact("messages:3")' in shown
        facts = done_facts(await busy.log.read(talk.at, after=0))
        (trimmed,) = [fact for fact in facts if isinstance(fact, ToolOutputTrimmed)]
        assert (trimmed.number, trimmed.bytes) == (3, len(LOG))
        assert "S3 PutObject failed" in trimmed.reason
        # nothing is lost, and what is read back comes from the log alone
        whole = await talk.read_artifact("messages:3", lines="500-501")
        assert whole == "\n".join(LOG.split("\n")[498:500])
        await talk.append([{"role": "assistant", "content": "I see."}, {"role": "user", "content": "And now?"}])
        assert (await talk.context(patience=180)).messages[-1]["content"] == "And now?"


async def test_a_store_that_comes_back_is_used_again(settings: Settings, client: Client) -> None:
    talk = await client.open(f"back-{fresh_id()}", policy=layer(spill={"on_store_error": "wait"}))
    async with at_work(without_store(settings), ("spill",)) as busy:
        await talk.append(call_and_result("a", LOG))
        async with at_work(settings, ("digest", "squeeze", "cut")):
            facts = done_facts(await busy.log.read(talk.at, after=0))
            assert not [fact for fact in facts if isinstance(fact, ToolOutputTrimmed)]
    async with at_work(settings) as healthy:
        context = await talk.context(patience=180)
        assert "kept as an artifact" in context.messages[-1]["content"]
        facts = done_facts(await healthy.log.read(talk.at, after=0))
        assert [fact.number for fact in facts if isinstance(fact, ToolOutputSpilled)] == [3]
