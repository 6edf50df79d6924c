"""Systems: our rules, and what a Python user would pick instead, in their modes without a model.

Each peer gets its documented defaults and the same budget, through its public API; one that keeps state keeps it.
The peers are imported where they are used: they live in an environment of their own (`.venv-bench`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.programs.bench.peers import quieted
from tests.programs.quality.lived import Json, System, cleaned, tokens_of

HIGH, LOW = 0.7, 0.4
"""Where Haystack's compaction hook begins, and what it goes down to (its defaults)."""


class Everything:
    """The baseline: the whole history."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.said: list[Json] = []

    def append(self, new: list[Json]) -> None:
        """Append OpenAI chat messages."""
        self.said += new

    def view(self) -> list[Json]:
        """Return all of them."""
        return list(self.said)


class LangChainTrim(Everything):
    """`trim_messages`: the newest that fit, beginning with a user's."""

    def view(self) -> list[Json]:
        """Return what is left."""
        from langchain_core.messages import trim_messages
        from langchain_core.messages.utils import count_tokens_approximately

        kept = trim_messages(
            _langchain(self.said),
            max_tokens=self.budget,
            token_counter=count_tokens_approximately,
            strategy="last",
            start_on="human",
            include_system=True,
        )
        return _from_langchain(self.said, kept)


class LangChainClear(Everything):
    """`ClearToolUsesEdit` of the context editing middleware: old results give way to a placeholder."""

    def view(self) -> list[Json]:
        """Return what is left."""
        from langchain.agents.middleware import ClearToolUsesEdit
        from langchain_core.messages.utils import count_tokens_approximately

        converted = _langchain(self.said)
        ClearToolUsesEdit(trigger=self.budget).apply(converted, count_tokens=count_tokens_approximately)
        return _from_langchain(self.said, converted)


class HaystackWindow(Everything):
    """`SlidingWindowCompactor` between the marks of its hook."""

    name = "SlidingWindowCompactor"

    def __init__(self, budget: int) -> None:
        super().__init__(budget)
        self._calls: dict[str, Any] = {}

    def view(self) -> list[Json]:
        """Return what is left, and go on from it."""
        from haystack.hooks import compaction

        if tokens_of(self.said) > self.budget * HIGH:
            compactor = getattr(compaction, self.name)()
            left = compactor.compact(self._converted(), int(self.budget * LOW), _HaystackCounter())
            self.said = cleaned(_from_haystack(left)) if left else self.said
        return list(self.said)

    def _converted(self) -> list[Any]:
        from haystack.dataclasses import ChatMessage, ToolCall

        out = []
        for one in self.said:
            text = one.get("content") or ""
            if one["role"] == "system":
                out.append(ChatMessage.from_system(text))
            elif one["role"] == "user":
                out.append(ChatMessage.from_user(text))
            elif one["role"] == "tool":
                out.append(ChatMessage.from_tool(text, origin=self._calls[one["tool_call_id"]]))
            else:
                made = {
                    call["id"]: ToolCall(id=call["id"], tool_name=call["function"]["name"], arguments=_arguments(call))
                    for call in one.get("tool_calls") or ()
                }
                self._calls |= made
                out.append(ChatMessage.from_assistant(text or None, tool_calls=list(made.values())))
        return out


class HaystackPrune(HaystackWindow):
    """`ToolResultPruningCompactor` between the marks of its hook."""

    name = "ToolResultPruningCompactor"


class Headroom(Everything):
    """`compress`, without its text model, which needs a download."""

    def view(self) -> list[Json]:
        """Return what is left."""
        from headroom import compress

        plain = json.loads(json.dumps(self.said))
        shown = compress(plain, model="gpt-4o", model_limit=self.budget, kompress_model="disabled")
        return [dict(one) for one in shown.messages]


def jettison(budget: int) -> System:
    """Return our rules; imported here, since the peers' environment has not all that they need."""
    from tests.score_adapter import Jettison

    return Jettison(budget)


OURS: Mapping[str, Callable[[int], System]] = {"jettison": jettison, "everything": Everything}
PEERS: Mapping[str, Callable[[int], System]] = {
    "langchain trim": LangChainTrim,
    "langchain clear": LangChainClear,
    "haystack window": HaystackWindow,
    "haystack prune": HaystackPrune,
    "headroom": Headroom,
}


def quiet_peers() -> None:
    """Keep the peers off the network."""
    quieted()


class _HaystackCounter:
    def count(self, messages: Any, tools: Any = None) -> int:
        return tokens_of(_from_haystack(messages))


def _from_haystack(left: Any) -> list[Json]:
    out = []
    for one in left:
        message: Json = {"role": one.role.value, "content": one.text or ""}
        if one.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.tool_name, "arguments": json.dumps(call.arguments)},
                }
                for call in one.tool_calls
            ]
        if one.tool_call_result:
            message |= {"tool_call_id": one.tool_call_result.origin.id, "content": str(one.tool_call_result.result)}
        out.append(message)
    return out


def _langchain(said: list[Json]) -> list[Any]:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    out: list[Any] = []
    for index, one in enumerate(said):
        ident, text = str(index), one.get("content") or ""
        if one["role"] == "system":
            out.append(SystemMessage(text, id=ident))
        elif one["role"] == "user":
            out.append(HumanMessage(text, id=ident))
        elif one["role"] == "tool":
            out.append(ToolMessage(text, tool_call_id=one["tool_call_id"], id=ident))
        else:
            calls = [
                {"id": call["id"], "name": call["function"]["name"], "args": _arguments(call), "type": "tool_call"}
                for call in one.get("tool_calls") or ()
            ]
            out.append(AIMessage(text, tool_calls=calls, id=ident))
    return out


def _from_langchain(said: list[Json], kept: Any) -> list[Json]:
    out = []
    for one in kept:
        source = said[int(one.id)]
        text = one.content if isinstance(one.content, str) else json.dumps(one.content)
        out.append(source if text == (source.get("content") or "") else source | {"content": text})
    return out


def _arguments(call: Json) -> Json:
    try:
        found = json.loads(call["function"]["arguments"])
    except ValueError:
        found = call["function"]["arguments"]
    return found if isinstance(found, dict) else {"raw": found}
