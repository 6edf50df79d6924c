"""Microsoft Agent Framework: an agent whose client is a scripted `BaseChatClient`."""

from __future__ import annotations

import json
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    tool,
)

from protocol.agent_framework import JettisonMiddleware
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return the framework's messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        results = [one for one in message.contents if one.type == "function_result"]
        out += [{"role": "tool", "tool_call_id": one.call_id, "content": one.result} for one in results]
        calls = [
            {"id": one.call_id, "type": "function", "function": {"name": one.name, "arguments": arguments_of(one)}}
            for one in message.contents
            if one.type == "function_call"
        ]
        if not results:
            out.append({"role": message.role, "content": message.text} | ({"tool_calls": calls} if calls else {}))
    return out


def arguments_of(call: Content) -> str:
    """Return the arguments of a call as JSON."""
    return json.dumps(call.parse_arguments())


class Scripted(FunctionInvocationLayer[Any], ChatMiddlewareLayer[Any], BaseChatClient[Any]):
    """A chat client that answers as the script says, whole or streamed."""

    def __init__(self, follows: script.Script) -> None:
        super().__init__()
        self.follows = follows

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        if stream:
            return ResponseStream(self._streamed(messages), finalizer=ChatResponse.from_updates)
        return self._whole(messages)

    async def _whole(self, messages: Any) -> ChatResponse:
        contents, used = self._said(messages)
        return ChatResponse(messages=[Message(role="assistant", contents=contents)], usage_details=used)

    async def _streamed(self, messages: Any) -> Any:
        contents, used = self._said(messages)
        for one in contents:
            yield ChatResponseUpdate(role="assistant", contents=[one])
        yield ChatResponseUpdate(role="assistant", contents=[Content.from_usage(used)])

    def _said(self, messages: Any) -> tuple[list[Content], Any]:
        view = chat_of([one for one in messages if one.role != "system"])
        said = self.follows.answer(view)
        text = [Content.from_text(said["content"])] if said["content"] else []
        calls = [Content.from_function_call(one["id"], one["name"], arguments=one["args"]) for one in said["calls"]]
        return [*text, *calls], {"input_token_count": len(json.dumps(view)) // 4, "output_token_count": 20}


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    jettison = JettisonMiddleware(job.nats, budget=job.budget, policy=job.policy)

    @tool(approval_mode="never_require")
    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    helper = Agent(client=Scripted(job.helper), tools=[log_of], middleware=[jettison])

    @tool(approval_mode="never_require")
    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        return str((await helper.run(script.asked(int(about) + 1000))).text)

    tools = [log_of, ask_helper, jettison.read_tool()]
    agent = Agent(client=Scripted(job.script), instructions="You read logs.", tools=tools, middleware=[jettison])
    session = AgentSession.from_dict(job.state) if job.state else AgentSession(session_id=job.name)
    for turn in job.turns:
        if turn % 3 == 1 and turn not in script.OVERFLOWS:
            streamed = agent.run(script.asked(turn), session=session, stream=True)
            async for _ in streamed:
                pass
            await streamed.get_final_response()
        else:
            await agent.run(script.asked(turn), session=session)
    job.conversations = list(jettison.adapter.names())
    jettison.adapter.close()
    state = session.to_dict()
    job.said = chat_of(history(session))
    return {"state": state}


def history(session: AgentSession) -> list[Message]:
    """Return all messages that the session keeps."""
    return [message for kept in session.state.values() for message in kept.get("messages", ())]


if __name__ == "__main__":
    main(run)
