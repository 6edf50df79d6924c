"""LangChain: an agent of `create_agent`, whose model is a scripted `BaseChatModel`."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    convert_to_openai_messages,
    messages_from_dict,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from protocol.langchain import JettisonMiddleware
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


class Scripted(BaseChatModel):
    """A chat model that answers as the script says, whole or streamed."""

    script: Any

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        view = convert_to_openai_messages([one for one in messages if one.type != "system"])
        said = self.script.answer(view)
        used = {"input_tokens": len(json.dumps(view)) // 4, "output_tokens": 20, "total_tokens": 0}
        answer = AIMessage(content=said["content"], tool_calls=said["calls"], usage_metadata=used)
        return ChatResult(generations=[ChatGeneration(message=answer)])

    def _stream(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:
        answer = self._generate(messages).generations[0].message
        chunks = [
            {
                "id": one["id"],
                "name": one["name"],
                "args": json.dumps(one["args"]),
                "index": place,
                "type": "tool_call_chunk",
            }
            for place, one in enumerate(answer.tool_calls)
        ]
        for word in answer.content.split(" "):
            yield ChatGenerationChunk(message=AIMessageChunk(content=f"{word} "))
        last = AIMessageChunk(content="", tool_call_chunks=chunks, usage_metadata=answer.usage_metadata)
        yield ChatGenerationChunk(message=last)


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed, every third from code that is not async."""
    model = Scripted(script=job.script)
    jettison = JettisonMiddleware(job.nats, budget=job.budget, policy=job.policy)

    @tool
    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    helper = create_agent(Scripted(script=job.helper), [log_of], middleware=[jettison])

    @tool
    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        done = await helper.ainvoke({"messages": [("user", script.asked(int(about) + 1000))]})
        return str(done["messages"][-1].content)

    agent = create_agent(model, [log_of, ask_helper], system_prompt="You read logs.", middleware=[jettison])
    config: Any = {"configurable": {"thread_id": job.name}}
    history = messages_from_dict(job.state or [])
    for turn in job.turns:
        given: Any = {"messages": [*history, ("user", script.asked(turn))]}
        if turn % 3 == 0 and turn != script.HELPED:
            history = (await asyncio.to_thread(agent.invoke, given, config))["messages"]
        elif turn % 3 == 1:
            async for mode, seen in agent.astream(given, config, stream_mode=["values", "messages"]):
                history = seen["messages"] if mode == "values" else history
        else:
            history = (await agent.ainvoke(given, config))["messages"]
    job.conversations = list(jettison.adapter.names())
    jettison.adapter.close()
    job.said = convert_to_openai_messages(history)
    return {"state": messages_to_dict(history)}


if __name__ == "__main__":
    main(run)
