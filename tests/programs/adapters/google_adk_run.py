"""Google ADK: an agent whose model is a scripted `BaseLlm`."""

from __future__ import annotations

import json
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from protocol.google_adk import JettisonPlugin
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(contents: Any) -> list[script.Json]:
    """Return ADK's contents as OpenAI chat has them."""
    out: list[script.Json] = []
    for content in contents:
        calls = []
        for part in content.parts:
            if part.function_response is not None:
                text = str(part.function_response.response["result"])
                out.append({"role": "tool", "tool_call_id": part.function_response.id, "content": text})
            if part.function_call is not None:
                function = {"name": part.function_call.name, "arguments": json.dumps(part.function_call.args)}
                calls.append({"id": part.function_call.id, "type": "function", "function": function})
        text = "".join(part.text or "" for part in content.parts)
        if text or calls:
            role = "assistant" if content.role == "model" else "user"
            out.append({"role": role, "content": text} | ({"tool_calls": calls} if calls else {}))
    return out


class Scripted(BaseLlm):
    """A model that answers as the script says, whole or in two parts of a stream."""

    follows: Any

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        """Yield the answer."""
        view = chat_of(llm_request.contents)
        said = self.follows.answer(view)
        text = [types.Part(text=said["content"])] if said["content"] else []
        calls = [
            types.Part(function_call=types.FunctionCall(id=one["id"], name=one["name"], args=one["args"]))
            for one in said["calls"]
        ]
        if stream and text:
            yield LlmResponse(content=types.Content(role="model", parts=text), partial=True)
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=len(json.dumps(view)) // 4, candidates_token_count=20
        )
        yield LlmResponse(content=types.Content(role="model", parts=[*text, *calls]), usage_metadata=used)


async def said_in(runner: Runner, session: str, text: str, *, stream: bool = False) -> str:
    """Say *text* and return the answer."""
    config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answer = ""
    async for event in runner.run_async(user_id="u", session_id=session, new_message=message, run_config=config):
        if event.is_final_response() and event.content and not event.partial:
            answer = "".join(part.text or "" for part in event.content.parts or ())
    return answer


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    jettison = JettisonPlugin(job.nats, budget=job.budget, policy=job.policy)
    sessions = InMemorySessionService()

    def log_of(service: str) -> dict[str, str]:
        """Return the log of a service."""
        return {"result": script.log_of(service)}

    helper = LlmAgent(name="helper", model=Scripted(model="s", follows=job.helper), tools=[log_of])
    helping = Runner(app=App(name="helping", root_agent=helper, plugins=[jettison]), session_service=sessions)

    async def ask_helper(about: str) -> dict[str, str]:
        """Ask another agent."""
        await sessions.create_session(app_name="helping", user_id="u", session_id=f"{job.name}-help")
        return {"result": await said_in(helping, f"{job.name}-help", script.asked(int(about) + 1000))}

    tools = [log_of, ask_helper, jettison.read_tool()]
    model = Scripted(model="s", follows=job.script)
    agent = LlmAgent(name="main", model=model, instruction="You read logs.", tools=tools)
    runner = Runner(app=App(name="main", root_agent=agent, plugins=[jettison]), session_service=sessions)
    session = await sessions.create_session(app_name="main", user_id="u", session_id=job.name)
    for event in job.state or ():
        await sessions.append_event(session, Event.model_validate(event))
    for turn in job.turns:
        await said_in(runner, job.name, script.asked(turn), stream=turn % 3 == 1 and turn not in script.OVERFLOWS)
    job.conversations = list(jettison.adapter.names())
    jettison.adapter.close()
    kept = await sessions.get_session(app_name="main", user_id="u", session_id=job.name)
    assert kept is not None
    job.said = chat_of([event.content for event in kept.events if event.content and not event.partial])
    return {"state": [event.model_dump(mode="json", exclude_none=True) for event in kept.events]}


if __name__ == "__main__":
    main(run)
