"""An agent that never overflows its model's window: the loop of any agent, and five calls of Jettison."""

import json
from collections.abc import Callable
from typing import Any

from openai import AsyncOpenAI

try:
    from jettison_client import Client  # type: ignore[import-not-found]  # as agents install it
    from jettison_client.tools import READ_ARTIFACT, READ_TOOL  # type: ignore[import-not-found]
except ImportError:  # inside this repository, where the client is not installed
    from protocol import Client
    from protocol.tools import READ_ARTIFACT, READ_TOOL

Tools = dict[str, Callable[..., str]]
TURNS_MAX = 20


async def run_agent(
    task: str, *, name: str, nats: str, llm: AsyncOpenAI, model: str, tools: Tools, **policy: Any
) -> str:
    """Work on *task* with *tools* until the model answers without calling one; return its answer."""
    definitions: Any = [{"type": "function", "function": {"name": tool, "parameters": {}}} for tool in tools]
    definitions.append(READ_ARTIFACT)  # with it the model reads back what its context shows in part
    async with Client.connect(nats) as client:
        talk = await client.open(name, model=model, policy=policy)
        await talk.append([{"role": "user", "content": task}])
        for _ in range(TURNS_MAX):
            context = await talk.context()
            sent: Any = context.messages
            reply = await llm.chat.completions.create(model=model, messages=sent, tools=definitions)
            answer = reply.choices[0].message.model_dump(exclude_none=True)
            results = []
            for call in answer.get("tool_calls") or ():
                wanted = call["function"]
                if wanted["name"] == READ_TOOL:
                    output = await talk.answer_read(wanted["arguments"])
                else:
                    output = tools[wanted["name"]](**json.loads(wanted["arguments"]))
                results.append({"role": "tool", "tool_call_id": call["id"], "content": output})
            await talk.append([answer, *results])
            if reply.usage:
                await talk.report_usage(input_tokens=reply.usage.prompt_tokens, view_hash=context.hash)
            if not results:
                return str(answer.get("content", ""))
    raise TimeoutError(f"no answer after {TURNS_MAX} turns")
