"""Agents that speak through the SDKs of OpenAI and Anthropic as these come, and take up, edit and begin conversations.

A request *failed* where an error reached its agent: after the retries that the SDK makes by itself (two), or because an
answer that had begun broke off.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

from tests.programs.gateway_faults.agents import Asked, Call, Json, Said, messages, results
from tests.programs.gateway_soak.parts import Balancer
from tests.stack import LOOPBACK

LARGE_EVERY = 6
LARGE_BYTES = 100_000
SMALL_BYTES = (500, 8_000)
TURNS_MAX = 40
"""Of one conversation, with those that it shares with what it was forked from."""

STAYS_TURNS = (3, 12)
KEPT_MAX = 4
"""Conversations that an agent may come back to."""

PAUSE_SECONDS = (2.0, 5.0)


@dataclass(kw_only=True)
class Tally:
    """What all agents saw."""

    turns: int = 0
    begun: int = 0
    resumed: int = 0
    forked: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Of all attempts, by status and what the gateway did."""
    retries: int = 0
    """That SDKs made by themselves."""
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class Spread(Asked):
    """One request by the client of its agent, which is used again."""

    llm: Any

    def client(self, sdk: Any) -> Any:
        return nullcontext(self.llm)


@dataclass(kw_only=True)
class Talk:
    """One conversation as its agent has it."""

    history: list[Json]
    turns: int = 0
    sent: int = 0
    """Messages of the last request that was answered."""
    name: str = ""
    """What the gateway called it then."""


@dataclass(kw_only=True)
class Agent:
    """One agent; it ends when it is told to."""

    run: str
    ask: Callable[[Asked], Awaitable[Said]]
    stream: bool
    balancer: Balancer
    tally: Tally
    over: asyncio.Event
    talks: list[Talk] = field(default_factory=list)
    """All that it ever had."""
    port: int = 0
    """Of the gateway that it asks now; 0: none."""
    _turn: int = 0
    _name: str = ""
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.run)

    async def lived(self) -> None:
        """Speak in one conversation after the other, each time with a new client, as a new process would."""
        while not self.over.is_set():
            talk = self._chosen()
            async with self._client() as llm:
                for _ in range(self._rng.randint(*STAYS_TURNS)):
                    if self.over.is_set() or talk.turns >= TURNS_MAX:
                        break
                    await self._spoken(talk, llm)
                    await asyncio.sleep(self._rng.uniform(*PAUSE_SECONDS))

    def _chosen(self) -> Talk:
        open_ones = [talk for talk in self.talks[-KEPT_MAX:] if talk.turns < TURNS_MAX]
        how = self._rng.random()
        if open_ones and how < 0.5:
            self.tally.resumed += 1
            return self._rng.choice(open_ones)
        if self.talks and how < 0.75 and (fork := self._forked(self._rng.choice(self.talks[-KEPT_MAX:]))):
            self.tally.forked += 1
            self.talks.append(fork)
            return fork
        self.tally.begun += 1
        self.talks.append(Talk(history=[_asks(f"Look at the logs of {self.run}, number {len(self.talks)}.")]))
        return self.talks[-1]

    def _forked(self, talk: Talk) -> Talk | None:
        """Return *talk* up to one of its agent's own messages, with another text there."""
        own = [at for at, one in enumerate(talk.history[: talk.sent]) if at and _is_spoken(one)]
        if not own:
            return None
        at = self._rng.choice(own)
        history = copy.deepcopy(talk.history[:at])
        turns = talk.turns * at // len(talk.history)
        return Talk(history=[*history, _asks(f"Rather look at number {len(self.talks)} of {self.run}.")], turns=turns)

    async def _spoken(self, talk: Talk, llm: Any) -> None:
        self._turn += 1
        asked = Spread(
            url="",
            run=self.run,
            turn=self._turn,
            history=talk.history,
            stream=self.stream,
            leaves=0,
            heard=lambda _: None,
            llm=llm,
        )
        try:
            added, calls = await self.ask(asked)
        except Exception as error:
            self.tally.failed.append(f"{self.run}, turn {self._turn}, at {self.port}: {_chain(error)}"[:400])
            return
        finally:
            self.port = 0
        self.tally.turns += 1
        talk.turns += 1
        talk.sent, talk.name = len(talk.history), self._name
        talk.history += added
        if calls:
            talk.history += results(self.ask, [(call.id, self._done(call)) for call in calls])
        else:
            talk.history.append(_asks(f"Go on with {self.run} behind turn {self._turn}."))

    def _done(self, call: Call) -> str:
        if call.name != "log_of":
            self.tally.wrong.append(f"{self.run} was shown a call of {call.name}")
        turn = call.arguments["turn"]
        size = LARGE_BYTES if turn % LARGE_EVERY == 0 else self._rng.randint(*SMALL_BYTES)
        lines = (f"{self.run} {turn} line {n}: request {n * 7919} took {n % 97} ms\n" for n in range(size // 30))
        return "".join(lines)[:size]

    def _client(self) -> Any:
        """Return a client as its SDK makes it, which finds a gateway for each attempt."""
        sdk = anthropic if self.ask is messages else openai

        async def routed(request: Any) -> None:
            self.port = self.balancer.port()
            request.url = request.url.copy_with(port=self.port)
            self.tally.retries += request.headers.get("x-stainless-retry-count", "0") != "0"

        async def heard(response: Any) -> None:
            self._name = response.headers.get("x-jettison-conversation", "")
            self.tally.answers[f"{response.status_code} {response.headers.get('x-jettison', 'none')}"] += 1

        hooks = {"request": [routed], "response": [heard]}
        made: Any = anthropic.AsyncAnthropic if sdk is anthropic else openai.AsyncOpenAI
        url = f"http://{LOOPBACK}:1{'' if sdk is anthropic else '/v1'}"
        http: Any = sdk.DefaultAsyncHttpxClient(event_hooks=hooks)
        return made(base_url=url, api_key=f"sk-{self.run}", http_client=http)


def _asks(text: str) -> Json:
    return {"role": "user", "content": text}


def _is_spoken(message: Json) -> bool:
    return message.get("role") == "user" and isinstance(message["content"], str)


def _chain(error: BaseException) -> str:
    causes, one = [], error.__cause__
    while one is not None:
        causes.append(f"{type(one).__name__}: {one}")
        one = one.__cause__
    return " from ".join([f"{type(error).__name__}: {error}", *causes[:2]])
