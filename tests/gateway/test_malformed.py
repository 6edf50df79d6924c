"""Events that no API has, in a stream that `read_artifact` is spliced into: their agent gets them as they came."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from actors.gateway.apis import RESPONSES_API, Api
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from protocol.formats import messages
from protocol.ids import address, fresh_id
from tests.gateway.model import API_OF, Reply, said
from tests.gateway.provider import Answer, Asked, in_front_of, provider, sse
from tests.gateway.test_splice import APIS, PATHS, READ, fed, streamed
from tests.said import said_messages

pytestmark = pytest.mark.slow

EVENTS = {"content-type": "text/event-stream"}
JSON = {"content-type": "application/json"}
CALLED = Reply(text="Let me see.", thinks="hm", calls=(READ,))

Json = dict[str, Any]
Spoil = Callable[[Json], Any]


def spoiled(*path: str | int, by: Any) -> Spoil:
    """Return the change of an event that puts *by* at *path*; takes what stands there away where *by* is `...`."""

    def spoil(event: Json) -> Any:
        event = copy.deepcopy(event)
        inner: Any = event
        for step in path[:-1]:
            inner = inner[step]
        if by is ...:
            del inner[path[-1]]
        else:
            inner[path[-1]] = by
        return event

    return spoil


def is_call(event: Json) -> bool:
    """Tell whether the event begins a call of `read_artifact`."""
    begins = "tool_calls" in json.dumps(event) or event.get("type") in ("content_block_start", BEGUN)
    return begins and '"read_artifact"' in json.dumps(event)


BEGUN, DONE = "response.output_item.added", "response.output_item.done"
FUNCTION = ("choices", 0, "delta", "tool_calls", 0, "function")
MALFORMED: dict[str, dict[str, tuple[str, Spoil]]] = {
    "chat": {
        "no object": ("", lambda event: 7),
        "a list": ("", lambda event: [event]),
        "a null choice": ("", spoiled("choices", by=[None])),
        "choices that are a word": ("", spoiled("choices", by="none")),
        "two choices at once": ("", lambda event: {**event, "choices": event["choices"] * 2}),
        "a null delta": ("", spoiled("choices", 0, "delta", by=None)),
        "a delta that is a word": ("", spoiled("choices", 0, "delta", by="On")),
        "a null call": ("", spoiled("choices", 0, "delta", "tool_calls", by=[None])),
        "calls that are none": ("", spoiled("choices", 0, "delta", "tool_calls", by=5)),
        "a function that is a word": ("", spoiled(*FUNCTION, by="read_artifact")),
        "arguments that are an object": ("", spoiled(*FUNCTION, "arguments", by={})),
        "a name that is a number": ("", spoiled(*FUNCTION, "name", by=7)),
        "an end that is a number": ("", spoiled("choices", 0, "finish_reason", by=7)),
    },
    "messages": {
        "no object": ("", lambda event: None),
        "a block without content": ("", spoiled("content_block", by=...)),
        "a null block": ("", spoiled("content_block", by=None)),
        "a block of no kind": ("", spoiled("content_block", "type", by=...)),
        "no index": ("", spoiled("index", by=...)),
        "an index that is a word": ("", spoiled("index", by="0")),
        "an index far away": ("", spoiled("index", by=7)),
        "a kind that is a number": ("", spoiled("type", by=7)),
        "an index that was never opened": ("content_block_delta", spoiled("index", by=7)),
        "a null delta": ("input_json_delta", spoiled("delta", by=None)),
        "a delta of no kind": ("input_json_delta", spoiled("delta", by={})),
        "arguments that are null": ("input_json_delta", spoiled("delta", "partial_json", by=None)),
        "words within a call": ("input_json_delta", spoiled("delta", by={"type": "text_delta", "text": "On"})),
        "words that are null": ("text_delta", spoiled("delta", "text", by=None)),
        "an end of another block": ("content_block_stop", spoiled("index", by=-1)),
        "a block without an end": ("content_block_stop", lambda event: {"type": "ping"}),
        "an end without a delta": ("message_delta", spoiled("delta", by=...)),
        "an end that is a number": ("message_delta", spoiled("delta", "stop_reason", by=7)),
    },
    "responses": {
        "no object": ("", lambda event: "On"),
        "no item": ("", spoiled("item", by=...)),
        "a null item": ("", spoiled("item", by=None)),
        "an item of no kind": ("", spoiled("item", "type", by=None)),
        "a place that is a word": ("", spoiled("output_index", by="0")),
        "no place": ("", spoiled("output_index", by=...)),
        "a kind that is null": ("", spoiled("type", by=None)),
        "a number that is a word": ("", spoiled("sequence_number", by="0")),
        "an end of no item": (DONE, spoiled("item", by=...)),
        "a call that never began": ("", spoiled("item", "name", by="look")),
        "an end without its response": ("response.completed", spoiled("response", by=...)),
        "an end whose response is null": ("response.completed", spoiled("response", by=None)),
        "an end whose output is a word": ("response.completed", spoiled("response", "output", by="On")),
        "an end with a null item": ("response.completed", spoiled("response", "output", by=[None])),
        "an end without its calls": ("response.completed", spoiled("response", "output", by=[])),
        "an id that is a number": ("response.created", spoiled("response", "id", by=7)),
    },
}


def events_in(stream: bytes) -> list[Any]:
    return [json.loads(event.data) if event.data.startswith(b"{") else event.data.decode() for event in fed(stream, 99)]


def malformed(api: Api, name: str, reply: Reply, turn: int) -> tuple[bytes, bytes]:
    """Return a stream with what *name* says in it, and the event itself."""
    kind, spoil = MALFORMED[api.name][name]
    events = events_in(streamed(api, reply, turn))
    found = [at for at, one in enumerate(events) if isinstance(one, dict) and _is_of(one, kind)]
    events[found[0]] = spoil(events[found[0]])
    raw = [sse(one if isinstance(one, str | dict) else json.dumps(one)) for one in events]
    if isinstance(events[found[0]], str):
        raw[found[0]] = sse(json.dumps(events[found[0]]))
    return b"".join(raw), raw[found[0]]


def _is_of(event: Json, kind: str) -> bool:
    delta = event.get("delta")
    return kind in (event.get("type"), delta.get("type") if isinstance(delta, dict) else "") if kind else is_call(event)


def question(api: Api, history: list[Json]) -> Json:
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}]
    if api.name == "chat":
        tools = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    if api.name == "messages":
        tools = [{"name": "look", "input_schema": {"type": "object"}}]
    more = {"max_tokens": 100} if api.name == "messages" else {}
    return {"model": "gpt-4o", "stream": True, "tools": tools, api.field: history, **more}


def _unnumbered(stream: bytes) -> list[Any]:
    """Return events without what places them among others: numbers, ids, and what an end repeats of them all."""
    out = []
    for one in events_in(stream):
        if isinstance(one, dict):
            one = {key: one[key] for key in one if key not in ("id", "index", "output_index", "sequence_number")}
            if isinstance(response := one.get("response"), dict):
                one["response"] = {key: response[key] for key in response if key not in ("id", "output")}
        out.append(one)
    return out


class Strange:
    """A provider that says the streams of each caller one after the other, and at last that all is well."""

    def __init__(self, streams: dict[str, list[bytes]]) -> None:
        self.streams, self.asked = streams, dict.fromkeys(streams, 0)

    def __call__(self, asked: Asked) -> Answer:
        key = asked.header("authorization")
        self.asked[key] += 1
        if self.streams[key]:
            whole = self.streams[key].pop(0)
            pieces = tuple(whole[at : at + 333] for at in range(0, len(whole), 333))
            return Answer(headers=EVENTS if asked.json.get("stream") else JSON, pieces=pieces)
        return said(API_OF[asked.target], asked.json, Reply(text="All is well."), ident=fresh_id(), size=9)


@dataclass(kw_only=True)
class Found:
    """What an agent got that asked, and asked again, and what is in its log then."""

    out: bytes
    asked: int
    history: list[Json]
    log: list[Json]
    line: str


Lines = Callable[[], list[str]]


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    caplog.set_level(logging.INFO, logger="jettison.gateway.requests")
    return lambda: [one.getMessage() for one in caplog.records if one.name == "jettison.gateway.requests"]


@dataclass(kw_only=True)
class Agents:
    """Asks, each time with a key of its own, a gateway before a provider that says certain streams."""

    session: aiohttp.ClientSession
    settings: Settings
    working: Runtime
    lines: Lines

    async def found(self, api: Api, streams: list[list[bytes]], *, stream: bool = True) -> list[Found]:
        """Return what each agent found, who was told its own of *streams*."""
        keys = [f"Bearer {fresh_id()}" for _ in streams]
        model = Strange(dict(zip(keys, streams, strict=True)))
        section: Json = {"mode": "manage", "window": 16_000, "deadline_seconds": 60.0}
        async with provider(model) as there, in_front_of(there, self.settings, **section) as url:
            return list(await asyncio.gather(*(self._found(api, url, key, model, stream) for key in keys)))

    async def _found(self, api: Api, url: str, key: str, model: Strange, stream: bool) -> Found:
        history: list[Json] = [{"role": "user", "content": f"What was it? {fresh_id()}"}]
        out, name = await self._got(api, url, key, history, stream)
        asked, line = model.asked[key], next(one for one in reversed(self.lines()) if f"/{name}" in one)
        history += [{"role": "assistant", "content": "Let me see."}, {"role": "user", "content": "And?"}]
        _, again = await self._got(api, url, key, history, stream)
        assert again == name
        kept = await said_messages(address(name), log=self.working.log)
        log = [messages.decode(one.raw) for one in kept]
        return Found(out=out, asked=asked, history=history, log=log, line=line)

    async def _got(self, api: Api, url: str, key: str, history: list[Json], stream: bool) -> tuple[bytes, str]:
        body = {**question(api, history), "stream": stream}
        async with self.session.post(url + PATHS[api.name], json=body, headers={"authorization": key}) as answer:
            assert answer.status == 200
            return await answer.read(), answer.headers["x-jettison-conversation"]


@pytest.fixture
def agents(session: aiohttp.ClientSession, settings: Settings, working: Runtime, lines: Lines) -> Agents:
    return Agents(session=session, settings=settings, working=working, lines=lines)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_an_agent_gets_what_nobody_understands_as_it_came_and_nothing_half_is_kept(
    api: Api, agents: Agents
) -> None:
    cases = {name: malformed(api, name, CALLED, 0)[0] for name in MALFORMED[api.name]}
    # what has no blank line at its end stands behind all that was held back
    cases["no end"] = streamed(api, CALLED, 0).rstrip(b"\n") + b"x"
    cases["a rest"] = malformed(api, "no object", CALLED, 0)[0] + b"x"
    found = await agents.found(api, [[stream] for stream in cases.values()])
    for name, one, stream in zip(cases, found, cases.values(), strict=True):
        assert one.out == stream, name
        # nobody read anything for it, and its operator is told
        assert one.asked == 1, name
        assert "; its answer went on as it came: " in one.line, name
        assert "Let me see" not in one.line, name
        assert one.log == one.history, name


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_behind_a_read_an_agent_gets_it_as_it_came_too(api: Api, agents: Agents) -> None:
    begun = streamed(api, Reply(text="Let me see.", calls=(READ,)), 0)
    cases = {name: malformed(api, name, CALLED, 1) for name in MALFORMED[api.name]}
    found = await agents.found(api, [[begun, stream] for stream, _ in cases.values()])
    for (name, (stream, event)), one in zip(cases.items(), found, strict=True):
        assert one.asked == 2, name
        assert "; its answer went on as it came: " in one.line, name
        # all of the second turn but what begins an answer is there, in its order; ours are numbers and ids alone
        told = _unnumbered(one.out)
        assert told[-len(_unnumbered(stream)) + 1 :] == _unnumbered(stream)[1:], name
        assert _unnumbered(event)[0] in told, name
        assert one.log == one.history, name


WHOLE: dict[str, list[Json]] = {
    "chat": [
        {"choices": [None]},
        {"choices": [{"message": 7}]},
        {"choices": [{"message": {"tool_calls": [None]}}]},
        {"choices": [{"message": {"tool_calls": [{"function": "read_artifact"}]}}]},
    ],
    "messages": [
        {"role": "assistant", "content": [None]},
        {"role": "assistant", "content": [{"name": "read_artifact"}]},
        {"role": "assistant", "content": "On."},
    ],
    "responses": [
        {"status": "completed", "id": "r", "output": [None]},
        {"status": "completed", "id": "r", "output": [{"type": None}]},
        {"status": "completed", "id": 7, "output": []},
    ],
}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
async def test_an_answer_that_comes_whole_goes_on_as_it_came_too(api: Api, agents: Agents) -> None:
    answers = [*(json.dumps(one).encode() for one in WHOLE[api.name]), b"[7]", b"{"]
    reads = said(api.profile, {"model": "m"}, Reply(calls=(READ,)), ident="r", size=9).pieces[0]
    assert isinstance(reads, bytes)
    for before in ([], [reads]):
        found = await agents.found(api, [[*before, one] for one in answers], stream=False)
        for answer, one in zip(answers, found, strict=True):
            assert one.out == answer
            assert one.asked == 1 + len(before)
            assert "; its answer went on as it came: " in one.line, one.line
            assert one.log == one.history


@pytest.mark.parametrize("output", [7, [None], {}])
async def test_an_answer_that_nobody_understands_is_not_known_by_its_id(output: Any, agents: Agents) -> None:
    stream, _ = malformed(RESPONSES_API, "no object", Reply(text="Let me see.", calls=(READ,)), 0)
    body = sse({"type": "response.completed", "response": {"id": "resp_1", "output": output, "status": "completed"}})
    (one,) = await agents.found(RESPONSES_API, [[stream + body]])
    assert one.out == stream + body
    assert one.log == one.history
