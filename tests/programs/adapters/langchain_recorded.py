"""LangChain's own middlewares, and our adapter, on a recorded run."""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, SummarizationMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver

from protocol.langchain import JettisonMiddleware
from tests.programs.adapters.langchain_run import Scripted
from tests.programs.adapters.recorded import Json, Recorded, main

ANY = {"type": "object", "properties": {}, "additionalProperties": True}
BEGINS = 0.8
"""Of the budget: where the summary begins (its documentation's share of a window); the newest 20 messages stay."""


class Summarizer(GenericFakeChatModel):
    """The model that summarizes."""

    recorded: Any
    messages: Any = iter(())

    def _generate(self, messages: Any, *given: Any, **named: Any) -> Any:
        self.messages = iter([AIMessage(self.recorded.retold(str(messages[-1].content)))])
        return super()._generate(messages, *given, **named)


def middleware_of(system: str, recorded: Recorded, job: Json) -> list[Any]:
    """Return what stands between the agent and its model."""
    if system == "langchain clear":
        return [ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=job["budget"])])]
    if system == "langchain summary":
        trigger = ("tokens", int(job["budget"] * BEGINS))
        return [SummarizationMiddleware(model=Summarizer(recorded=recorded), trigger=trigger)]
    # a budget of ours is what is left beside the instructions
    return [JettisonMiddleware(job["nats"], budget=job["budget"] - job["instructions"])]


async def run(system: str, recorded: Recorded, job: Json) -> None:
    """Ask all questions of the recording."""

    def tool_of(name: str) -> StructuredTool:
        def call(**args: Any) -> str:
            return recorded.result(name, args)

        return StructuredTool.from_function(func=call, name=name, description=name, args_schema=ANY)

    agent = create_agent(
        Scripted(script=recorded),
        [tool_of(name) for name in recorded.tools],
        system_prompt=recorded.instructions,
        middleware=middleware_of(system, recorded, job),
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": job["name"]}, "recursion_limit": 1000}
    for question in recorded.questions:
        await agent.ainvoke({"messages": [("user", question)]}, config)


if __name__ == "__main__":
    main(run)
