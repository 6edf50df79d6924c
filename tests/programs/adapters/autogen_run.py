"""AutoGen: an agent whose client of the model is a scripted `ChatCompletionClient`."""

from __future__ import annotations

import json
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import TextMessage
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import ChatCompletionClient, CreateResult, RequestUsage

from protocol.autogen import JettisonContext
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return AutoGen's messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        if message.type == "FunctionExecutionResultMessage":
            out += [{"role": "tool", "tool_call_id": one.call_id, "content": one.content} for one in message.content]
        elif isinstance(message.content, str):
            out.append({"role": "user" if message.type == "UserMessage" else "assistant", "content": message.content})
        else:
            calls = [
                {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": one.arguments}}
                for one in message.content
            ]
            out.append({"role": "assistant", "content": message.thought or "", "tool_calls": calls})
    return out


class Scripted(ChatCompletionClient):
    """A client that answers as the script says, whole or streamed."""

    component_type = "model"
    component_config_schema = None

    def __init__(self, follows: script.Script) -> None:
        self.follows = follows

    async def create(self, messages: Any, **named: Any) -> CreateResult:
        """Return the answer."""
        view = chat_of([one for one in messages if one.type != "SystemMessage"])
        said = self.follows.answer(view)
        calls = [
            FunctionCall(id=one["id"], name=one["name"], arguments=json.dumps(one["args"])) for one in said["calls"]
        ]
        used = RequestUsage(prompt_tokens=len(json.dumps(view)) // 4, completion_tokens=20)
        thought = said["content"] or None if calls else None
        reason = "function_calls" if calls else "stop"
        content = calls or said["content"]
        return CreateResult(finish_reason=reason, content=content, usage=used, cached=False, thought=thought)

    async def create_stream(self, messages: Any, **named: Any) -> Any:
        """Yield the answer's text, then all of it."""
        result = await self.create(messages)
        if isinstance(result.content, str):
            yield result.content
        yield result

    async def close(self) -> None:
        """Do nothing."""

    def actual_usage(self) -> RequestUsage:
        """Return nothing."""
        return RequestUsage(0, 0)

    def total_usage(self) -> RequestUsage:
        """Return nothing."""
        return RequestUsage(0, 0)

    def count_tokens(self, messages: Any, **named: Any) -> int:
        """Return nothing."""
        return 0

    def remaining_tokens(self, messages: Any, **named: Any) -> int:
        """Return nothing."""
        return 0

    @property
    def capabilities(self) -> Any:
        """Return what it can do."""
        return self.model_info

    @property
    def model_info(self) -> Any:
        """Return what it can do."""
        return {
            "vision": True,
            "function_calling": True,
            "json_output": True,
            "family": "unknown",
            "structured_output": True,
        }


class Told(JettisonContext):
    """A context that remembers what it was told."""

    async def add_message(self, message: Any) -> None:
        """Remember *message* and pass it on."""
        self.told = [*getattr(self, "told", []), message]
        await super().add_message(message)


async def answer_of(agent: AssistantAgent, text: str) -> str:
    """Say *text* and return the answer."""
    response = await agent.on_messages([TextMessage(content=text, source="user")], CancellationToken())
    return str(response.chat_message.content)


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    context = Told(job.nats, job.name, budget=job.budget, policy=job.policy)
    names: list[str] = []

    async def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        its = JettisonContext(job.nats, f"{job.name}-help", budget=job.budget, policy=job.policy)
        model = its.client(Scripted(job.helper))
        helper = AssistantAgent("helper", model, tools=[log_of], model_context=its, max_tool_iterations=9)
        answer = await answer_of(helper, script.asked(int(about) + 1000))
        names.extend(its.adapter.names())
        await its.close()
        return answer

    tools = [log_of, ask_helper, context.read_tool()]
    given: dict[str, Any] = {"tools": tools, "model_context": context, "max_tool_iterations": 9}
    model = context.client(Scripted(job.script))
    agent = AssistantAgent("main", model, **given)
    streaming = AssistantAgent("main", model, model_client_stream=True, **given)
    for turn in job.turns:
        await answer_of(streaming if turn % 3 == 1 else agent, script.asked(turn))
    job.conversations = [*names, *context.adapter.names()]
    await context.close()
    job.said = [*(job.state or ()), *chat_of(context.told)]
    return {"state": job.said}


if __name__ == "__main__":
    main(run)
