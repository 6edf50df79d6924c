"""Agents that work through the SDKs of OpenAI and Anthropic, ask again where an answer fails, and hang up at times."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai

Json = dict[str, Any]

LEAVES_SHARE = 0.15
"""Of the first attempts of a turn: their agent hangs up in the middle."""

TRIES_MAX = 25
TRY_SECONDS = 45.0
PAUSE_SECONDS = 0.4
LINES = 120


class Left(Exception):
    """The agent hung up."""


class Unended(Exception):
    """An answer ended as if it were whole, and is not."""


@dataclass(kw_only=True)
class Tally:
    """What all agents saw."""

    hows: Counter[str] = field(default_factory=Counter)
    """How the gateway managed requests, by `x-jettison`; for a bypass with its reason."""
    errors: Counter[str] = field(default_factory=Counter)
    turns: int = 0
    left: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of a model, as its agent sees it."""

    id: str
    name: str
    arguments: Json


Said = tuple[list[Json], list[Call]]
"""What an answer adds to its agent's history, and what it calls."""


@dataclass(kw_only=True)
class Asked:
    """One attempt of a turn: where, what, and after how many events the agent hangs up (0: never)."""

    url: str
    run: str
    turn: int
    history: Sequence[Json]
    stream: bool
    leaves: int
    heard: Callable[[Mapping[str, str]], None]

    @property
    def headers(self) -> dict[str, str]:
        return {"x-run": f"{self.run}/{self.turn}"}

    def client(self, sdk: Any) -> Any:
        """Return the asynchronous client of *sdk*; the headers of each answer are heard."""

        async def hook(response: Any) -> None:
            self.heard(response.headers)

        url = self.url if sdk is anthropic else f"{self.url}/v1"
        made = sdk.AsyncAnthropic if sdk is anthropic else sdk.AsyncOpenAI
        http = sdk.DefaultAsyncHttpxClient(event_hooks={"response": [hook]})
        return made(base_url=url, api_key=f"sk-{self.run}", max_retries=0, timeout=TRY_SECONDS, http_client=http)

    async def whole(self, events: AsyncIterator[Any]) -> None:
        """Hear all events, or hang up. Raises `Left`."""
        count = 0
        async for _ in events:
            count += 1
            if count == self.leaves:
                raise Left


async def chat(asked: Asked) -> Said:
    """Ask by chat completions."""
    tools = [{"type": "function", "function": {"name": "log_of", "parameters": {"type": "object"}}}]
    system = {"role": "system", "content": f"run {asked.run} "}
    given: Any = {"model": "gpt-4.1", "messages": [system, *asked.history], "tools": tools}
    async with asked.client(openai) as llm:
        if asked.stream:
            async with llm.chat.completions.stream(**given, extra_headers=asked.headers) as events:
                await asked.whole(events)
                reply = await events.get_final_completion()
        else:
            reply = await llm.chat.completions.create(**given, extra_headers=asked.headers)
    (choice,) = reply.choices
    if choice.finish_reason not in ("stop", "tool_calls"):
        raise Unended(str(choice.finish_reason))
    message = choice.message.model_dump(exclude_none=True, exclude={"parsed"})
    for call in message.get("tool_calls", ()):
        call["function"].pop("parsed_arguments", None)
    calls = [(call["id"], call["function"]) for call in message.get("tool_calls", ())]
    return [message], [Call(id=i, name=one["name"], arguments=json.loads(one["arguments"])) for i, one in calls]


async def messages(asked: Asked) -> Said:
    """Ask by Anthropic's Messages, with thoughts and marks for a cache."""
    mark = {"cache_control": {"type": "ephemeral"}}
    *before, last = asked.history
    blocks = [{"type": "text", "text": last["content"]}] if isinstance(last["content"], str) else last["content"]
    given: Any = {
        **{
            "model": "claude-opus-5",
            "max_tokens": 1000,
            "tools": [{"name": "log_of", "input_schema": {"type": "object"}}],
        },
        "system": [{"type": "text", "text": f"run {asked.run} ", **mark}],
        "messages": [*before, {**last, "content": [*blocks[:-1], {**blocks[-1], **mark}]}],
    }
    async with asked.client(anthropic) as llm:
        if asked.stream:
            async with llm.messages.stream(**given, extra_headers=asked.headers) as events:
                await asked.whole(events)
                reply = await events.get_final_message()
        else:
            reply = await llm.messages.create(**given, extra_headers=asked.headers)
    if reply.stop_reason not in ("end_turn", "tool_use"):
        raise Unended(str(reply.stop_reason))
    content = [block.model_dump(exclude_none=True) for block in reply.content]
    calls = [one for one in content if one["type"] == "tool_use"]
    told = [Call(id=one["id"], name=one["name"], arguments=one["input"]) for one in calls]
    return [{"role": "assistant", "content": content}], told


