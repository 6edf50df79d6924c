"""Record: the requests of real clients, kept small, for a test that sends them again where there is no npm.

`.venv/bin/python -m tests.programs.clients.record [AGENT ...]` writes `tests/data/clients/AGENT.json`. What is kept is
what each client sends, byte for byte; but logs are only named, and long words of others (instructions, what tools are
good for) are cut.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from tests.gateway.model import API_OF
from tests.gateway.provider import Answer, Asked, provider

from .agents import AGENTS, Server
from .runs import ran
from .script import Upstream

RECORDED = Path(__file__).parents[2] / "data" / "clients"
CLIENTS = ("pi", "pi-messages", "pi-responses", "ai", "ai-messages", "ai-responses")
LOOKS = 6
"""The last of them has a log that is too long for a fixture, and is left out."""

WORDS_MAX = 200
LEFT_OUT = frozenset(("host", "content-length", "connection", "accept-encoding"))

Json = dict[str, Any]


@dataclass
class Tape:
    """What was sent and answered: each part of a body once."""

    parts: list[str] = field(default_factory=list)
    requests: list[Json] = field(default_factory=list)

    def part(self, text: str) -> int:
        """Return the number of *text*."""
        if text not in self.parts:
            self.parts.append(text)
        return self.parts.index(text)


def kept(tape: Tape, asked: Asked, answer: Answer, *, home: str, logs: list[str]) -> None:
    """Add a request and its answer to *tape*."""
    name = "input" if asked.target == "/v1/responses" else "messages"
    raw = asked.body.decode().replace(home, "~")
    before, opens, rest = raw.partition(f'"{name}":[')
    fields = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    listed = [bytes(one).decode() for one in msgspec.json.decode(fields[name], type=list[msgspec.Raw])]
    after = rest.removeprefix(",".join(listed))
    assert before + opens + ",".join(listed) + after == raw, "it is written otherwise"
    places = [tape.part(_cut_fields(before + opens)), *(tape.part(_cut(one, logs)) for one in listed)]
    headers = [[key, value] for key, value in asked.headers if key.lower() not in LEFT_OUT]
    told = b"".join(one for one in answer.pieces if isinstance(one, bytes)).decode()
    tape.requests.append(
        {
            "path": asked.target,
            "headers": tape.part(json.dumps(headers)),
            "parts": [*places, tape.part(_cut_fields(after))],
            "answer": {"headers": dict(answer.headers), "body": told},
        }
    )


def _cut(raw: str, logs: list[str]) -> str:
    for number, log in enumerate(logs):
        raw = raw.replace(json.dumps(log)[1:-1], f"@LOG{number}@")
    value = json.loads(raw)
    cut = _shorter(value)
    return raw if cut == value else json.dumps(cut, separators=(",", ":"), ensure_ascii=False)


def _cut_fields(raw: str) -> str:
    """Return the fields before or behind the list with their long words cut."""
    whole = raw + "]}" if raw.startswith("{") else '{"":[' + raw
    value = json.loads(whole)
    cut = _shorter(value)
    if cut == value:
        return raw
    text = json.dumps(cut, separators=(",", ":"), ensure_ascii=False)
    return text[:-2] if raw.startswith("{") else text[5:]


def _shorter(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= WORDS_MAX else value[:40] + " […]"
    if isinstance(value, list):
        return [_shorter(one) for one in value]
    return {key: _shorter(one) for key, one in value.items()} if isinstance(value, dict) else value


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def recorded(name: str) -> Tape:
    """Run the client *name* straight against a provider; return what went to and fro."""
    upstream, found = Upstream(window=2**40), list[tuple[Asked, Answer]]()

    def heard(asked: Asked) -> Answer:
        answer = upstream(asked)
        found.append((asked, answer))
        return answer

    with tempfile.TemporaryDirectory() as folder:
        async with provider(heard) as there:
            server = Server(url=there.url, run=name, key=f"sk-{name}")
            done = await ran(AGENTS[name], server, upstream=upstream, folder=Path(folder), turns=LOOKS)
        assert done.finished, done.ended
        work = done.home / "work"
        logs = [(work / f"log-{number:02}.txt").read_text() for number in range(LOOKS - 1)]
        tape = Tape()
        for asked, answer in found:
            if asked.target in API_OF and b'"log-05' not in asked.body and b"log-05.txt" not in asked.body:
                kept(tape, asked, answer, home=folder, logs=logs)
    return tape


async def main(names: list[str]) -> None:
    """Record the clients *names*."""
    RECORDED.mkdir(exist_ok=True)
    for name in names:
        tape = await recorded(name)
        parts, requests = (",\n".join(map(_written, each)) for each in (tape.parts, tape.requests))
        told = f'{{"parts": [\n{parts}\n],\n"requests": [\n{requests}\n]}}\n'
        (RECORDED / f"{name}.json").write_text(told, encoding="utf-8")
        sys.stdout.write(f"{name}: {len(tape.requests)} requests, {len(tape.parts)} parts\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or list(CLIENTS)))
