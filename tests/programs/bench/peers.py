"""What users would pick instead, as one call on a whole history; each takes OpenAI messages and a budget.

A peer's own message objects are made outside the timed call. Where a peer asks a model, a fake one answers at
once, so that its row is its own work. Run in the environment `.venv-bench` only; nothing of ours imports these.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from actors.model_info.tokens import load

Json = dict[str, Any]
Call = Callable[[], object]
Peer = Callable[[Sequence[Json], int], Call]

QUIET = {
    "HEADROOM_OFFLINE": "1",
    "HEADROOM_TELEMETRY": "off",
    "HAYSTACK_TELEMETRY_ENABLED": "False",
    "HF_HUB_OFFLINE": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OTEL_SDK_DISABLED": "true",
}
"""Nobody may look for a model, a price list or a collector while it is timed."""


def quieted() -> None:
    """Keep the peers off the network and their warnings off the terminal."""
    os.environ.update(QUIET)
    os.environ.setdefault("HEADROOM_HOME", tempfile.mkdtemp(prefix="bench-headroom-"))
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)


def langchain_trim_tiktoken(said: Sequence[Json], budget: int) -> Call:
    """Return `trim_messages` with exact counts."""
    from langchain_core.messages import trim_messages

    converted, encode = _langchain(said), load("o200k_base").encode_ordinary

    def count(messages: Sequence[Any]) -> int:
        return sum(len(encode(str(message.content))) + 3 for message in messages)

    return lambda: trim_messages(
        converted, strategy="last", token_counter=count, max_tokens=budget, include_system=True, start_on="human"
    )


def langchain_trim_approximate(said: Sequence[Json], budget: int) -> Call:
    """Return `trim_messages` with its own estimate, four characters to a token."""
    from langchain_core.messages import trim_messages

    converted = _langchain(said)
    return lambda: trim_messages(
        converted,
        strategy="last",
        token_counter="approximate",
        max_tokens=budget,
        include_system=True,
        start_on="human",
    )


def langchain_trigger(said: Sequence[Json], budget: int) -> Call:
    """Return the check of the summarization middleware that finds nothing to do, with its own estimate."""
    from langchain.agents.middleware import SummarizationMiddleware

    state: Any = {"messages": _langchain(said)}
    runtime: Any = None
    middleware = SummarizationMiddleware(_fake_model(), trigger=("tokens", 10**9), keep=("messages", 20))
    return lambda: middleware.before_model(state, runtime)


def langchain_summarize(said: Sequence[Json], budget: int) -> Call:
    """Return a whole compaction of the summarization middleware by a model that answers at once."""
    from langchain.agents.middleware import SummarizationMiddleware

    state: Any = {"messages": _langchain(said)}
    runtime: Any = None
    middleware = SummarizationMiddleware(_fake_model(), trigger=("tokens", 10), keep=("tokens", budget // 2))
    return lambda: middleware.before_model(state, runtime)


def haystack_window(said: Sequence[Json], budget: int) -> Call:
    """Return the sliding window compactor with exact counts."""
    from haystack.dataclasses import ChatMessage, ToolCall
    from haystack.hooks.compaction import SlidingWindowCompactor

    calls: dict[str, Any] = {}
    converted: list[Any] = []
    for message in said:
        text = message["content"] or None
        for call in message.get("tool_calls", ()):
            asked = call["function"]
            calls[call["id"]] = ToolCall(
                id=call["id"], tool_name=asked["name"], arguments=json.loads(asked["arguments"])
            )
        match message["role"]:
            case "system":
                converted.append(ChatMessage.from_system(text))
            case "user":
                converted.append(ChatMessage.from_user(text))
            case "tool":
                converted.append(ChatMessage.from_tool(text or "", origin=calls[message["tool_call_id"]]))
            case _:
                made = [calls[call["id"]] for call in message.get("tool_calls", ())]
                converted.append(ChatMessage.from_assistant(text, tool_calls=made))
    encode = load("o200k_base").encode_ordinary

    def text_of(message: Any) -> str:
        return message.text or (str(message.tool_call_result.result) if message.tool_call_result else "")

    def count(messages: Sequence[Any], tools: Any = None) -> int:
        return sum(len(encode(text_of(message))) + 3 for message in messages)

    counter: Any = SimpleNamespace(count=count)
    return lambda: SlidingWindowCompactor().compact(converted, budget, counter)


def adk_estimate(said: Sequence[Json], budget: int) -> Call:
    """Return the estimate of the prompt that ADK makes at each turn."""
    from google.adk.apps import compaction

    events = _adk_events(said)
    return lambda: compaction._latest_prompt_token_count(events, agent_name="agent")


def adk_compact(said: Sequence[Json], budget: int) -> Call:
    """Return ADK's compaction by tokens, with a summarizer that answers at once."""
    from google.adk.apps import compaction
    from google.adk.apps.app import EventsCompactionConfig
    from google.adk.apps.base_events_summarizer import BaseEventsSummarizer
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions, EventCompaction
    from google.genai import types

    class AtOnce(BaseEventsSummarizer):  # type: ignore[misc,unused-ignore]
        async def maybe_summarize_events(self, *, events: list[Any]) -> Any:
            told = EventCompaction(
                start_timestamp=events[0].timestamp,
                end_timestamp=events[-1].timestamp,
                compacted_content=types.Content(role="model", parts=[types.Part(text="summary")]),
            )
            return Event(author="user", invocation_id="c", actions=EventActions(compaction=told))

    async def kept(*, session: Any, event: Any) -> Any:
        return event

    wanted = EventsCompactionConfig(
        summarizer=AtOnce(),
        compaction_interval=10**6,
        overlap_size=0,
        token_threshold=100,
        event_retention_size=50,
    )
    session: Any = SimpleNamespace(id="s", events=_adk_events(said))
    service: Any = SimpleNamespace(append_event=kept)
    agent: Any = None
    loop = asyncio.new_event_loop()
    return lambda: loop.run_until_complete(
        compaction._run_compaction_for_token_threshold_config(
            config=wanted, session=session, session_service=service, agent=agent, agent_name=""
        )
    )


