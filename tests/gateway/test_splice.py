"""Several turns of a model in one stream, cut wherever networks cut: judged by what is put together from it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from actors.gateway.apis import CHAT_API, MESSAGES_API, RESPONSES_API, Api
from actors.gateway.dialects import dialect_of
from actors.gateway.splice import splice_of
from actors.gateway.sse import Event, Events, event_of
from tests.gateway.model import Reply, StrictModel
from tests.gateway.provider import Asked

APIS = [CHAT_API, MESSAGES_API, RESPONSES_API]
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
READ = ("read_artifact", {"key": "messages:4-9"})
LOOK = ("look", {"where": "here and there"})

CASES = {
    "a word": [Reply(text="All is well.")],
    "a call": [Reply(calls=(LOOK, LOOK))],
    "a read": [Reply(calls=(READ,)), Reply(text="It was seven.")],
    "words and a read": [Reply(text="Let me see.", calls=(READ,)), Reply(text=" It was seven.", calls=(LOOK,))],
    "thoughts and reads": [
        Reply(thinks="hm", text="Wait. ", calls=(READ, READ)),
        Reply(thinks="hm hm", calls=(READ,)),
        Reply(thinks="ah", text="It was seven."),
    ],
    "both at once": [Reply(text="Let me see.", calls=(READ, LOOK, READ, LOOK))],
    "read, then both": [Reply(calls=(READ,)), Reply(text="And here?", calls=(LOOK, READ))],
    "reads without an end": [Reply(text="a ", calls=(READ,)), Reply(text="b", calls=(READ,))],
}


def streamed(api: Api, reply: Reply, turn: int) -> bytes:
    """Return what the strict model streams as its *turn*."""
    model = StrictModel(window=100_000, replies=lambda run, n: reply)
    message = {"role": "user", "content": f"run t{turn} "}
    tools: list[dict[str, Any]] = [{"name": "look"}, {"name": "read_artifact"}]
    body: dict[str, Any] = {"model": "m", "stream": True, "tools": tools, "stream_options": {"include_usage": True}}
    body |= (
        {"input": [message], "instructions": f"run t{turn} "} if api.name == "responses" else {"messages": [message]}
    )
    answer = model(Asked(method="POST", target=PATHS[api.name], headers=(), body=json.dumps(body).encode()))
    assert answer.status == 200, answer
    return b"".join(piece for piece in answer.pieces if isinstance(piece, bytes))


def fed(stream: bytes, size: int) -> list[Event]:
    events = Events()
    return [one for at in range(0, len(stream), size) for one in events.fed(stream[at : at + size])]


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_an_agent_sees_one_answer_without_the_gateways_calls(api: Api, case: str, size: int) -> None:
    dialect, splice = dialect_of(api), splice_of(api)
    turns, out = [], b""
    for turn, reply in enumerate(CASES[case]):
        if turn:
            splice.next_turn()
        for event in fed(streamed(api, reply, turn), size):
            out += b"".join(splice.heard(event))
        assert splice.whole
        assert [call.name for call in dialect.calls(splice.turn)] == [name for name, _ in reply.calls]
        turns.append(splice.turn)
    out += b"".join(splice.ended())
    if len(turns) == 1 and READ not in CASES[case][0].calls:
        assert out == streamed(api, CASES[case][0], 0)
    judge = splice_of(api)
    events = fed(out, len(out))
    for event in events:
        list(judge.heard(event))
    assert judge.turn == dialect.joined([dialect.without_ours(turn) for turn in turns])
    assert b"read_artifact" not in out
    assert judge.whole
    _in_order(api, [json.loads(event.data) for event in events if event.data.startswith(b"{")])
    ended = json.dumps([json.loads(event.data) for event in events[-3:] if event.data.startswith(b"{")])
    theirs = bool(dialect.calls(judge.turn))
    if api.name != "responses":
        assert ("tool_calls" in ended or "tool_use" in ended) == theirs


def _in_order(api: Api, told: list[dict[str, Any]]) -> None:
    """Check the numbers and ids of events."""
    if api.name == "chat":
        assert len({one["id"] for one in told}) == 1
        roles = [one for one in told if one["choices"] and "role" in one["choices"][0]["delta"]]
        assert len(roles) == 1
    elif api.name == "messages":
        assert [one["type"] for one in told if one["type"].startswith("message_")] == [
            "message_start",
            "message_delta",
            "message_stop",
        ]
        starts = [one["index"] for one in told if one["type"] == "content_block_start"]
        assert starts == list(range(len(starts)))
    else:
        assert [one["sequence_number"] for one in told] == list(range(len(told)))
        assert len({one["response"]["id"] for one in told if "response" in one}) == 1
        added = [one["output_index"] for one in told if one["type"] == "response.output_item.added"]
        assert added == list(range(len(added)))


def test_calls_without_a_number_are_told_apart_by_their_ids() -> None:
    """As some servers that speak chat completions stream them."""
    whole = streamed(CHAT_API, Reply(text="On.", calls=(READ, LOOK, READ, LOOK)), 0)
    bare = re.sub(rb'("tool_calls": \[\{)"index": \d+, ', rb"\1", whole)
    assert bare.count(b'"index"') < whole.count(b'"index"')
    splice = splice_of(CHAT_API)
    for event in fed(bare, len(bare)):
        list(splice.heard(event))
    numbered = splice_of(CHAT_API)
    for event in fed(whole, len(whole)):
        list(numbered.heard(event))
    assert splice.turn == numbered.turn
    assert len(splice.turn["tool_calls"]) == 4
    assert b'"index":1' in b"".join(splice.ended())


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
def test_bytes_behind_the_last_event_stand_behind_the_calls(api: Api) -> None:
    splice, whole = splice_of(api), streamed(api, Reply(text="On.", calls=(LOOK,)), 0)
    out = b"".join(piece for event in [*fed(whole, 50), event_of(b"x")] for piece in splice.heard(event))
    assert out + b"".join(splice.ended()) == whole + b"x"


def test_a_turn_that_was_cut_off_is_not_gone_on_with() -> None:
    splice = splice_of(MESSAGES_API)
    whole = streamed(MESSAGES_API, Reply(calls=(READ,)), 0)
    for event in fed(whole.replace(b'"tool_use", "stop_sequence"', b'"max_tokens", "stop_sequence"'), 50):
        list(splice.heard(event))
    assert not splice.whole
