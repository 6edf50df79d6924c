"""Speech: what the agents say, made of one seed, so that a run can be repeated."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

WINDOWS_TOKENS = (4_000, 8_000, 16_000)
"""Small, so that each conversation is compacted many times."""

WORDS = [
    *("order", "invoice", "retry", "deploy", "shard", "cursor", "latency", "ticket", "ORD-1", "/srv/app/main.py"),
    *("https://shop.example/a?b=1", "must", "never", "timeout=30", "Zoë", "日本", "ValueError", "commit", "a3f9c2d1e"),
    *("the", "of", "and", "because", "then", "after", "we", "decided"),
]

RESULT_WORDS = ((30, 0.70), (400, 0.20), (2_500, 0.08), (14_000, 0.02))
"""Sizes of tool results and how often they come: in the window, spilled, and by claim check."""


TENANT_CONVERSATIONS = 60
"""Conversations of one tenant: enough to share artifacts, few enough that all of them end while the run goes on."""

TENANTS = tuple(f"team{number:02}x" for number in range(64))
"""Two of them speak at a time, and then the next two; more than have not been retired when they are used again.

What is said, and each conversation, names its tenant: a stranger who hears it knows whose it was."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """One conversation: its policy, and what is said between two views."""

    name: str
    tenant: str
    policy: Json
    turns: tuple[tuple[Json, ...], ...]
    """Each is appended, and then the view of the next call is asked for."""
    budgets: tuple[int, ...]
    """What is asked for at each turn; 0: as before."""


def scripts(seed: int, turns: int, recorded: Sequence[Sequence[Json]]) -> Iterator[Script]:
    """Yield conversations until they have *turns* turns together; every third one is *recorded*."""
    number = made = 0
    while made < turns:
        rng = random.Random(f"{seed}/{number}")
        tenant = TENANTS[(number // (2 * TENANT_CONVERSATIONS) * 2 + number % 2) % len(TENANTS)]
        replayed = list(recorded[number // 3 % len(recorded)])
        said = replayed if number % 3 == 0 else generated(rng, rng.randint(60, 260), tenant)
        found = by_turn(said)[: turns - made]
        yield Script(
            name=f"{tenant}-{seed}-{number}",
            tenant=tenant,
            policy=policy(rng),
            turns=tuple(found),
            budgets=tuple(_budgets(rng, len(found))),
        )
        made += len(found)
        number += 1


def policy(rng: random.Random) -> Json:
    """Return one conversation's layer; one in four has its digests shortened by a model."""
    window = rng.choice(WINDOWS_TOKENS)
    out: Json = {"budget": {"window": window, "reserve": 0}}
    if rng.random() < 0.25:
        out["squeeze"] = {"mode": "squeeze", "model": "scripted", "attempts": 2, "deadline_seconds": 5.0}
        out["target"] = {"low_water": 0.3, "min_gain": 0.01}
    return out


def by_turn(said: Sequence[Json]) -> list[tuple[Json, ...]]:
    """Group messages so that each group ends before an assistant's answer."""
    groups: list[list[Json]] = [[]]
    for message in said:
        if message["role"] == "assistant" and any(one["role"] in ("user", "tool") for one in groups[-1]):
            groups.append([])
        groups[-1].append(message)
    return [tuple(group) for group in groups]


def generated(rng: random.Random, turns: int, tenant: str) -> list[Json]:
    """Return an agent's run: questions, calls with results of every size, answers."""
    out: list[Json] = [
        {"role": "system", "content": f"You are agent {rng.getrandbits(32):x} of {tenant}. Never guess."}
    ]
    number = 0
    while number < turns:
        out.append({"role": "user", "content": f"Question {number} of {tenant}: {words(rng, 25)}"})
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            calls = [f"call-{number}-{index}" for index in range(rng.choice((1, 1, 2, 3)))]
            function = {"name": "look", "arguments": f'{{"at": {number}}}'}
            made = [{"id": call, "type": "function", "function": function} for call in calls]
            out.append({"role": "assistant", "content": f"Looking, {number}.", "tool_calls": made})
            rng.shuffle(calls)
            out += [
                {"role": "tool", "tool_call_id": call, "content": result(rng, f"{call} of {tenant}")} for call in calls
            ]
            number += 1
        out.append({"role": "assistant", "content": f"Answer {number} to {tenant}: {words(rng, 40)}"})
        number += 1
    return out


def result(rng: random.Random, call: str) -> str:
    """Return what a tool says, now and then very much."""
    (size,) = rng.choices([size for size, _ in RESULT_WORDS], [weight for _, weight in RESULT_WORDS])
    lines = (f"{index:05} {words(rng, 12)}" for index in range(size // 12 + 1))
    return f"result of {call}\n" + "\n".join(lines)


def words(rng: random.Random, count: int) -> str:
    """Return *count* words."""
    return " ".join(rng.choices(WORDS, k=count))


def _budgets(rng: random.Random, count: int) -> Iterator[int]:
    budget = 0
    for _ in range(count):
        if rng.random() < 0.03:
            budget = rng.choice((0, 2_500, 3_500))
        yield budget
