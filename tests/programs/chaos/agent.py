"""Agent: say a script turn by turn, ask for each view, check it, and never give up."""

from __future__ import annotations

import asyncio
import random
import time
from array import array
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from protocol.client import Client, Conversation
from protocol.errors import JettisonError, Unavailable
from protocol.ids import Address
from tests.programs.chaos.checks import Spoken, pointers
from tests.programs.chaos.speech import Script

T = TypeVar("T")

ASK_SECONDS = 1.0
"""How long one question waits; an answer of a service that was killed is given up five seconds later."""

STUCK_SECONDS = 240.0
"""A call that fails for so long is a violation: no fault lasts half of it."""

READ_SHARE = 0.05


@dataclass(kw_only=True)
class Tally:
    """What all agents came to."""

    turns: int = 0
    messages: int = 0
    reads: int = 0
    retries: Counter[str] = field(default_factory=Counter)
    levels: Counter[str] = field(default_factory=Counter)
    append_seconds: array[float] = field(default_factory=lambda: array("d"))
    ask_seconds: array[float] = field(default_factory=lambda: array("d"))
    violations: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """A conversation at its end: what was acknowledged, and the hashes of the views that were served."""

    at: Address
    spoken: Spoken
    hashes: list[str]


async def play(client: Client, script: Script, tally: Tally, *, ends: float) -> Ended | None:
    """Say *script* to its end, or until *ends* by the clock; none where a call could not be made to succeed."""
    rng = random.Random(f"{script.name}/reads")
    spoken, hashes = Spoken(), list[str]()
    try:
        talk = await insisted(lambda: client.open(script.name, tenant=script.tenant, policy=script.policy), tally)
        for turn, budget in zip(script.turns, script.budgets, strict=True):
            if time.monotonic() > ends:
                break
            started = time.monotonic()
            await insisted(lambda turn=turn: talk.append(turn), tally)  # type: ignore[misc]
            tally.append_seconds.append(time.monotonic() - started)
            spoken.add(turn)
            tally.messages += len(turn)
            await _turn(talk, budget, spoken, hashes, tally, rng)
    except JettisonError as error:
        tally.violations.append(f"{script.name}, turn {len(hashes) + 1}: {type(error).__name__}: {error}")
        return None
    return Ended(at=talk.at, spoken=spoken, hashes=hashes)


async def _turn(
    talk: Conversation, budget: int, spoken: Spoken, hashes: list[str], tally: Tally, rng: random.Random
) -> None:
    started = time.monotonic()
    context = await insisted(lambda: talk.context(budget=budget, patience=ASK_SECONDS), tally)
    tally.ask_seconds.append(time.monotonic() - started)
    tally.turns += 1
    tally.levels[context.level] += 1
    hashes.append(context.hash)
    wrong = spoken.wrong(context, budget=budget)
    keys = pointers(str(context.messages))
    if keys and rng.random() < READ_SHARE:
        key = rng.choice(keys)
        tally.reads += 1
        if not await insisted(lambda: talk.read_artifact(key, lines="1-5"), tally):
            wrong.append(f"the pointer {key} leads to nothing")
    tally.violations += [f"{talk.at}, version {context.version}: {one}" for one in wrong]


async def insisted(call: Callable[[], Awaitable[T]], tally: Tally) -> T:
    """Call until it succeeds; what is nobody's bad luck is raised at once."""
    ends = time.monotonic() + STUCK_SECONDS
    while True:
        try:
            return await call()
        except Unavailable as error:
            tally.retries[type(error).__name__] += 1
            if time.monotonic() > ends:
                raise
            await asyncio.sleep(0.05)
