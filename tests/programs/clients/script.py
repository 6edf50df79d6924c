"""Script: a provider with a window that is enforced, whose model works through a task by its client's own shell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protocol.formats.messages import RESPONSES
from protocol.tools import READ_TOOL
from tests.gateway.model import API_OF, Json, Reply, refusal, refused, said, size_of
from tests.gateway.provider import Answer, Asked

from .agents import RUN_HEADER

REPEATS_MAX = 40
"""Of steps in one run: a client that cannot work at all must come to an end."""

BIG_EVERY = 6
BIG_BYTES = 100_000
SMALL_BYTES = 3_000

SHELLS = ("Bash", "bash", "exec_command", "shell_command", "shell", "run_shell_command")
"""Names that clients give to the tool that runs a command."""

COMPACTS = (
    *("CRITICAL: Respond with TEXT ONLY", "CONTEXT CHECKPOINT COMPACTION"),
    *("create a detailed summary of the conversation", "Your task is to create a detailed summary"),
)
"""By these words clients ask for a summary, with the tools of their turns."""

NOTICE = "<task-notification>"
"""A sub-agent of Claude Code's that ended: where its turn of the user had ended before it, there is nothing to do."""


@dataclass(frozen=True)
class Look:
    """Read the log of one step, and note that it was read."""

    step: int


@dataclass(frozen=True)
class ReadBack:
    """Read an old message again by the gateway's tool; passed over where there is none."""

    key: str = "messages:1"


@dataclass(frozen=True)
class Delegate:
    """Give a task to a sub-agent; passed over where the client has none."""


@dataclass(frozen=True)
class Say:
    """End the turn of the user with these words."""

    text: str


Step = Look | ReadBack | Delegate | Say


@dataclass(kw_only=True)
class Run:
    """One client's run: what its model does next, and what it was sent."""

    steps: Sequence[Step]
    notes: Path
    """Where each step that was done is noted."""
    at: int = 0
    repeats: int = 0
    requests: int = 0
    sent: list[int] = field(default_factory=list)
    """Tokens of each request that was answered."""
    refusals: list[str] = field(default_factory=list)
    side: int = 0
    bodies: list[bytes] = field(default_factory=list)
    sub: dict[str, int] = field(default_factory=dict)
    items: dict[str, Json] = field(default_factory=dict)
    """Of Responses, which a client may name by its id from then on."""

    @property
    def done(self) -> list[int]:
        """Return the steps whose commands ran, in order."""
        return [int(line) for line in self.notes.read_text().split()] if self.notes.exists() else []

    @property
    def is_undone(self) -> bool:
        """Tell whether the newest step is one that nobody did."""
        step = self.steps[self.at - 1] if 0 < self.at <= len(self.steps) else None
        return isinstance(step, Look) and step.step not in self.done


@dataclass(kw_only=True)
class Upstream:
    """Judges and answers the requests of all runs, each known by its header or key."""

    window: int
    runs: dict[str, Run] = field(default_factory=dict)
    unknown: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Answer:
        path = asked.target.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            return Answer(pieces=(json.dumps({"input_tokens": size_of(asked.json)}).encode(),))
        if path not in API_OF:
            self.unknown.append(f"{asked.method} {path}")
            return Answer(status=404, pieces=(b'{"error":{"message":"no such route","type":"not_found_error"}}',))
        api, run = API_OF[path], self.runs[_name_of(asked)]
        body = _resolved(asked.json, run)
        run.requests += 1
        size = size_of(body)
        run.bodies.append(asked.body)
        if why := refusal(api, body, size=size, window=self.window):
            run.refusals.append(why)
            return refused(api, why, size=size, window=self.window)
        run.sent.append(size)
        reply = _reply(run, asked, body)
        if api == RESPONSES or (body.get("thinking") or {}).get("type", "disabled") != "disabled":
            reply = Reply(text=reply.text, calls=reply.calls, thinks=f"thought {run.requests}")
        answer = said(api, body, reply, ident=f"{_name_of(asked)}x{run.requests}", size=size)
        _remember(run, answer)
        return answer


