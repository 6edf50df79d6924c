"""The OpenAI Agents SDK's compaction session on a recorded run; who compacts is a stand-in for the provider."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, SQLiteSession
from agents.memory import OpenAIResponsesCompactionSession
from agents.models.chatcmpl_converter import Converter

from tests.programs.adapters.openai_agents_run import Scripted
from tests.programs.adapters.recorded import Json, Recorded, main


class Model(Scripted):
    """A model that is shown a compaction, which only its provider reads, as a text."""

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **named: Any) -> Any:
        response = await super().get_response(system_instructions, input, *given, **named)
        return replace(response, response_id=f"resp_{self.calls}")

    def _output(self, given: Any) -> tuple[list[Any], int]:
        told = [
            {"role": "assistant", "content": one["encrypted_content"]} if one.get("type") == "compaction" else one
            for one in given
        ]
        return super()._output(told)


class Responses:
    """`responses.compact`: the user's messages, and one item that stands for all else."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded

    async def compact(self, *, input: Any, **named: Any) -> Any:
        """Return the compacted items."""
        users = [dict(one) for one in input if one.get("role") == "user"]
        told = Converter.items_to_messages([one for one in input if one.get("type") != "compaction"])
        before = "".join(one["encrypted_content"] for one in input if one.get("type") == "compaction")
        text = self.recorded.retold(f"{before}\n{json.dumps(list(map(dict, told)), indent=0)}")
        item = {"type": "compaction", "id": f"cmp_{len(self.recorded.asked)}", "encrypted_content": text}
        return SimpleNamespace(output=[*users, item], usage=None)


async def run(system: str, recorded: Recorded, job: Json) -> None:
    """Ask all questions of the recording."""

    def tool_of(name: str) -> FunctionTool:
        async def call(context: Any, text: str) -> str:
            return recorded.result(name, json.loads(text))

        schema = {"type": "object", "properties": {}, "additionalProperties": True}
        return FunctionTool(name, name, schema, on_invoke_tool=call, strict_json_schema=False)

    client: Any = SimpleNamespace(responses=Responses(recorded))
    session = OpenAIResponsesCompactionSession(
        job["name"], SQLiteSession(job["name"]), client=client, compaction_mode="input"
    )
    model = Model(recorded)  # type: ignore[arg-type]
    tools: Any = [tool_of(name) for name in recorded.tools]
    agent = Agent(name="main", model=model, instructions=recorded.instructions, tools=tools)
    config = RunConfig(tracing_disabled=True)
    for question in recorded.questions:
        await Runner.run(agent, question, session=session, run_config=config, max_turns=1000)


if __name__ == "__main__":
    main(run)
