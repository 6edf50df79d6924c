"""Haystack's compaction hook, with each of its compactors, on a recorded run."""

from __future__ import annotations

from typing import Any

from haystack import component
from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage
from haystack.hooks import compaction
from haystack.tools import Tool

from tests.programs.adapters.haystack_run import Scripted
from tests.programs.adapters.recorded import Json, Recorded, main

ANY = {"type": "object", "properties": {}, "additionalProperties": True}


@component
class Summarizer:
    """The model that summarizes."""

    def __init__(self, recorded: Recorded) -> None:
        self.recorded = recorded

    @component.output_types(replies=list[ChatMessage])
    def run(self, messages: list[ChatMessage], generation_kwargs: Any = None) -> dict[str, list[ChatMessage]]:
        """Return the summary."""
        text = self.recorded.retold("\n".join(one.text or "" for one in messages))
        return {"replies": [ChatMessage.from_assistant(text)]}


async def run(system: str, recorded: Recorded, job: Json) -> None:
    """Ask all questions of the recording."""
    compactor: Any = compaction.SlidingWindowCompactor()
    if system == "haystack summary":
        compactor = compaction.SummarizationCompactor(Summarizer(recorded))
    elif system == "haystack prune":
        compactor = compaction.ToolResultPruningCompactor()

    def tool_of(name: str) -> Tool:
        return Tool(name, name, ANY, function=lambda **args: recorded.result(name, args))

    hook = compaction.CompactionHook(compactor, context_window=job["budget"])
    agent = Agent(
        chat_generator=Scripted(recorded),  # type: ignore[arg-type]
        tools=[tool_of(name) for name in recorded.tools],
        hooks={"before_llm": [hook]},
        max_agent_steps=1000,
    )
    history = [ChatMessage.from_system(recorded.instructions)]
    for question in recorded.questions:
        history = agent.run(messages=[*history, ChatMessage.from_user(question)])["messages"]


if __name__ == "__main__":
    main(run)
