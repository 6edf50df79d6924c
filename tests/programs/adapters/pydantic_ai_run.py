"""Pydantic AI: an agent whose model is its own `FunctionModel`."""

from __future__ import annotations

import json
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

from protocol.pydantic_ai import JettisonCapability
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return Pydantic AI's messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        if message.kind == "response":
            calls = [
                {
                    "id": one.tool_call_id,
                    "type": "function",
                    "function": {"name": one.tool_name, "arguments": one.args_as_json_str()},
                }
                for one in message.tool_calls
            ]
            text = "".join(one.content for one in message.parts if one.part_kind == "text")
            out.append({"role": "assistant", "content": text} | ({"tool_calls": calls} if calls else {}))
            continue
        for part in message.parts:
            if part.part_kind == "tool-return":
                out.append({"role": "tool", "tool_call_id": part.tool_call_id, "content": part.model_response_str()})
            elif part.part_kind in ("user-prompt", "system-prompt"):
                role = "user" if part.part_kind == "user-prompt" else "system"
                out.append({"role": role, "content": part.content})
    return out


def scripted(follows: script.Script) -> FunctionModel:
    """Return a model that answers as the script says, whole or streamed."""

    async def whole(messages: Any, info: Any) -> ModelResponse:
        view = chat_of(messages)
        said = follows.answer(view)
        calls = [ToolCallPart(one["name"], one["args"], tool_call_id=one["id"]) for one in said["calls"]]
        text = [TextPart(said["content"])] if said["content"] else []
        used = RequestUsage(input_tokens=len(json.dumps(view)) // 4, output_tokens=20)
        return ModelResponse(parts=[*text, *calls], usage=used)

    async def streamed(messages: Any, info: Any) -> Any:
        said = follows.answer(chat_of(messages))
        for word in said["content"].split(" "):
            yield f"{word} "
        for place, one in enumerate(said["calls"], 1):
            yield {place: DeltaToolCall(name=one["name"], json_args=json.dumps(one["args"]), tool_call_id=one["id"])}

    return FunctionModel(whole, stream_function=streamed)


async def listening(context: Any, events: Any) -> None:
    """Take all events of a stream."""
    async for _ in events:
        pass


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    jettison = JettisonCapability(job.nats, budget=job.budget, policy=job.policy)
    agent = Agent(scripted(job.script), instructions="You read logs.", capabilities=[jettison])
    helper = Agent(scripted(job.helper), capabilities=[jettison])

    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    agent.tool_plain(log_of)
    helper.tool_plain(log_of)

    @agent.tool_plain
    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        return str((await helper.run(script.asked(int(about) + 1000))).output)

    history = ModelMessagesTypeAdapter.validate_python(job.state or [])
    for turn in job.turns:
        given: Any = {"message_history": history, "conversation_id": job.name}
        if turn % 6 == 4:
            history = (await agent.run(script.asked(turn), event_stream_handler=listening, **given)).all_messages()
        elif turn % 3 == 1:
            async with agent.run_stream(script.asked(turn), **given) as streamed:
                await streamed.get_output()
                history = streamed.all_messages()
        else:
            history = (await agent.run(script.asked(turn), **given)).all_messages()
    job.conversations = list(jettison.adapter.names())
    jettison.adapter.close()
    job.said = chat_of(history)
    return {"state": ModelMessagesTypeAdapter.dump_python(history, mode="json")}


if __name__ == "__main__":
    main(run)
