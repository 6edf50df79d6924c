"""Callers of Responses who name an answer, or bring a compaction, and send nothing of what came before it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError

from actors.cli.page import page_of
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.facts import ConversationForked
from protocol.formats import messages
from protocol.ids import Address, Token, fresh_id
from protocol.keys import JetStreamKeys
from storage.gateway_forgetting import forgotten
from storage.gateway_places import JetStreamPlaces
from storage.gateway_sessions import JetStreamSessions
from tests.conftest import done_facts
from tests.gateway.model import Json, Reply, StrictModel, words
from tests.gateway.provider import Answer, Provider, in_front_of, provider
from tests.page.shown import client_of
from tests.said import said_messages

pytestmark = pytest.mark.slow

WINDOW = 8_000
TURNS = 8
TOOLS: Any = [{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}]
TOLD = words(500)


def replies(run: str, turn: int) -> Reply:
    reads = (("read_artifact", {"key": "messages:1"}),) if turn == 3 else ()
    return Reply(text=f"{turn}.", calls=reads or (("look", {"at": turn}),))


def client(url: str, key: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)


async def asked(llm: AsyncOpenAI, run: str, items: list[Json], *, streams: bool = False, **more: Any) -> Any:
    """Ask once, streamed or not; return the response."""
    given: Any = {"model": "gpt-4o", "instructions": f"run {run} ", "input": items, "tools": TOOLS, **more}
    if not streams:
        return await llm.responses.create(**given)
    async with llm.responses.stream(**given) as events:
        return await events.get_final_response()


def references(response: Any) -> list[Json]:
    return [{"type": "item_reference", "id": item.id} for item in response.output]


def results(response: Any) -> list[Json]:
    calls = [item for item in response.output if item.type == "function_call"]
    return [{"type": "function_call_output", "call_id": one.call_id, "output": TOLD} for one in calls]


async def test_who_names_an_answer_goes_on_from_it_in_a_window_that_the_history_does_not_fit(
    working: Runtime, settings: Settings
) -> None:
    model, run = StrictModel(window=WINDOW, replies=replies), f"s{fresh_id()[:8]}"
    before = set(await working.log.addresses())
    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    async with provider(model) as there, in_front_of(there, settings, **section) as url, client(url, "k") as llm:
        items: list[Json] = [{"role": "developer", "content": "Be short."}, {"role": "user", "content": "Look."}]
        answers = [await asked(llm, run, items)]
        for turn in range(TURNS):
            named = {"previous_response_id": answers[-1].id, "streams": bool(turn % 2)}
            answers.append(await asked(llm, run, results(answers[-1]), **named))
        (trunk,) = set(await working.log.addresses()) - before
        assert model.refused == []
        said = [messages.decode(one.raw) for one in await said_messages(trunk, log=working.log)]
        # each word once, the read too, and instructions with each request
        assert json.dumps(said).count(TOLD) == TURNS
        assert [json.dumps(said).count(f'"{turn}."') for turn in range(TURNS)] == [1] * TURNS
        assert all(json.dumps(body).count("Be short.") == 1 for body in model.seen[run])
        await _branched(working, llm, run, answers, trunk=before | {trunk})
        # to its provider it is unknown, and so it is with another caller's key
        async with client(url, "other") as other:
            for who, ident in ((llm, "resp_of_nobody"), (other, answers[1].id)):
                with pytest.raises(BadRequestError, match="unknown previous_response_id"):
                    await asked(who, run, items, previous_response_id=ident)
        await _counted(llm, answers, there)
        await _compacted(llm, run, answers, there)
        await _looked_on(working, trunk)
        await _erased(working, llm, run, answers, trunk)


async def _branched(working: Runtime, llm: AsyncOpenAI, run: str, answers: list[Any], *, trunk: set[Any]) -> None:
    """Go on from an earlier answer twice: the conversation that is there already goes on as it was."""
    other = await asked(llm, run, results(answers[-3]), previous_response_id=answers[-3].id)
    assert other.output_text
    (branch,) = set(await working.log.addresses()) - trunk
    (forked,) = [
        fact for fact in done_facts(await working.log.read(branch, after=0)) if isinstance(fact, ConversationForked)
    ]
    assert forked.parent in {str(at) for at in trunk}


async def _counted(llm: AsyncOpenAI, answers: list[Any], there: Provider) -> None:
    """Count what the model would get: the view, under no id."""
    script, there.script = there.script, lambda _: Answer(pieces=(b'{"input_tokens": 7}',))
    more: Any = {"model": "gpt-4o", "previous_response_id": answers[-1].id, "input": results(answers[-1])}
    assert (await llm.responses.input_tokens.count(**more)).input_tokens == 7
    there.script = script
    counted = there.asked[-1]
    assert counted.target == "/v1/responses/input_tokens"
    assert (counted.json.get("previous_response_id"), counted.json["input"][-1]) == (None, more["input"][-1])
    assert len(more["input"]) < len(counted.json["input"])
    assert len(counted.body) < WINDOW * 4


async def _compacted(llm: AsyncOpenAI, run: str, answers: list[Any], there: Provider) -> None:
    """Ask for a compaction by its route and by its item, and go on with what came of it."""
    count = len(there.asked)
    more: Any = {"model": "gpt-4o", "previous_response_id": answers[-1].id, "input": results(answers[-1])}
    short = await llm.responses.compact(**more)
    assert (short.object, [item.type for item in short.output][-1]) == ("response.compaction", "compaction")
    more = {**more, "input": [*more["input"], {"type": "compaction_trigger"}], "stream": True}
    events: list[Any] = [event async for event in await llm.responses.create(**more)]
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.type for item in done] == ["compaction"]
    assert events[-1].type == "response.completed"
    # nobody else was asked
    assert len(there.asked) == count
    last: Any = short.output[-1]
    for item in (last, done[0]):
        given: Json = item.model_dump(exclude_none=True, include={"id", "type", "encrypted_content"})
        items = [{"role": "user", "content": "repeated"}, given, {"role": "user", "content": "And now?"}]
        assert (await asked(llm, run, items)).output_text
        assert '"repeated"' not in there.asked[-1].body.decode()
        assert len(there.asked[-1].body) < WINDOW * 2
    given["encrypted_content"] = given["encrypted_content"][:-9] + "AAAAAAAA="
    with pytest.raises(BadRequestError, match="compaction cannot be read"):
        await asked(llm, run, [given, {"role": "user", "content": "And now?"}])


async def _looked_on(working: Runtime, trunk: Address) -> None:
    """See the conversation on the page; of what gateways keep nobody reads a word."""
    kept = [body async for _, body, _ in JetStreamPlaces(working.connection).each(trunk.tenant)]
    assert len(kept) > TURNS
    assert [
        word for word in (b"Look.", b"call_", b'"function_call"', TOLD[:40].encode()) if word in b"".join(kept)
    ] == []
    live, ends = JetStreamSessions(working.connection), time.monotonic() + 180
    while trunk not in {one.at for one in await live.newest(since_ms=0)}:
        assert time.monotonic() < ends
        await asyncio.sleep(0.1)
    app = page_of(working, traces=Path("nowhere"), sessions=live)
    async with client_of(app) as browser:
        html = (await browser.get("/")).text
    section = html.partition("Through the gateway")[2].partition("</table>")[0]
    (row,) = [row for row in section.split("<tr>") if f"/c/{trunk}" in row]
    assert "AsyncOpenAI/Python" in row
    assert "gpt-4o" in row
    assert await live.newest(since_ms=time.time_ns()) == []


async def _erased(working: Runtime, llm: AsyncOpenAI, run: str, answers: list[Any], trunk: Address) -> None:
    """Erase the conversation: no gateway knows it or its answers any more, and its branches are as they were."""
    other = await asked(llm, run, results(answers[-2]), previous_response_id=answers[-2].id)
    found = await working.erasing().erase(trunk, by="test")
    # its place, each of its answers, and what was told of it
    assert found.gateway >= 1 + len(answers) + 1
    # but what its gateway had still to tell, there is nothing left
    live, ends = JetStreamSessions(working.connection), time.monotonic() + 180
    while await forgotten(working.connection, trunk) or trunk in {one.at for one in await live.newest(since_ms=0)}:
        assert time.monotonic() < ends
        await asyncio.sleep(0.05)
    with pytest.raises(BadRequestError, match="unknown previous_response_id"):
        await asked(llm, run, results(answers[-1]), previous_response_id=answers[-1].id)
    again = await asked(llm, run, results(other), previous_response_id=other.id)
    assert again.output_text


async def test_callers_of_one_key_go_on_from_their_own_answers_alone(working: Runtime, settings: Settings) -> None:
    model, run = StrictModel(window=WINDOW, replies=replies), f"o{fresh_id()[:8]}"
    for tenant in ("one", "two"):
        await JetStreamKeys(working.connection, tenants=working.tenants).prepare(Token(tenant))
    lines = [f"{tenant} {hashlib.sha256(f'of-{tenant}'.encode()).hexdigest()}" for tenant in ("one", "two")]
    section: Json = {"mode": "manage", "deadline_seconds": 20.0, "openai_key": "sk", "callers": "\n".join(lines)}
    async with (
        provider(model) as there,
        in_front_of(there, settings, **section) as url,
        client(url, "of-one") as one,
        client(url, "of-two") as two,
    ):
        first = await asked(one, run, [{"role": "user", "content": "Look."}], reasoning={"effort": "low"})
        assert there.asked[-1].json["store"] is False
        assert there.asked[-1].json["include"] == ["reasoning.encrypted_content"]
        for who, ident in ((two, first.id), (one, "resp_of_nobody")):
            with pytest.raises(BadRequestError, match="not found"):
                await asked(who, run, results(first), previous_response_id=ident)
        again = await asked(one, run, results(first), previous_response_id=first.id)
        assert again.output_text
        assert len(there.asked) == 2
        assert [key for key in there.asked[-1].json if key in ("previous_response_id", "store")] == ["store"]
        named = [{"role": "user", "content": "Look."}, *references(first), *results(first)]
        assert (await asked(one, run, named)).output_text
        assert "item_reference" not in there.asked[-1].body.decode()
        with pytest.raises(BadRequestError, match="not found"):
            await asked(two, run, named)
        assert len(there.asked) == 3


async def test_who_sends_ids_of_items_goes_on_in_a_window_that_the_history_does_not_fit(
    working: Runtime, settings: Settings
) -> None:
    """As agents of the AI SDK do, whose provider keeps what it said."""
    model, run = StrictModel(window=WINDOW, replies=replies), f"i{fresh_id()[:8]}"
    before, items = set(await working.log.addresses()), list[Json]([{"role": "user", "content": "Look."}])
    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    async with provider(model) as there, in_front_of(there, settings, **section) as url, client(url, "k") as llm:
        for turn in range(TURNS):
            answer = await asked(llm, run, items, streams=bool(turn % 2))
            items += [*references(answer), *results(answer)]
        (at,) = set(await working.log.addresses()) - before
        assert model.refused == []
        assert b"item_reference" not in b"".join(one.body for one in there.asked)
        said = json.dumps([messages.decode(one.raw) for one in await said_messages(at, log=working.log)])
        assert [said.count(f'"{turn}."') for turn in range(TURNS)] == [1] * TURNS
        # one that nobody knows is its provider's to resolve, with all the others
        unknown = [*items, {"type": "item_reference", "id": "msg_of_nobody"}, {"role": "user", "content": "On."}]
        with pytest.raises(BadRequestError):
            await asked(llm, run, unknown)
        assert there.asked[-1].json["input"] == unknown
