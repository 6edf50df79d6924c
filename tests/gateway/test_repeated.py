"""What a request repeats of an earlier one is not read again, and it is read as if it had come first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.gateway import bodies, repeated
from actors.gateway.apis import CHAT_API, RESPONSES_API, Api
from actors.gateway.bodies import Body, body_of
from actors.gateway.canon import hash_of
from actors.gateway.identity import chain_of
from actors.gateway.repeated import Repeated
from protocol.errors import Rejected
from protocol.jsonbytes import decode
from tests.laws import LAWS

SECRET = b"s" * 16

texts = st.sampled_from(["", "a", "b", 'q"],"messages":[{"x":1}],"', "é", "x" * 50])
messages = st.builds(
    lambda role, text: {"role": role, "content": text}, st.sampled_from(["user", "assistant", "system"]), texts
)
fields = st.dictionaries(st.sampled_from(["model", "tools", "metadata", "input", "n"]), texts, max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> list[bytes]:
    """Requests that repeat each other: they go on, branch, move marks, are written otherwise, or break off."""
    history, out = draw(st.lists(messages, min_size=1, max_size=4)), []
    for _ in range(draw(st.integers(2, 6))):
        history = history[: draw(st.integers(1, len(history)))] if draw(st.booleans()) else history
        history = [*history, *draw(st.lists(messages, max_size=3))]
        if draw(st.integers(0, 3)) == 0:
            history = [*history[:-1], {**history[-1], "cache_control": {"type": "ephemeral"}}]
        out.append(_written(draw, history))
    return out


def _written(draw: st.DrawFn, history: list[dict[str, Any]]) -> bytes:
    name = draw(st.sampled_from(["messages"] * 4 + ["input"]))
    spaces = draw(st.sampled_from([(",", ":")] * 3 + [(", ", ": ")]))
    listed = json.dumps(history, separators=spaces, ensure_ascii=draw(st.booleans()))
    pairs = [*draw(fields).items()] if draw(st.integers(0, 2)) == 0 else [("model", "m")]
    before = "".join(f"{json.dumps(key)}:{json.dumps(value)}," for key, value in pairs)
    after = draw(
        st.sampled_from(["", ',"stream":true', ',"model":"z"', ',"messages":[]', f',"meta":{{"messages":{listed}}}'])
    )
    raw = f'{{{before}"{name}":{listed}{after}}}'.encode()
    cut = draw(st.sampled_from([0] * 8 + [1, 2, 9]))
    return raw[: len(raw) - cut] + draw(st.sampled_from([b""] * 8 + [b" ", b"}", b"]}"]))


def _read(raw: bytes, api: Api, repeated: Repeated) -> Body | str:
    try:
        return body_of(raw, api, repeated=repeated)
    except Rejected as error:
        return str(error)


def _told(read: Body | str) -> Any:
    if isinstance(read, str):
        return read
    return list(read.fields.items()), read.head, read.messages, read.tail


def _hashed(body: Body) -> tuple[Any, Any]:
    return body.hashed.of(body.messages, lambda raw: hash_of(decode(raw)), secret=SECRET)


@given(requests(), st.sampled_from([CHAT_API, RESPONSES_API]))
@LAWS
def test_what_is_repeated_is_read_as_if_it_had_come_first(raws: list[bytes], api: Api) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(repeated, "BYTES_MIN", 0)
        known = Repeated()
        for raw in raws:
            read = _read(raw, api, known)
            assert _told(read) == _told(_read(raw, api, Repeated()))
            if isinstance(read, Body) and read.messages:
                hashes = [hash_of(decode(one)) for one in read.messages]
                assert _hashed(read) == (tuple(hashes), chain_of(hashes, secret=SECRET))


def _chat(count: int, **more: Any) -> bytes:
    history = [{"role": "user" if one % 2 == 0 else "assistant", "content": f"{one} " * 9_000} for one in range(count)]
    return json.dumps({"model": "m", "messages": history, **more}, separators=(",", ":")).encode()


def test_what_was_there_is_neither_read_nor_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known, hashed = Repeated(), []

    def counted(raw: bytes) -> bytes:
        hashed.append(raw)
        return hash_of(decode(raw))

    first = body_of(_chat(4), CHAT_API, repeated=known)
    first.hashed.of(first.messages, counted, secret=SECRET)
    whole: list[bytes] = []
    monkeypatch.setattr(bodies, "_parts", lambda raw, api, repeated: whole.append(raw))
    second = body_of(_chat(6, stream=True), CHAT_API, repeated=known)
    second.hashed.of(second.messages, counted, secret=SECRET)
    assert not whole
    assert [one is other for one, other in zip(first.messages, second.messages, strict=False)] == [True] * 4
    assert hashed == [*first.messages, *second.messages[4:]]
    assert second.fields["stream"] == b"true"


def test_no_more_is_remembered_than_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "BYTES_MAX", 300_000)
    known = Repeated()
    for model in range(9):
        body_of(_chat(4, model=f"m{model}"), CHAT_API, repeated=known)
    assert sum(one.size for one in known._seen.values()) <= 300_000
    assert len(known._seen) > 1
    body_of(_chat(20), CHAT_API, repeated=known)
    assert len(known._seen) > 1, "one that has no room at all takes it from no other"


def test_no_more_requests_are_remembered_than_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeated, "REQUESTS_MAX", 5)
    known = Repeated()
    for model in range(9):
        body_of(_chat(2, model=f"m{model}"), CHAT_API, repeated=known)
    assert len(known._seen) == 5