def headroom_compress(said: Sequence[Json], budget: int) -> Call:
    """Return `compress` without its text model, which needs a download."""
    from headroom import compress

    plain = [dict(message) for message in said]
    return lambda: compress(plain, model="gpt-4o", model_limit=budget, kompress_model="disabled")


def naive_recount(said: Sequence[Json], budget: int) -> Call:
    """Return the plainest exact check: tiktoken over everything."""
    encode = load("o200k_base").encode_ordinary
    return lambda: sum(len(encode(message["content"] or "")) + 3 for message in said)


PEERS: dict[str, Peer] = {
    "langchain trim, tiktoken": langchain_trim_tiktoken,
    "langchain trim, approximate": langchain_trim_approximate,
    "langchain trigger, approximate": langchain_trigger,
    "langchain summarization": langchain_summarize,
    "haystack window": haystack_window,
    "adk estimate": adk_estimate,
    "adk compaction": adk_compact,
    "headroom": headroom_compress,
    "naive recount": naive_recount,
}


def _fake_model() -> Any:
    from langchain_core.language_models.fake_chat_models import FakeListChatModel

    return FakeListChatModel(responses=["a summary of the conversation"])


def _langchain(said: Sequence[Json]) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    out: list[Any] = []
    for index, message in enumerate(said):
        ident, text = f"m{index}", message["content"] or ""
        match message["role"]:
            case "system":
                out.append(SystemMessage(text, id=ident))
            case "user":
                out.append(HumanMessage(text, id=ident))
            case "tool":
                out.append(ToolMessage(text, tool_call_id=message["tool_call_id"], id=ident))
            case _:
                calls = [
                    {
                        "id": call["id"],
                        "name": call["function"]["name"],
                        "args": json.loads(call["function"]["arguments"]),
                        "type": "tool_call",
                    }
                    for call in message.get("tool_calls", ())
                ]
                out.append(AIMessage(text, tool_calls=calls, id=ident))
    return out


def _adk_events(said: Sequence[Json]) -> list[Any]:
    from google.adk.events.event import Event
    from google.genai import types

    out: list[Any] = []
    for index, message in enumerate(said):
        text = message["content"] or ""
        if message["role"] == "system":
            continue
        if message["role"] == "tool":
            answer = types.FunctionResponse(id=message["tool_call_id"], name="read", response={"result": text})
            parts = [types.Part(function_response=answer)]
        elif message.get("tool_calls"):
            parts = [
                types.Part(
                    function_call=types.FunctionCall(
                        id=call["id"],
                        name=call["function"]["name"],
                        args=json.loads(call["function"]["arguments"]),
                    )
                )
                for call in message["tool_calls"]
            ]
        else:
            parts = [types.Part(text=text)]
        content = types.Content(role="model" if message["role"] == "assistant" else "user", parts=parts)
        author = "agent" if message["role"] in ("assistant", "tool") else "user"
        out.append(Event(author=author, timestamp=float(index), invocation_id=f"i{index}", content=content))
    return out
