"""Haystack: an agent whose chat generator is a scripted one."""

from __future__ import annotations

import json
from typing import Annotated, Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk, ToolCall
from haystack.tools import tool

from protocol.haystack import JettisonGenerator
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return Haystack's messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        results = message.tool_call_results
        out += [{"role": "tool", "tool_call_id": one.origin.id, "content": one.result} for one in results]
        calls = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.tool_name, "arguments": json.dumps(one.arguments)},
            }
            for one in message.tool_calls
        ]
        if not results and message.role.value != "system":
            text = {"role": message.role.value, "content": message.text or ""}
            out.append(text | ({"tool_calls": calls} if calls else {}))
    return out


@component
class Scripted:
    """A chat generator that answers as the script says, whole or streamed."""

    def __init__(self, follows: script.Script) -> None:
        self.follows = follows

    @component.output_types(replies=list[ChatMessage])
    def run(
        self, messages: list[ChatMessage], streaming_callback: Any = None, tools: Any = None
    ) -> dict[str, list[ChatMessage]]:
        """Return the answer."""
        view = chat_of(messages)
        said = self.follows.answer(view)
        if streaming_callback is not None:
            streaming_callback(StreamingChunk(content=said["content"]))
        calls = [ToolCall(one["name"], one["args"], id=one["id"]) for one in said["calls"]]
        used = {"prompt_tokens": len(json.dumps(view)) // 4, "completion_tokens": 20}
        reply = ChatMessage.from_assistant(said["content"] or None, tool_calls=calls, meta={"usage": used})
        return {"replies": [reply]}


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed, and every other one in an event loop."""
    model = Scripted(job.script)
    jettison = JettisonGenerator(job.nats, model, conversation=job.name, budget=job.budget, policy=job.policy)
    helped = jettison.named(f"{job.name}-help")
    helped.inner = Scripted(job.helper)

    @tool
    def log_of(service: Annotated[str, "the service"]) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    @tool
    def ask_helper(about: Annotated[str, "the turn"]) -> str:
        """Ask another agent."""
        helper = Agent(chat_generator=helped, tools=[log_of])
        question = ChatMessage.from_user(script.asked(int(about) + 1000))
        return str(helper.run(messages=[question])["last_message"].text)

    tools = [log_of, ask_helper, jettison.read_tool()]
    agent = Agent(chat_generator=jettison, tools=tools, system_prompt="You read logs.")
    history = [ChatMessage.from_dict(one) for one in job.state or ()]
    for turn in job.turns:
        given: dict[str, Any] = {"messages": [*history, ChatMessage.from_user(script.asked(turn))]}
        if turn % 3 == 1:
            given["streaming_callback"] = lambda chunk: None
        result = agent.run(**given) if turn % 3 == 1 or turn % 2 else await agent.run_async(**given)
        history = [one for one in result["messages"] if one.role.value != "system"]
    job.conversations = list(jettison.adapter.names())
    jettison.close()
    job.said = chat_of(history)
    return {"state": [one.to_dict() for one in history]}


if __name__ == "__main__":
    main(run)
