"""The SDKs of OpenAI and Anthropic, unchanged but for their base URL, before a strict provider, on the real stack."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from openai import AsyncOpenAI

from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.model_info.tokens import counter
from protocol.ids import fresh_id
from tests.gateway.model import Json, Reply, StrictModel
from tests.gateway.provider import in_front_of, provider
from tests.said import said_messages

pytestmark = pytest.mark.slow

WINDOW = 16_000
TURNS = 9
count = counter("o200k_base")
TASK = "Look at the logs."
LINES = 300


def log_of(service: str, turn: int) -> str:
    lines = (f"line {number}: request {number * 7919} took {number % 97} ms" for number in range(LINES))
    return "\n".join(f"{service} {turn} {line}" for line in lines)


READS = {3: 1, 4: 2, 6: 1}
"""In which requests the model reads back, and how often at once; in the second one it calls its agent's tool too."""


LOOKS = TURNS - 2


def replies(run: str, turn: int) -> Reply:
    """Look at a log in each turn, read back in some, and say in the end what was seen."""
    if turn == TURNS:
        return Reply(text=f"All is well, says {run}.")
    reads = (("read_artifact", {"key": "messages:1", "lines": "1-3"}),) * READS.get(turn, 0)
    looks = () if turn in (3, 6) else (("log_of", {"service": run, "turn": turn}),)
    return Reply(text=f"Turn {turn}: on.", thinks=f"thought {turn}", calls=(*reads, *looks))


async def chat(url: str, run: str, stream: bool) -> str:
    messages: list[Json] = [
        {"role": "system", "content": f"run {run} "},
        {"role": "user", "content": TASK},
    ]
    tools = [{"type": "function", "function": {"name": "log_of", "parameters": {"type": "object"}}}]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=f"sk-{run}", max_retries=0) as llm:
        while True:
            asked: Any = {"model": "gpt-4o", "messages": messages, "tools": tools}
            if stream:
                async with llm.chat.completions.stream(**asked) as events:
                    reply: Any = await events.get_final_completion()
            else:
                reply = await llm.chat.completions.create(**asked)
            answer = reply.choices[0].message.model_dump(exclude_none=True, exclude={"parsed"})
            for call in answer.get("tool_calls", ()):
                call["function"].pop("parsed_arguments", None)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return str(answer["content"])
            for call in answer["tool_calls"]:
                output = log_of(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})


async def anthropic(url: str, run: str, stream: bool) -> str:
    messages: list[Json] = [{"role": "user", "content": TASK}]
    # it takes a second and a half to import, which each tester would pay for
    from anthropic import AsyncAnthropic

    mark = {"cache_control": {"type": "ephemeral"}}
    system = [{"type": "text", "text": f"run {run} ", **mark}]
    tools = [{"name": "log_of", "input_schema": {"type": "object"}}]
    async with AsyncAnthropic(base_url=url, api_key=f"sk-{run}", max_retries=0) as llm:
        while True:
            asked: Any = {"model": "claude-x", "system": system, "tools": tools, "max_tokens": 1000}
            sent: Any = [*messages[:-1], _marked(messages[-1], mark)]
            if stream:
                async with llm.messages.stream(messages=sent, **asked) as events:
                    reply: Any = await events.get_final_message()
            else:
                reply = await llm.messages.create(messages=sent, **asked)
            answer = [block.model_dump(exclude_none=True) for block in reply.content]
            messages.append({"role": "assistant", "content": answer})
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": log_of(**block["input"])}
                for block in answer
                if block["type"] == "tool_use"
            ]
            if not results:
                return str(answer[-1]["text"])
            messages.append({"role": "user", "content": results})


def _marked(message: Json, mark: Json) -> Json:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*blocks[:-1], {**blocks[-1], **mark}]}


async def responses(url: str, run: str, stream: bool) -> str:
    items: list[Json] = [{"role": "user", "content": TASK}]
    tools = [{"type": "function", "name": "log_of", "parameters": {"type": "object"}, "strict": False}]
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key=f"sk-{run}", max_retries=0) as llm:
        while True:
            asked: Any = {
                "model": "gpt-4o",
                "instructions": f"run {run} ",
                "input": items,
                "tools": tools,
                "store": False,
            }
            if stream:
                async with llm.responses.stream(**asked) as events:
                    reply: Any = await events.get_final_response()
            else:
                reply = await llm.responses.create(**asked)
            output = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in reply.output]
            for item in output:
                for block in item.get("content") or ():
                    block.pop("parsed", None)
            items += output
            calls = [item for item in output if item["type"] == "function_call"]
            if not calls:
                return str(reply.output_text)
            for call in calls:
                told = log_of(**json.loads(call["arguments"]))
                items.append({"type": "function_call_output", "call_id": call["call_id"], "output": told})


Agent = Callable[[str, str, bool], Awaitable[str]]


async def test_agents_finish_in_a_window_that_their_history_does_not_fit(working: Runtime, settings: Settings) -> None:
    model = StrictModel(window=WINDOW, replies=replies)
    agents: tuple[Agent, ...] = (chat, anthropic, responses)
    kinds = [(agent, stream) for agent in agents for stream in (True, False)]
    runs = {f"{agent.__name__}{stream:d}x{fresh_id()[:6]}": (agent, stream) for agent, stream in kinds}
    section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
    before = set(await working.log.addresses())
    async with provider(model) as there, in_front_of(there, settings, **section) as url:
        answers = await asyncio.gather(*(agent(url, run, stream) for run, (agent, stream) in runs.items()))
    assert answers == [f"All is well, says {run}." for run in runs]
    assert model.refused == []
    assert max(model.tokens) <= WINDOW < count(log_of("chat1xxxxxxx", 1)) * LOOKS
    # nothing of another run was in what any of them was sent
    for run, bodies in model.seen.items():
        assert len(bodies) == TURNS + 1
        assert not [other for other in runs if other != run and other in json.dumps(bodies)]
    logs = set(await working.log.addresses()) - before
    assert len(logs) == len(runs)
    for at in logs:
        said = b"".join(one.raw for one in await said_messages(at, log=working.log))
        # each call that the model made is in the log with its result, whoever answered it
        assert (said.count(b'"log_of"'), said.count(b'"read_artifact"')) == (LOOKS, sum(READS.values()))
        assert said.count(b"--- message 1 (user) ---") == sum(READS.values())
        assert [f"Turn {turn}: on.".encode() in said for turn in range(TURNS)] == [True] * TURNS


async def test_where_no_tool_of_ours_is_given_no_view_names_it(working: Runtime, settings: Settings) -> None:
    def on(run: str, turn: int) -> Reply:
        calls = (("log_of", {"service": run, "turn": turn}),) if turn < TURNS else ()
        return Reply(text=f"Turn {turn}: on.", calls=calls)

    theirs, seen = "mcp__jettison__read_artifact", {}
    for retrieval in ("off", "mcp"):
        model, run = StrictModel(window=WINDOW, replies=on), f"{retrieval}{fresh_id()[:6]}"
        section = {"mode": "manage", "window": WINDOW, "deadline_seconds": 20.0}
        section |= {"retrieval": retrieval, "mcp_tool": theirs}
        async with provider(model) as there, in_front_of(there, settings, **section) as url:
            assert await chat(url, run, True) == f"Turn {TURNS}: on."
        assert model.refused == []
        seen[retrieval] = json.dumps(model.seen[run])
    assert "read_artifact" not in seen["off"]
    assert 0 < seen["mcp"].count(theirs) == seen["mcp"].count("read_artifact")
