"""What has to be true in the end: of each log, and of what it holds of its agent's history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from protocol.formats import messages
from protocol.ids import Address, address
from storage.ports import EventLog
from tests.programs.gateway_faults.agents import Agent, Json
from tests.said import said_messages

READ = '"read_artifact"'


async def wrong_logs(agents: Sequence[Agent], *, log: EventLog) -> list[str]:
    """Return what is wrong in any log: a message twice, one of another agent, one that its agent never had."""
    wrong: list[str] = []
    said = {at: await _said(at, log=log) for at in await log.addresses()}
    for at, texts in said.items():
        owners = {agent.run for agent in agents for text in texts if agent.run in text}
        if len(owners) > 1:
            wrong.append(f"{at} holds messages of {', '.join(sorted(owners))}")
        twice = {text for text in texts if texts.count(text) > 1 and READ not in text}
        wrong += [f"{at} holds twice: {text[:200]}" for text in twice]
    for agent in agents:
        # who hangs up before the first answer and asks again has opened two
        own = {
            at: len(texts) for at, texts in said.items() if len(texts) > 1 and any(agent.run in text for text in texts)
        }
        if len(own) != 1:
            wrong.append(f"{agent.run} has {len(own)} logs: {', '.join(f'{at} of {n}' for at, n in own.items())}")
        last = address(agent.last.get("x-jettison-conversation", "none"))
        if last not in said:
            wrong.append(f"{agent.run} ended without a conversation: {dict(agent.last).get('x-jettison')}")
            continue
        wrong += [f"{agent.run}: {one}" for one in _unlike(said[last], agent)]
    return wrong


async def _said(at: Address, *, log: EventLog) -> list[str]:
    return [json.dumps(messages.decode(one.raw)) for one in await said_messages(at, log=log)]


def _unlike(log: Sequence[str], agent: Agent) -> list[str]:
    """Return how a log is unlike its agent's history, whose last answer nobody sent back."""
    known = _pairs(json.loads(text) for text in log)
    sent = _pairs(agent.history[: -len(json.loads(agent.answer or "[0]"))])
    ours = [one for one in known if one not in sent]
    # what its agent did not see are reads and their results, each pair whole
    reads = {ident for kind, ident in ours if kind == "call"}
    answered = {ident for kind, ident in ours if kind == "result"}
    missing = [one for one in sent if one not in known]
    wrong = [f"not in its log: {missing[:3]}"] if missing else []
    if [one for one in known if one in sent] != sent:
        wrong.append("its log has another order")
    if reads != answered:
        wrong.append(f"its log has half pairs: {sorted(reads ^ answered)[:3]}")
    return wrong


def _pairs(history: Iterable[Json]) -> list[tuple[str, str]]:
    """Return the calls and results of a history, in order, by their ids."""
    return [(kind, ident) for kind, ident, _ in spoken(history) if kind != "user"]


def spoken(history: Iterable[Json]) -> list[tuple[str, str, str]]:
    """Return what an agent itself said in a history of any API, and the calls of its model: kind, id and words."""
    return [one for message in history for one in _of(message)]


def _of(message: Json) -> list[tuple[str, str, str]]:
    if message.get("type") == "function_call":
        return [("call", message["call_id"], _arguments(message["arguments"]))]
    if message.get("type") == "function_call_output":
        return [("result", message["call_id"], _text(message["output"]))]
    if message.get("role") == "tool":
        return [("result", message["tool_call_id"], _text(message["content"]))]
    out = [("call", one["id"], _arguments(one["function"]["arguments"])) for one in message.get("tool_calls") or ()]
    content: Any = message.get("content")
    for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if block["type"] == "tool_use":
            out.append(("call", block["id"], _arguments(block["input"])))
        elif block["type"] == "tool_result":
            out.append(("result", block["tool_use_id"], _text(block["content"])))
        elif message.get("role") == "user":
            out.append(("user", "", block["text"]))
    return out


def _arguments(given: Any) -> str:
    return json.dumps(json.loads(given) if isinstance(given, str) else given, sort_keys=True)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block["text"] for block in content)