async def responses(asked: Asked) -> Said:
    """Ask by Responses."""
    tools = [{"type": "function", "name": "log_of", "parameters": {"type": "object"}, "strict": False}]
    told: Any = {"instructions": f"run {asked.run} ", "input": list(asked.history), "tools": tools, "store": False}
    given: Any = {"model": "gpt-4.1", **told}
    async with asked.client(openai) as llm:
        if asked.stream:
            async with llm.responses.stream(**given, extra_headers=asked.headers) as events:
                await asked.whole(events)
                reply = await events.get_final_response()
        else:
            reply = await llm.responses.create(**given, extra_headers=asked.headers)
    if reply.status != "completed":
        raise Unended(str(reply.status))
    output = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in reply.output]
    for item in output:
        for block in item.get("content") or ():
            block.pop("parsed", None)
    calls = [item for item in output if item["type"] == "function_call"]
    return output, [Call(id=c["call_id"], name=c["name"], arguments=json.loads(c["arguments"])) for c in calls]


def results(ask: Any, told: Sequence[tuple[str, str]]) -> list[Json]:
    """Return what an agent says with the results of its calls."""
    if ask is chat:
        return [{"role": "tool", "tool_call_id": ident, "content": text} for ident, text in told]
    if ask is responses:
        return [{"type": "function_call_output", "call_id": ident, "output": text} for ident, text in told]
    blocks = [{"type": "tool_result", "tool_use_id": ident, "content": text} for ident, text in told]
    return [{"role": "user", "content": blocks}]


KINDS: tuple[tuple[Callable[[Asked], Awaitable[Said]], bool], ...] = tuple(
    (ask, stream) for ask in (chat, messages, responses) for stream in (True, False)
)


@dataclass(kw_only=True)
class Agent:
    """One agent and its history; it ends when it is told that the faults are over."""

    run: str
    ask: Callable[[Asked], Awaitable[Said]]
    stream: bool
    urls: Sequence[str]
    tally: Tally
    calm: asyncio.Event
    turns_max: int
    pause_seconds: float = PAUSE_SECONDS
    history: list[Json] = field(default_factory=list)
    answer: str = ""
    last: Mapping[str, str] = field(default_factory=dict)
    """The headers of its last answer."""
    _rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.run)

    async def lived(self) -> None:
        """Work turn after turn; two more are without faults."""
        self.history.append({"role": "user", "content": f"Look at the logs of {self.run}."})
        turn, left = 0, 3
        while left:
            left -= self.calm.is_set() or turn >= self.turns_max
            turn += 1
            added, calls = await self._insisted(turn, ends=not left)
            self.tally.turns += 1
            self.history += added
            if not calls:
                self.answer = json.dumps(added)
            self.history += results(self.ask, [(call.id, self._done(call)) for call in calls])
            await asyncio.sleep(self.pause_seconds)

    def _done(self, call: Call) -> str:
        if call.name != "log_of":
            self.tally.wrong.append(f"{self.run} was shown a call of {call.name}")
        service, turn = call.arguments["service"], call.arguments["turn"]
        lines = (f"{service} {turn} line {n}: request {n * 7919} took {n % 97} ms" for n in range(LINES))
        return "\n".join(lines)

    async def _insisted(self, turn: int, *, ends: bool) -> Said:
        """Ask until there is an answer, one gateway after the other."""
        for attempt in range(TRIES_MAX):
            asked = Asked(
                url=self.urls[(turn + attempt) % len(self.urls)],
                run=self.run,
                turn=0 if ends else turn,
                history=self.history,
                stream=self.stream,
                leaves=self._rng.randint(1, 8) if not attempt and self._rng.random() < LEAVES_SHARE else 0,
                heard=self._heard,
            )
            try:
                async with AsyncExitStack() as held:
                    if asked.leaves and not self.stream:
                        await held.enter_async_context(asyncio.timeout(asked.leaves * 0.02))
                    return await self.ask(asked)
            except (Left, TimeoutError):
                self.tally.left += 1
            except Exception as error:
                self._failed(turn, error)
            await asyncio.sleep(self.pause_seconds)
        raise AssertionError(f"{self.run}: no answer in turn {turn} after {TRIES_MAX} attempts")

    def _failed(self, turn: int, error: Exception) -> None:
        """Count an error; it has to be one that an agent of this SDK knows, and none that says that it is to blame."""
        status = getattr(error, "status_code", None)
        known = isinstance(error, (openai.APIError, anthropic.APIError)) or type(error).__module__.startswith("httpx")
        self.tally.errors[f"{type(error).__name__}{f' {status}' if status else ''}"] += 1
        if not known or (isinstance(status, int) and 400 <= status < 500 and status != 429):
            self.tally.wrong.append(f"{self.run}, turn {turn}: {type(error).__name__}: {error}"[:300])

    def _heard(self, headers: Mapping[str, str]) -> None:
        self.last = headers
        self.tally.hows[headers.get("x-jettison", "none")] += 1