def _resolved(body: Json, run: Run) -> Json:
    """Return a request with the items that it only names, as a provider does that keeps them."""
    given = body.get("input")
    if not isinstance(given, list):
        return body
    kept = (run.items.get(one.get("id"), one) if one.get("type") == "item_reference" else one for one in given)
    return {**body, "input": list(kept)}


def _remember(run: Run, answer: Answer) -> None:
    events = b"".join(piece for piece in answer.pieces if isinstance(piece, bytes)).split(b"\n\n")
    for data in (event.partition(b"data: ")[2] for event in events if b"response.output_item.done" in event):
        item = json.loads(data)["item"]
        run.items[item["id"]] = item


def _name_of(asked: Asked) -> str:
    key = asked.header("authorization").removeprefix("Bearer ") or asked.header("x-api-key")
    return asked.header(RUN_HEADER) or key.removeprefix("sk-")


def _reply(run: Run, asked: Asked, body: Json) -> Reply:
    tools = {tool.get("name") or (tool.get("function") or {}).get("name"): tool for tool in body.get("tools") or ()}
    shell = next((name for name in SHELLS if name in tools), "")
    last = json.dumps((body.get("messages") or body["input"])[-1])
    if not shell or any(words in last for words in COMPACTS):
        run.side += 1
        return Reply(text="Summary: the logs are read one by one, each is noted in notes.txt. Next: go on.")
    if agent := asked.header("x-claude-code-agent-id") or asked.header("x-parent-session-id"):
        return _of_sub_agent(run, agent, tools[shell])
    if NOTICE in last and run.at and isinstance(ended := run.steps[min(run.at, len(run.steps)) - 1], Say):
        return Reply(text=ended.text)
    if run.is_undone and run.repeats < REPEATS_MAX:
        # its client threw the answer away, as with some summaries
        run.at, run.repeats = run.at - 1, run.repeats + 1
    while True:
        step = run.steps[run.at] if run.at < len(run.steps) else Say("There is nothing left to do.")
        run.at += 1
        match step:
            case Look(number):
                command = f"cat log-{number:02}.txt && echo {number} >> notes.txt"
                return Reply(text=f"Step {number}: I look.", calls=((shell, arguments_of(tools[shell], command)),))
            case ReadBack(key):
                if READ_TOOL in tools:
                    return Reply(calls=((READ_TOOL, {"key": key}),))
            case Delegate():
                name = next((one for one in ("Agent", "Task", "task") if one in tools), "")
                if name:
                    asks = {"prompt": "SUBTASK: read log-00.txt", "description": "read a log"}
                    kind = {"subagent_type": "general-purpose"} if name != "task" else {"subagent_type": "general"}
                    return Reply(text="I delegate.", calls=((name, {**asks, **kind}),))
            case Say(text):
                return Reply(text=text)


def _of_sub_agent(run: Run, agent: str, shell: Json) -> Reply:
    turn = run.sub[agent] = run.sub.get(agent, 0) + 1
    if turn > 3:
        return Reply(text="SUBTASK done.")
    name = shell.get("name") or shell["function"]["name"]
    return Reply(text=f"Sub-step {turn}.", calls=((name, arguments_of(shell, f"cat log-0{turn}.txt")),))


def arguments_of(tool: Json, command: str) -> Json:
    """Return the arguments that run *command*: what the tool's own schema asks for."""
    function = tool.get("function") or tool
    schema: Json = function.get("parameters") or function.get("input_schema") or {}
    known: Json = schema.get("properties") or {}
    values: dict[str, Any] = {"command": command, "cmd": command, "description": "look", "is_background": False}
    if (known.get("command") or {}).get("type") == "array":
        values["command"] = ["bash", "-c", command]
    if "max_output_tokens" in known:
        values["max_output_tokens"] = 60_000
    return {name: value for name, value in values.items() if name in known}


def written(folder: Path, name: str, steps: int) -> None:
    """Write the logs that a run reads."""
    for step in range(steps):
        size = BIG_BYTES if step % BIG_EVERY == BIG_EVERY - 1 else SMALL_BYTES
        lines = (
            f"{name} {step} request {n * 7919 % 100_003} took {n % 97} ms, {n * 31 % 101} rows\n" for n in range(size)
        )
        text = ""
        for line in lines:
            if len(text) + len(line) > size:
                break
            text += line
        (folder / f"log-{step:02}.txt").write_text(text)
