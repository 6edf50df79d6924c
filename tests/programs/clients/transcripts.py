"""Transcripts: what happened in a session, as its client wrote it down and as the log has it, in one form."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from protocol.tools import READ_TOOL

Event = tuple[str, str, str]
"""Who did what (`asks`, `says`, `calls`, `gets`), the id of a call, and a text."""
Events = list[Event]
Json = Mapping[str, Any]

PROMPTS = ("Read the logs one by one", "Go on with the rest of the logs", "SUBTASK")
"""Beginnings of what users say in the runs; what else clients put into a user's mouth is not compared."""


def events_of(messages: Iterable[Json]) -> Events:
    """Return what *messages* of any API tell, without what the gateway itself read back."""
    found = [event for message in messages for event in _events(message)]
    ours = {ident for kind, ident, text in found if kind == "calls" and text == READ_TOOL}
    return [event for event in found if not (event[1] and event[1] in ours)]


def _events(message: Json) -> Iterator[Event]:
    kind, role = message.get("type"), message.get("role")
    if kind in ("function_call", "custom_tool_call"):
        yield "calls", str(message["call_id"]), str(message["name"])
    elif kind in ("function_call_output", "custom_tool_call_output"):
        yield "gets", str(message["call_id"]), text_of(message.get("output"))
    elif role == "tool":
        yield "gets", str(message["tool_call_id"]), text_of(message.get("content"))
    elif role in ("user", "assistant"):
        yield from _spoken(str(role), message)


def _spoken(role: str, message: Json) -> Iterator[Event]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    text = "".join(str(block.get("text") or "") for block in blocks)
    for block in blocks:
        if block.get("type") == "tool_result":
            yield "gets", str(block["tool_use_id"]), text_of(block.get("content"))
    if role == "user":
        yield from (("asks", "", prompt) for prompt in PROMPTS if prompt in text)
    elif text:
        yield "says", "", text
    for block in blocks:
        if block.get("type") == "tool_use":
            yield "calls", str(block["id"]), str(block["name"])
    for call in message.get("tool_calls") or ():
        yield "calls", str(call["id"]), str((call.get("function") or call.get("custom"))["name"])


def text_of(content: Any) -> str:
    """Return the texts of *content*, which is one or has blocks with some."""
    if isinstance(content, list):
        return "".join(str(block.get("text") or "") for block in content)
    return str(content or "")


def _lines(file: Path) -> list[Json]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def claude_sessions(home: Path) -> list[Events]:
    """Return Claude Code's sessions and those of its sub-agents."""
    out = []
    for file in sorted((home / "claude" / "projects").rglob("*.jsonl")):
        spoken = [line for line in _lines(file) if line.get("type") in ("user", "assistant")]
        out.append(events_of(line["message"] for line in spoken if not line.get("isMeta")))
    return out


def codex_sessions(home: Path) -> list[Events]:
    """Return the items of Codex' rollouts."""
    return [
        events_of(line["payload"] for line in _lines(file) if line["type"] == "response_item")
        for file in sorted((home / "codex" / "sessions").rglob("*.jsonl"))
    ]


def pi_sessions(home: Path) -> list[Events]:
    """Return pi's sessions, whose messages are in a form of its own."""
    out = []
    for file in sorted((home / ".pi").rglob("*.jsonl")):
        said = [line["message"] for line in _lines(file) if line["type"] == "message"]
        out.append(events_of(map(_of_pi, said)))
    return out


def _of_pi(message: Json) -> Json:
    if message["role"] == "toolResult":
        return {"role": "tool", "tool_call_id": message["toolCallId"].partition("|")[0], "content": message["content"]}
    blocks = message["content"] if isinstance(message["content"], list) else []
    calls = [one for one in blocks if one["type"] == "toolCall"]
    listed = [{"id": one["id"].partition("|")[0], "function": {"name": one["name"]}} for one in calls]
    return {**message, "tool_calls": listed}


