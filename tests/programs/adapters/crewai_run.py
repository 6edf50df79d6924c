"""CrewAI: an agent whose language model is a scripted `BaseLLM`."""

from __future__ import annotations

import json
from typing import Any

from crewai import Agent
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

from protocol.crewai import JettisonConversation
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main

KEPT = ("role", "content", "tool_calls", "tool_call_id")


def chat_of(messages: Any) -> list[script.Json]:
    """Return CrewAI's messages without what only it knows, and without instructions."""
    plain = [{key: one[key] for key in KEPT if one.get(key) is not None} for one in messages if one["role"] != "system"]
    return [{"content": "", **one} for one in plain]


class Scripted(BaseLLM):
    """A language model that answers as the script says."""

    follows: Any = None

    def call(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Return the answer."""
        view = chat_of(messages)
        said = self.follows.answer(view)
        self._track_token_usage_internal({"prompt_tokens": len(json.dumps(view)) // 4, "completion_tokens": 20})
        return [
            {
                "id": one["id"],
                "type": "function",
                "function": {"name": one["name"], "arguments": json.dumps(one["args"])},
            }
            for one in said["calls"]
        ] or said["content"]

    async def acall(self, messages: Any, *given: Any, **named: Any) -> Any:
        """Return the answer."""
        return self.call(messages)

    def supports_function_calling(self) -> bool:
        """Say that it calls functions."""
        return True


def agent_of(model: BaseLLM, tools: list[Any]) -> Agent:
    """Return an agent."""
    return Agent(role="reader", goal="Read logs.", backstory="You read logs.", llm=model, tools=tools)


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*."""
    jettison = JettisonConversation(job.nats, job.name, budget=job.budget, policy=job.policy)

    @tool
    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    @tool
    def ask_helper(about: str) -> str:
        """Ask another agent."""
        helper = agent_of(jettison.llm(Scripted(model="s", follows=job.helper)), [log_of])
        return str(helper.kickoff(script.asked(int(about) + 1000)).raw)

    model = jettison.llm(Scripted(model="s", follows=job.script))
    agent = agent_of(model, [log_of, ask_helper, jettison.read_tool()])
    history: list[Any] = job.state or []
    for turn in job.turns:
        question = {"role": "user", "content": script.asked(turn)}
        output = await agent.kickoff_async([*history, question])
        history = [one for one in output.messages if one["role"] != "system"]
    job.conversations = list(jettison.adapter.names())
    jettison.close()
    job.said = chat_of(history)
    return {"state": history}


if __name__ == "__main__":
    main(run)
