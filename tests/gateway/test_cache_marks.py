"""Marks on a view: at most four with those elsewhere, and where the provider's cache finds the last request again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.gateway.apis import MESSAGES_API
from actors.gateway.bodies import Body
from actors.gateway.cache_marks import marked, marks_beside
from protocol.formats.cache_marks import MARKS_KEPT, MARKS_MAX, without_marks

Json = dict[str, Any]
MARK = {"type": "ephemeral", "ttl": "1h"}


def call(turn: int) -> Json:
    # an argument of this name is a tool's, and no mark
    use = {"type": "tool_use", "id": f"t{turn}", "name": "look", "input": {"cache_control": "no-store"}}
    return {"role": "assistant", "content": [use]}


def result(turn: int) -> Json:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "done"}]}


def run(turns: int) -> list[bytes]:
    said = [{"role": "user", "content": "Go."}]
    for turn in range(turns):
        said += [call(turn), result(turn)]
    return [json.dumps(one).encode() for one in said]


AGENT = [json.dumps({"role": "user", "content": [{"type": "text", "text": "Go.", "cache_control": MARK}]}).encode()]


def places(messages: list[bytes]) -> list[int]:
    """Return which messages are marked, and check with what."""
    blocks = [json.loads(raw)["content"] for raw in messages]
    found = [at for at, content in enumerate(blocks) if isinstance(content, list) and "cache_control" in content[-1]]
    assert all(blocks[at][-1]["cache_control"] == MARK for at in found)
    return found


@pytest.mark.parametrize("elsewhere", range(6))
def test_there_are_never_more_than_four(elsewhere: int) -> None:
    out = marked(run(5), like=AGENT, elsewhere=elsewhere)
    assert len(places(out)) == max(0, min(MARKS_KEPT, MARKS_MAX - elsewhere))


def test_the_last_requests_mark_stays_where_it_was() -> None:
    before = None
    for turns in range(1, 6):
        found = places(marked(run(turns), like=AGENT, elsewhere=2))
        assert found[-1] == len(run(turns)) - 1
        assert before is None or found[0] == before
        before = found[-1]


def test_who_marks_nothing_gets_nothing_marked_and_old_marks_leave() -> None:
    assert list(map(json.loads, marked(run(3), like=run(3), elsewhere=0))) == list(map(json.loads, run(3)))
    old = [*AGENT, *run(4)[1:]]
    assert places(marked(old, like=AGENT, elsewhere=2)) == [6, 8]
    assert without_marks(json.loads(AGENT[0])) == {"role": "user", "content": [{"type": "text", "text": "Go."}]}
    assert without_marks(call(1)) == call(1)
    assert marks_beside(Body(api=MESSAGES_API, fields={}, head=(AGENT[0],), messages=(), tail=())) == 1
