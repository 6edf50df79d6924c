"""LlamaIndex: an agent whose language model is a scripted `FunctionCallingLLM`."""

from __future__ import annotations

import json
from typing import Any

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata, TextBlock, ToolCallBlock
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool
from pydantic import PrivateAttr

from protocol.llama_index import JettisonMemory
from tests.programs.adapters import script
from tests.programs.adapters.running import Run, main


def chat_of(messages: Any) -> list[script.Json]:
    """Return LlamaIndex's messages as OpenAI chat has them."""
    out: list[script.Json] = []
    for message in messages:
        calls = [
            {
                "id": one.tool_call_id,
                "type": "function",
                "function": {"name": one.tool_name, "arguments": arguments(one)},
            }
            for one in message.blocks
            if isinstance(one, ToolCallBlock)
        ]
        told: script.Json = {"role": message.role.value, "content": message.content or ""}
        if told["role"] == "tool":
            told["tool_call_id"] = message.additional_kwargs["tool_call_id"]
        if told["role"] != "system":
            out.append(told | ({"tool_calls": calls} if calls else {}))
    return out


def arguments(call: ToolCallBlock) -> str:
    """Return the arguments of a call as JSON."""
    return call.tool_kwargs if isinstance(call.tool_kwargs, str) else json.dumps(call.tool_kwargs)


class Scripted(FunctionCallingLLM):
    """A language model that answers as the script says, whole or streamed."""

    _follows: script.Script = PrivateAttr()

    def __init__(self, follows: script.Script) -> None:
        super().__init__()
        self._follows = follows

    @property
    def metadata(self) -> LLMMetadata:
        """Return what it can do."""
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    def chat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        """Return the answer."""
        view = chat_of(messages)
        said = self._follows.answer(view)
        blocks: list[Any] = [TextBlock(text=said["content"])] if said["content"] else []
        for one in said["calls"]:
            blocks.append(ToolCallBlock(tool_call_id=one["id"], tool_name=one["name"], tool_kwargs=one["args"]))
        used = {"prompt_tokens": len(json.dumps(view)) // 4, "completion_tokens": 20}
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), additional_kwargs=used)

    async def achat(self, messages: Any, **kwargs: Any) -> ChatResponse:
        """Return the answer."""
        return self.chat(messages)

    async def astream_chat(self, messages: Any, **kwargs: Any) -> Any:
        """Return a stream of the answer."""

        async def parts() -> Any:
            response = self.chat(messages)
            yield ChatResponse(message=ChatMessage(response.message.content or "", role="assistant"), delta="…")
            yield response

        return parts()

    def _prepare_chat_with_tools(self, tools: Any, chat_history: Any = None, **kwargs: Any) -> dict[str, Any]:
        return {"messages": chat_history or []}

    def get_tool_calls_from_response(self, response: ChatResponse, **kwargs: Any) -> list[ToolSelection]:
        """Return the calls in an answer."""
        return [
            ToolSelection(tool_id=one.tool_call_id, tool_name=one.tool_name, tool_kwargs=one.tool_kwargs)
            for one in response.message.blocks
            if isinstance(one, ToolCallBlock)
        ]

    def stream_chat(self, *given: Any, **named: Any) -> Any:
        """Do nothing."""
        raise NotImplementedError

    complete = acomplete = stream_complete = astream_complete = stream_chat


class Told(JettisonMemory):
    """A memory that remembers what it was told."""

    _told: list[ChatMessage] = PrivateAttr(default_factory=list)

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Remember *messages* and pass them on."""
        self._told += messages
        super().put_messages(messages)


async def run(job: Run) -> dict[str, Any]:
    """Take the turns of *job*; every third of them streamed."""
    memory = Told(job.nats, job.name, budget=job.budget, policy=job.policy)

    def log_of(service: str) -> str:
        """Return the log of a service."""
        return script.log_of(service)

    helps = memory.llm(Scripted(job.helper))
    reads = FunctionTool.from_defaults(log_of)
    helper = FunctionAgent(llm=helps, tools=[reads], streaming=False)

    async def ask_helper(about: str) -> str:
        """Ask another agent."""
        return str(await helper.run(script.asked(int(about) + 1000)))

    tools = [reads, FunctionTool.from_defaults(async_fn=ask_helper), memory.read_tool()]
    given: dict[str, Any] = {"llm": memory.llm(Scripted(job.script)), "tools": tools, "system_prompt": "You read logs."}
    whole, streaming = FunctionAgent(streaming=False, **given), FunctionAgent(streaming=True, **given)
    for turn in job.turns:
        await (streaming if turn % 3 == 1 else whole).run(script.asked(turn), memory=memory)
    job.conversations = list(memory.adapter.names())
    memory.close()
    job.said = [*(job.state or ()), *chat_of(memory._told)]
    return {"state": job.said}


if __name__ == "__main__":
    main(run)
