"""Strands: an agent whose model is a scripted `Model`."""

from __future__ import annotations

import json
from typing import Any

from strands import Agent, tool
from strands.models import Model

from protocol.strands import JettisonConversation
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return Strands' messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        calls, text = [], ""
        for block in message["content"]:
            if "toolResult" in block:
                result = block["toolResult"]
                told = "".join(one["text"] for one in result["content"])
                out.append({"role": "tool", "tool_call_id": result["toolUseId"], "content": told})
            elif "toolUse" in block:
                call = block["toolUse"]
                function = {"name": call["name"], "arguments": json.dumps(call["input"])}
                calls.append({"id": call["toolUseId"], "type": "function", "function": function})
            else:
                text += block["text"]
        if text or calls:
            out.append({"role": message["role"], "content": text} | ({"tool_calls": calls} if calls else {}))
    return out


class Scripted(Model):
    """A model that answers as the script says; Strands streams each answer."""

    def __init__(self, follows: script.Script) -> None:
        self.follows = follows

    def update_config(self, **config: Any) -> None:
        """Do nothing."""

    def get_config(self) -> Any:
        """Return nothing."""
        return {}

    def structured_output(self, *given: Any, **named: Any) -> Any:
        """Do nothing."""
        raise NotImplementedError

    async def stream(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Yield the answer."""
        view = chat_of(messages)
        said = self.follows.answer(view)
        yield {"messageStart": {"role": "assistant"}}
        starts: list[Any] = [({}, {"text": said["content"]})] if said["content"] else []
        for one in said["calls"]:
            start = {"toolUse": {"toolUseId": one["id"], "name": one["name"]}}
            starts.append((start, {"toolUse": {"input": json.dumps(one["args"])}}))
        for start, delta in starts:
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if said["calls"] else "end_turn"}}
        sent = len(json.dumps(view)) // 4
        usage = {"inputTokens": sent, "outputTokens": 20, "totalTokens": sent + 20}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 1}}}


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*."""
    jettison = JettisonConversation(job.nats, conversation=job.name, budget=job.budget, policy=job.policy)

    @tool
    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    @tool
    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        given: dict[str, Any] = {"tools": [log_of], "conversation_manager": jettison, "callback_handler": None}
        helper = Agent(model=Scripted(job.helper), **given)
        return str(await helper.invoke_async(script.asked(int(about) + 1000))).rstrip("\n")

    agent = Agent(
        model=Scripted(job.script),
        messages=job.state or [],
        system_prompt="You read logs.",
        tools=[log_of, ask_helper],
        conversation_manager=jettison,
        callback_handler=None,
    )
    for turn in job.turns:
        await agent.invoke_async(script.asked(turn))
    job.conversations = list(jettison.adapter.names())
    jettison.close()
    job.said = chat_of(agent.messages)
    return {"state": agent.messages}


if __name__ == "__main__":
    main(run)
