"""Laws of a splice: recorded streams, changed at random, go on as they came or are told apart, and nothing raises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway.apis import Api
from actors.gateway.canon import hash_of
from actors.gateway.dialects import dialect_of
from actors.gateway.splice import Splice, splice_of
from actors.gateway.sse import Event, Events, event_of
from protocol.errors import BadMessage
from protocol.jsonbytes import decode_value, encode_value
from tests.gateway.model import Reply
from tests.gateway.test_splice import APIS, CASES, LOOK, READ, fed, streamed
from tests.laws import LAWS

FOLDER = Path(__file__).parents[1] / "data" / "clients"
OPENING = ("message_start", "response.created", "response.in_progress", "response.queued")
NONSENSE: tuple[Any, ...] = (None, 7, 2**70, True, "", "On", "\ud800", "read_artifact", [], {}, [None], {"type": None})


def recorded(api: Api) -> list[list[bytes]]:
    """Return streams that real clients got, in which the call is one of `read_artifact`; and some of ours with more."""
    name = "pi" if api.name == "chat" else f"pi-{api.name}"
    told = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["requests"]
    whole = [told[at]["answer"]["body"].encode().replace(b'"bash"', b'"read_artifact"') for at in (0, 3)]
    whole += [
        streamed(api, reply, 0) for reply in (Reply(text="On.", thinks="hm", calls=(READ, LOOK)), CASES["a word"][0])
    ]
    return [[event.raw for event in fed(one, len(one))] for one in whole]


RECORDED = {api.name: recorded(api) for api in APIS}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each place in *value*: what it is in, and its key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def spoiled(raw: bytes, where: int, what: int) -> bytes:
    """Return an event with one of its places taken away, or something else there."""
    try:
        data = decode_value(event_of(raw).data)
    except BadMessage:
        return raw
    whole = {"": data}
    found = list(places(whole))
    inner, key = found[where % len(found)]
    if what < len(NONSENSE):
        inner[key] = NONSENSE[what]
    elif inner is not whole:
        del inner[key]
    return b"data: " + encode_value(whole[""]) + b"\n\n"


def changed(events: list[bytes], change: tuple[str, int, int, int]) -> list[bytes]:
    how, at, where, what = change
    at %= len(events)
    match how:
        case "spoil":
            new = [spoiled(events[at], where, what)]
        case "cut":
            new = [events[at][: where % len(events[at])] + b"\n\n"]
        case "drop":
            new = []
        case _:
            new = [events[at], events[where % len(events)]]
    return [*events[:at], *new, *events[at + 1 :]] or [b": nothing\n\n"]


NUMBERS = st.integers(0, 10_000)
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(("spoil", "spoil", "spoil", "cut", "drop", "twice")), NUMBERS, NUMBERS, st.integers(0, 16)
    ),
    min_size=1,
    max_size=3,
)


def mutated(api: Api, which: int, changes: list[tuple[str, int, int, int]]) -> bytes:
    events = RECORDED[api.name][which]
    for change in changes:
        events = changed(events, change)
    return b"".join(events)


def heard(splice: Splice, stream: bytes) -> bytes:
    """Return what goes on at once of a whole stream."""
    return b"".join(piece for event in fed(stream, len(stream)) for piece in splice.heard(event))


def said(stream: bytes) -> list[Event]:
    """Return the events of a stream without signs of life, which wait for nobody."""
    events = Events()
    found = [*events.fed(stream), event_of(events.rest())]
    return [one for one in found if one.data and object_in(one).get("type") != "ping"]


def object_in(event: Event) -> dict[str, Any]:
    try:
        data = decode_value(event.data)
    except BadMessage:
        return {}
    return data if isinstance(data, dict) else {}


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@LAWS
@given(st.integers(0, 3), CHANGES)
def test_of_a_turn_nothing_is_changed_unless_all_of_it_is_understood(
    api: Api, which: int, changes: list[tuple[str, int, int, int]]
) -> None:
    stream, splice, dialect = mutated(api, which, changes), splice_of(api), dialect_of(api)
    out = heard(splice, stream)
    calls = dialect.calls(splice.turn) if splice.whole else []
    if any(call.is_ours for call in calls):
        # it is read: what its agent sees, and what is kept, can be written
        dialect.results([(call.id, "seven") for call in calls])
        seen = dialect.joined([dialect.without_ours(splice.turn)] * 2)
        assert all(map(hash_of, dialect.messages(seen)))
        list(splice.ended())
        return
    out += b"".join(splice.ended())
    if splice.strange or b"read_artifact" not in stream:
        assert said(out) == said(stream)


@pytest.mark.parametrize("api", APIS, ids=lambda api: api.name)
@LAWS
@given(st.integers(0, 3), CHANGES)
def test_behind_a_read_every_event_of_a_strange_turn_is_told_in_its_order(
    api: Api, which: int, changes: list[tuple[str, int, int, int]]
) -> None:
    stream, splice = mutated(api, which, changes), splice_of(api)
    heard(splice, streamed(api, Reply(text="On.", calls=(READ,)), 0))
    splice.next_turn()
    out = heard(splice, stream) + b"".join(splice.ended())
    if splice.strange:
        assert told(out) == told(stream)


def told(stream: bytes) -> list[Any]:
    """Return what each event is, without those that only begin an answer: it has begun."""
    return [_fields(one) for one in said(stream) if not _opens(object_in(one))]


def _fields(event: Event) -> Any:
    # an id is the answer's, whatever its provider calls it in this turn
    return sorted(object_in(event).keys() - {"id"}) or event.raw


def _opens(data: dict[str, Any]) -> bool:
    if not data.get("choices"):
        return data.get("type") in OPENING
    choices = data["choices"]
    delta = choices[0].get("delta") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return not isinstance(delta, dict) or not any(value for key, value in delta.items() if key != "role")
