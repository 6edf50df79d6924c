"""OpenAI Agents SDK: an agent whose model is a scripted `Model`; the session alone is its memory."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Model, ModelProvider, ModelResponse, Runner, Usage, function_tool
from agents.models.chatcmpl_converter import Converter
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseUsage,
)
from openai.types.responses.response_usage import InputTokensDetails, OutputTokensDetails

from protocol.openai_agents import JettisonSession
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


class Scripted(Model):
    """A model that answers as the script says, whole or as one event of a stream."""

    def __init__(self, follows: script.Script) -> None:
        self.follows = follows
        self.calls = 0

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **named: Any) -> ModelResponse:
        output, sent = self._output(input)
        return ModelResponse(
            output=output,
            usage=Usage(requests=1, input_tokens=sent, output_tokens=20, total_tokens=sent + 20),
            response_id=None,
        )

    async def stream_response(self, system_instructions: Any, input: Any, *given: Any, **named: Any) -> Any:
        output, sent = self._output(input)
        used = ResponseUsage(
            input_tokens=sent,
            output_tokens=20,
            total_tokens=sent + 20,
            input_tokens_details=InputTokensDetails(cached_tokens=0, cache_write_tokens=0),
            output_tokens_details=OutputTokensDetails(reasoning_tokens=0),
        )
        response = Response(
            id="r",
            created_at=0,
            model="m",
            object="response",
            output=output,
            usage=used,
            tool_choice="auto",
            tools=[],
            parallel_tool_calls=True,
        )
        yield ResponseCompletedEvent(response=response, type="response.completed", sequence_number=0)

    def _output(self, given: Any) -> tuple[list[Any], int]:
        view = list(map(dict, Converter.items_to_messages(given)))
        said = self.follows.answer(json.loads(json.dumps(view)))
        self.calls += 1
        text = ResponseOutputText(text=said["content"], type="output_text", annotations=[])
        told = ResponseOutputMessage(
            id=f"m{self.calls}", content=[text], role="assistant", status="completed", type="message"
        )
        calls = [
            ResponseFunctionToolCall(
                call_id=one["id"], name=one["name"], arguments=json.dumps(one["args"]), type="function_call"
            )
            for one in said["calls"]
        ]
        return [*([told] if said["content"] else []), *calls], len(json.dumps(view)) // 4


class Provider(ModelProvider):
    """Names the models of the run."""

    def __init__(self, job: Run) -> None:
        self.models = {"main": Scripted(job.script), "helper": Scripted(job.helper)}

    def get_model(self, model_name: str | None) -> Model:
        return self.models[model_name or "main"]


class Said:
    """A memory of all items beside the session: what the log is compared with."""

    def __init__(self, session: JettisonSession, items: list[Any]) -> None:
        self.items = items
        self.added = session.add_items
        session.add_items = self.add  # type: ignore[method-assign]

    async def add(self, items: list[Any]) -> None:
        """Remember *items* and pass them on."""
        self.items += items
        await self.added(items)


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    session = JettisonSession(job.nats, job.name, budget=job.budget, policy=job.policy)
    said = Said(session, job.state or [])
    config = session.run_config(model_provider=Provider(job), tracing_disabled=True)

    @function_tool
    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    helper = Agent(name="helper", model="helper", tools=[log_of])

    @function_tool
    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        return str((await Runner.run(helper, script.asked(int(about) + 1000), run_config=config)).final_output)

    tools: list[Any] = [log_of, ask_helper, session.read_tool()]
    agent = Agent(name="main", model="main", instructions="You read logs.", tools=tools)
    for turn in job.turns:
        if turn % 3 == 1:
            streamed = Runner.run_streamed(agent, script.asked(turn), session=session, run_config=config)
            async for _ in streamed.stream_events():
                pass
        else:
            await Runner.run(agent, script.asked(turn), session=session, run_config=config)
    job.conversations = list(session.adapter.names())
    session.adapter.close()
    job.said = list(map(dict, Converter.items_to_messages(said.items)))
    return {"state": said.items}


if __name__ == "__main__":
    main(run)
