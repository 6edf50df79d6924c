"""What is to hold of every run, read from the log and from what the model was sent."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.host.bootstrap import Runtime
from actors.model_info.tokens import counter
from protocol import codec
from protocol.adapters.atoms import parted
from protocol.facts import DoneFact, HistoryAccounted, HistoryDigested, OverflowReported, SaidMessage, UsageReported
from protocol.formats import messages
from protocol.formats.messages import CHAT
from protocol.formats.render import piece, render
from protocol.formats.validate import problems
from protocol.ids import address
from protocol.limits import CLAIM_BYTES_MIN
from tests.conftest import done_facts
from tests.programs.adapters.script import HELPED, OVERFLOWS, READS, Json
from tests.said import said_messages

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENTS = ROOT / ".venv-adapters"

BUDGET = 6_000
TURNS = 60
FIRST = 30
"""Turns of the first process; another one takes the rest."""
RUN_SECONDS = 240

CARRIED_TOKENS = 1.02
"""The framework's own writing of a view may differ from ours by a space or a key here and there."""

UPLOADED = "sha256:"

count = counter("o200k_base")


@dataclass(frozen=True, kw_only=True)
class Left:
    """What both processes of a run left behind."""

    framework: str
    name: str
    first: Json
    second: Json
    seconds: float
    round_trip: str

    @property
    def views(self) -> list[list[Json]]:
        """Return all views that the model was sent."""
        return [*self.first["views"], *self.second["views"]]


async def ran(framework: str, *, nats: str, name: str, folder: Path) -> Left:
    """Run the agent of *framework* in two processes, one after the other."""
    began = time.monotonic()
    first = await _process(framework, nats=nats, name=name, folder=folder, turns=range(1, FIRST + 1), state=None)
    turns = range(FIRST + 1, TURNS + 1)
    second = await _process(framework, nats=nats, name=name, folder=folder, turns=turns, state=first["state"])
    seconds = time.monotonic() - began
    kept = await _round_trip(framework)
    return Left(framework=framework, name=name, first=first, second=second, seconds=seconds, round_trip=kept)


async def _round_trip(framework: str) -> str:
    """Have all kinds of the framework's messages go through the log and back."""
    if not (Path(__file__).parent / f"{framework}_vocabulary.py").exists():
        return "its messages are ours"
    await in_its_environment(framework, "vocabulary")
    return "200 random lists"


async def _process(framework: str, *, nats: str, name: str, folder: Path, turns: range, state: Any) -> Json:
    file = folder / f"{framework}-{turns.start}.json"
    job = {"nats": nats, "name": name, "budget": BUDGET, "policy": {}, "turns": list(turns), "state": state}
    file.write_text(json.dumps(job))
    await in_its_environment(framework, "run", str(file))
    left: Json = json.loads(file.read_text())
    return left


async def in_its_environment(framework: str, part: str, *arguments: str) -> None:
    """Run one *part* of *framework*: its run, its vocabulary or its recording."""
    argv = [str(python_of(framework)), "-m", f"tests.programs.adapters.{framework}_{part}", *arguments]
    # some frameworks draw all that happens
    pipes: Any = {"stdout": asyncio.subprocess.DEVNULL, "stderr": asyncio.subprocess.PIPE}
    child = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, env=environment(), **pipes)
    try:
        async with asyncio.timeout(RUN_SECONDS):
            said = (await child.communicate())[1].decode("utf-8", "replace")
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert child.returncode == 0, f"the {part} of {framework} ended with {child.returncode}:\n{said[-4000:]}"


def python_of(framework: str) -> Path:
    """Return the Python of the environment that has *framework*."""
    return ENVIRONMENTS / framework / "bin" / "python"


def environment() -> dict[str, str]:
    """Return the environment of a run: nothing is reported to anybody."""
    quiet = {
        "OTEL_SDK_DISABLED": "true",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "CREWAI_TRACING_ENABLED": "false",
        "LANGSMITH_TRACING": "false",
    }
    return {**os.environ, **quiet, "PYTHONPATH": str(ROOT), "OPENAI_AGENTS_DISABLE_TRACING": "1"}


async def judged(left: Left, working: Runtime) -> dict[str, str]:
    """Return what each promise was kept by. Raises `AssertionError` for the first that was not."""
    at = address(left.name)
    log = told(await said_messages(at, log=working.log))
    records = await working.log.read(at, after=0)
    said = [fact for record in records if record.side == "said" for fact in codec.decode_said(record.body).facts]
    done = done_facts(records)
    return {
        "append once": _once(left, log),
        "view": _fits(left, done),
        "usage": _usage(left, said),
        "overflow": _overflow(left, said),
        "read_artifact": _read(left),
        "sub-agents": await _apart(left, log, working),
        "resume": _resumed(left),
        "round trip": left.round_trip,
    }