def copilot_sessions(home: Path) -> list[Events]:
    """Return what Copilot CLI wrote of its sessions."""
    files = sorted((home / ".copilot" / "session-state").glob("*/events.jsonl"))
    return [events_of(filter(None, map(_of_copilot, _lines(file)))) for file in files]


def _of_copilot(line: Json) -> Json | None:
    data = line["data"]
    match line["type"]:
        case "user.message":
            return {"role": "user", "content": data["content"]}
        case "assistant.message":
            calls = [{"id": one["toolCallId"], "function": one} for one in data.get("toolRequests") or ()]
            return {"role": "assistant", "content": data.get("content"), "tool_calls": calls}
        case "tool.execution_complete":
            return {
                "role": "tool",
                "tool_call_id": data["toolCallId"],
                "content": (data.get("result") or {}).get("content"),
            }
        case _:
            return None


def ai_sessions(home: Path) -> list[Events]:
    """Return the one session of the AI SDK's agent."""
    return [events_of(map(_of_ai, json.loads((home / "session.json").read_text(encoding="utf-8"))))]


def _of_ai(message: Json) -> Json:
    blocks = message["content"] if isinstance(message["content"], list) else []
    if message["role"] == "tool":
        content = [
            {"type": "tool_result", "tool_use_id": one["toolCallId"], "content": one["output"]["value"]}
            for one in blocks
        ]
        return {"role": "user", "content": content}
    calls = [one for one in blocks if one["type"] == "tool-call"]
    return {
        **message,
        "tool_calls": [{"id": one["toolCallId"], "function": {"name": one["toolName"]}} for one in calls],
    }


def qwen_sessions(home: Path) -> list[Events]:
    """Return Qwen Code's chats, whose messages are in Gemini's form."""
    files = sorted((home / ".qwen" / "projects").glob("*/chats/*.jsonl"))
    return [events_of(filter(None, map(_of_qwen, _lines(file)))) for file in files]


def _of_qwen(line: Json) -> Json | None:
    kind = line["type"]
    if kind not in ("user", "assistant", "tool_result"):
        return None
    parts = line["message"]["parts"]
    called = [one["functionCall"] for one in parts if "functionCall" in one]
    answers = [one["functionResponse"] for one in parts if "functionResponse" in one]
    content = [{"type": "text", "text": one["text"]} for one in parts if "text" in one and not one.get("thought")]
    content += [_result(one["id"], one["response"].get("output")) for one in answers]
    calls = [{"id": one["id"], "function": one} for one in called]
    return {"role": "assistant" if kind == "assistant" else "user", "content": content, "tool_calls": calls}


def opencode_sessions(home: Path) -> list[Events]:
    """Return the sessions of OpenCode's database, and those of its sub-agents."""
    file = home / ".local" / "share" / "opencode" / "opencode.db"
    with closing(sqlite3.connect(file)) as kept:
        sessions = [ident for (ident,) in kept.execute("select id from session order by id")]
        return [events_of(one for said in _opencode_said(kept, ident) for one in said) for ident in sessions]


def _opencode_said(kept: sqlite3.Connection, session: str) -> Iterator[list[Json]]:
    found = kept.execute("select id, data from message where session_id = ? order by id", (session,)).fetchall()
    for ident, data in found:
        listed = kept.execute("select data from part where message_id = ? order by id", (ident,))
        yield _of_opencode(json.loads(data)["role"], [json.loads(part) for (part,) in listed])


def _of_opencode(role: str, parts: Sequence[Json]) -> list[Json]:
    text = [one for one in parts if one["type"] == "text"]
    tools = [one for one in parts if one["type"] == "tool"]
    calls = [{"id": one["callID"], "function": {"name": one["tool"]}} for one in tools]
    results = [_result(one["callID"], one["state"].get("output")) for one in tools]
    return [{"role": role, "content": text, "tool_calls": calls}, {"role": "user", "content": results}]


def _result(call: str, output: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": output}
