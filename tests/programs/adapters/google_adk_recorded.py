"""Google ADK's compaction of events on a recorded run."""

from __future__ import annotations

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.base_tool import BaseTool
from google.genai import types

from tests.programs.adapters.google_adk_run import Scripted, said_in
from tests.programs.adapters.recorded import Json, Recorded, main

BEGINS, KEPT = 0.8, 5
"""Share of the budget where it begins, and events that stay; it has no defaults. It waits for the end of a turn."""


class Summarizer(BaseLlm):
    """The model that summarizes."""

    recorded: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        """Yield the summary."""
        prompt = "\n".join(part.text or "" for content in llm_request.contents for part in content.parts)
        text = self.recorded.retold(prompt)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))


class Tool(BaseTool):
    """A tool of the recording."""

    def __init__(self, name: str, recorded: Recorded) -> None:
        super().__init__(name=name, description=name)
        self._recorded = recorded

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.name)

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        """Return what it answered."""
        return {"result": self._recorded.result(self.name, args)}


async def run(system: str, recorded: Recorded, job: Json) -> None:
    """Ask all questions of the recording."""
    agent = LlmAgent(
        name="main",
        model=Scripted(model="s", follows=recorded),
        instruction=recorded.instructions.replace("{", "(").replace("}", ")"),
        tools=[Tool(name, recorded) for name in recorded.tools],
    )
    config = EventsCompactionConfig(
        summarizer=LlmEventSummarizer(llm=Summarizer(model="s", recorded=recorded)),
        token_threshold=int(job["budget"] * BEGINS),
        event_retention_size=KEPT,
    )
    sessions = InMemorySessionService()
    app = App(name="main", root_agent=agent, events_compaction_config=config)
    runner = Runner(app=app, session_service=sessions)
    await sessions.create_session(app_name="main", user_id="u", session_id=job["name"])
    for question in recorded.questions:
        await said_in(runner, job["name"], question)


if __name__ == "__main__":
    main(run)
