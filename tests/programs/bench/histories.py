"""Histories: conversations of a given size, the same on every machine, of what agents really see.

User, call, result, answer; results are JSON lists, logs, search hits, code and prose of very different
sizes. Code and prose are those of Python's own library.
"""

from __future__ import annotations

import inspect
import json
import random
import typing
from collections.abc import Iterator
from functools import cache
from typing import Any

Json = dict[str, Any]

BUDGET_TOKENS = 128_000
"""The default policy's window, and what the peers are given."""

NARROW_TOKENS = 32_000
"""A window in which an 8 KB result is too large to stay as it is, so that each is shortened and stored."""

SIZES = {"50 KB": 50_000, "1 MB": 1_000_000, "20 MB": 20_000_000}

TURN_BYTES = 8_500
"""What one more turn adds: a question, a call, an 8 KB result, an answer."""


def history(size_bytes: int, *, seed: int = 1) -> list[Json]:
    """Return a conversation of about *size_bytes*, whole turns of four messages after the instructions."""
    chance = random.Random(seed)
    out: list[Json] = [{"role": "system", "content": "You are an engineer on call. Use the tools, then answer."}]
    size = 0
    while size < size_bytes:
        # mostly small results, in long runs some of a hundred kilobytes: half a kilobyte to two for a message
        result_bytes = int(min(110_000, size_bytes / 50 + 3_000, 300 * chance.paretovariate(0.62)))
        new = turn(len(out), result_bytes, chance)
        out += new
        size += sum(len(json.dumps(message)) for message in new)
    return out


def turns(count: int, *, result_bytes: int, seed: int = 2) -> Iterator[list[Json]]:
    """Yield *count* turns, each with a result of *result_bytes*, no two alike."""
    chance = random.Random(seed)
    for index in range(count):
        yield turn(1_000_000 + index * 4, result_bytes, chance)


def turn(number: int, result_bytes: int, chance: random.Random) -> list[Json]:
    """Return the four messages of one turn."""
    ident = f"call_{number:x}_{chance.getrandbits(40):010x}"
    service, kind = chance.choice(("billing", "checkout", "search", "mail")), chance.choice(tuple(_RESULTS))
    asked = json.dumps({"service": service, "since": f"2026-11-{1 + number % 28:02}", "limit": result_bytes // 100})
    call = {"id": ident, "type": "function", "function": {"name": f"read_{kind}", "arguments": asked}}
    return [
        {"role": "user", "content": f"Look at {service} again: {_prose(240, chance)}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": ident, "content": _RESULTS[kind](result_bytes, chance)},
        {"role": "assistant", "content": f"In {service} I see this. {_prose(260, chance)}"},
    ]


def _prose(size: int, chance: random.Random) -> str:
    return _slice(_prose_source(), size, chance)


def _code(size: int, chance: random.Random) -> str:
    return _slice(_code_source(), size, chance)


def _slice(text: str, size: int, chance: random.Random) -> str:
    start = chance.randrange(max(1, len(text) - size))
    return text[start : start + size]


@cache
def _prose_source() -> str:
    from pydoc_data import topics  # type: ignore[import-untyped,unused-ignore]

    return "\n".join(topics.topics.values())


@cache
def _code_source() -> str:
    return "\n".join(inspect.getsource(module) for module in (typing, inspect, random, json))


def _rows(size: int, row: Any) -> str:
    lines: list[str] = []
    length = 0
    while length < size:
        lines.append(row(len(lines)))
        length += len(lines[-1]) + 1
    return "\n".join(lines)[: max(size, 40)]


def _logs(size: int, chance: random.Random) -> str:
    def row(index: int) -> str:
        level = chance.choice(("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR"))
        return (
            f"2026-11-21T0{index % 10}:{chance.randrange(60):02}:{chance.randrange(60):02}."
            f"{chance.randrange(1000):03}Z "
            f"{level} worker-{chance.randrange(40)} request_id={chance.getrandbits(64):016x} "
            f"path=/api/v2/orders/{chance.randrange(10**6)} status={chance.choice((200, 200, 201, 404, 500))} "
            f"took={chance.randrange(900)}ms"
        )

    return _rows(size, row)


def _listed(size: int, chance: random.Random) -> str:
    rows = []
    for index in range(max(1, size // 190)):
        rows.append(
            {
                "id": f"ord_{chance.getrandbits(48):012x}",
                "index": index,
                "status": chance.choice(("paid", "open", "failed")),
                "amount": round(chance.uniform(1, 900), 2),
                "email": f"user{chance.randrange(10**5)}@example.org",
                "url": f"https://shop.example.org/orders/{chance.randrange(10**7)}",
                "retries": chance.randrange(4),
            }
        )
    return json.dumps(rows)


def _searched(size: int, chance: random.Random) -> str:
    code = _code_source().splitlines()

    def row(index: int) -> str:
        folder = chance.choice(("orders", "mail", "api"))
        return f"src/app/{folder}/part_{index % 37}.py:{chance.randrange(900)}:{chance.choice(code)}"

    return _rows(size, row)


_RESULTS = {"logs": _logs, "orders": _listed, "matches": _searched, "code": _code, "page": _prose}


def results(size_bytes: int, *, seed: int = 3) -> dict[str, str]:
    """Return one result of each kind, each of *size_bytes*."""
    chance = random.Random(seed)
    made = {kind: make(size_bytes, chance) for kind, make in _RESULTS.items()}
    # code and prose are not as long as that
    return {kind: (text * (size_bytes // max(1, len(text)) + 1))[:size_bytes] for kind, text in made.items()}