def _once(left: Left, log: list[Json]) -> str:
    own = [plain(one) for one in left.second["said"]]
    for number, (in_log, in_framework) in enumerate(zip(log, own, strict=False), 1):
        assert in_log == in_framework, f"message {number} is {in_log} in the log and {in_framework} in the framework"
    assert len(log) == len(own), f"{len(log)} messages are in the log, and {len(own)} in the framework"
    return f"{len(log)} messages, each once"


def _fits(left: Left, done: list[DoneFact]) -> str:
    for view in left.views:
        assert problems(view) == [], f"a view is not legal: {problems(view)}"
        assert tokens_of(view) <= BUDGET * CARRIED_TOKENS, f"a view has {tokens_of(view)} tokens"
    lightened = [fact for fact in done if isinstance(fact, (HistoryDigested, HistoryAccounted))]
    assert lightened, "nothing was ever compacted: the run says nothing"
    return f"{len(left.views)} views, at most {max(map(tokens_of, left.views))} of {BUDGET} tokens"


def _usage(left: Left, said: list[Any]) -> str:
    reported = [fact for fact in said if isinstance(fact, UsageReported)]
    assert len(reported) == len(left.views), f"{len(reported)} of {len(left.views)} calls were reported"
    assert all(fact.input_tokens and fact.view_hash for fact in reported), "a report names no tokens or no view"
    return f"{len(reported)} calls"


def _overflow(left: Left, said: list[Any]) -> str:
    refused = [*left.first["refused"], *left.second["refused"]]
    assert refused == list(OVERFLOWS), f"refused were {refused}"
    told = [fact for fact in said if isinstance(fact, OverflowReported)]
    assert [(fact.requested_tokens, fact.limit_tokens) for fact in told] == [(6500, 5000)] * len(OVERFLOWS)
    return f"{len(told)} recovered"


def _read(left: Left) -> str:
    for turn in READS:
        ident = f"call-{turn}-read"
        results = [one for one in left.second["said"] if one["role"] == "tool" and one["tool_call_id"] == ident]
        assert len(results) == 1, f"the model of turn {turn} read nothing"
        text = words(results[0])
        assert not text.startswith("Error"), text
        assert "service" in text, f"it read {text[:200]}"
    return f"{len(READS)} pointers read"


async def _apart(left: Left, log: list[Json], working: Runtime) -> str:
    helped = f"turn {HELPED + 1000}"
    assert not any(helped in one["begins"] for one in log)
    others = [name for name in left.first["conversations"] if name != left.name]
    assert len(others) == 1, f"the run left {left.first['conversations']}"
    apart = told(await said_messages(address(others[0]), log=working.log))
    roles = [one["role"] for one in apart]
    assert roles == ["user", "assistant", "tool", "assistant"], f"the helper's conversation has {roles}"
    assert helped in apart[0]["begins"], f"it begins with {apart[0]}"
    return "one of its own"


def _resumed(left: Left) -> str:
    assert left.second["conversations"] == [left.name], f"it left {left.second['conversations']}"
    oldest = json.dumps(left.second["views"][0])
    assert "turn 31" in oldest, "the first view of the new process lacks what was asked"
    assert tokens_of(left.second["views"][0]) > BUDGET / 8, "the new process saw nothing of what the other one said"
    return "goes on"


def told(said: Iterable[SaidMessage]) -> list[Json]:
    """Return what was said in the messages of a log, as OpenAI chat; a text that was uploaded is told by its hash."""
    pieces = []
    for one in said:
        message = parted(messages.decode(one.raw))[0]
        hashes = {claim.pointer: f"{UPLOADED}{claim.sha256}" for claim in one.claims}
        pieces.append(piece(messages.encode(messages.with_leaves(message, hashes))))
    return [plain(messages.decode(raw)) for raw in render(pieces, CHAT)]


def plain(message: Json) -> Json:
    """Return what was said in *message*, however its JSON is written."""
    text = words(message)
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    calls = [
        (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"] or "{}"))
        for one in message.get("tool_calls") or ()
    ]
    return {
        "role": message["role"],
        "sha256": text.removeprefix(UPLOADED) if text.startswith(UPLOADED) else sha256,
        "begins": "" if text.startswith(UPLOADED) or len(text) >= CLAIM_BYTES_MIN else text[:60],
        "calls": calls,
        "answers": message.get("tool_call_id", ""),
    }


def words(message: Json) -> str:
    """Return the texts of *message*."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text", "")) for part in content)


def tokens_of(view: list[Json]) -> int:
    """Return the tokens of a view, frames left aside."""
    return sum(count(part.text) for message in view for part in messages.parse(message).parts)


def present() -> list[str]:
    """Return the frameworks whose environments are there."""
    runs = sorted(file.name.removesuffix("_run.py") for file in Path(__file__).parent.glob("*_run.py"))
    return [one for one in runs if python_of(one).exists()]
