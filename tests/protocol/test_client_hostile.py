"""Strangers, odd histories and servers that do not answer: nothing of it stops a conversation."""

import asyncio
import random
from typing import Any

import pytest

from actors.host.bootstrap import Runtime
from protocol import codec, errors, subjects
from protocol.client import Client, Conversation
from protocol.errors import BadMessage, JettisonError, LogUnavailable, Rejected
from protocol.facts import MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import Address, address, fresh_id
from protocol.service_messages import fault_of, raised
from tests.conftest import Json, chatter, settled
from tests.protocol.test_client import call, opened, result, user
from tests.stack import LOOPBACK, free_port


async def publish_raw(running: Runtime, at: Address, body: bytes, headers: dict[str, str] | None = None) -> None:
    await running.connection.jetstream().publish(subjects.said(at), body, headers=headers)


GARBAGE: dict[str, bytes] = {
    "nothing": b"",
    "text": b"hello",
    "json": b'{"role":"user"}',
    "truncated": codec.encode_said(codec.Said(writer="w", count=1, facts=(MessagesAppended(messages=()),)))[:-1],
    "a newer envelope": b"\x94\xa6said.9\xa1w\x01\x90",
    "deep": b"\x91" * 200_000,
    "noise": random.Random(3).randbytes(5_000),
}


def envelope(*raw: bytes) -> bytes:
    fact = MessagesAppended(messages=tuple(SaidMessage(raw=one) for one in raw))
    return codec.encode_said(codec.Said(writer=fresh_id(), count=1, facts=(fact,)))


RAW: dict[str, bytes] = {
    "no json": envelope(b"nonsense"),
    "a list": envelope(b"[]"),
    "nan": envelope(b'{"role":"user","content":"x","score":NaN}'),
    "utf-16": envelope('{"role":"user","content":"x"}'.encode("utf-16")),
    "a byte order mark": envelope(b'\xef\xbb\xbf{"role":"user","content":"x"}'),
    "encoded surrogates": envelope(b'{"role":"user","content":"\xed\xa0\x80"}'),
    "deep json": envelope(b'{"role":"user","content":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "two roles": envelope(b'{"role":"user","role":"assistant","content":"x"}'),
    "line ends": envelope(b'{"role":"user",\r\n"content":"x"}\n'),
}


@pytest.mark.parametrize("what", [*GARBAGE, *RAW])
async def test_garbage_on_the_subject_does_not_stop_the_conversation(
    working: Runtime, client: Client, name: str, what: str
) -> None:
    talk = await opened(client, name)
    await talk.append([user("before")])
    await publish_raw(working, talk.at, {**GARBAGE, **RAW}[what])
    await talk.append([user("after")])
    context = await talk.context()
    assert problems(context.messages) == []
    assert (context.messages[0], context.messages[-1]) == (user("before"), user("after"))


@pytest.mark.parametrize(
    "headers",
    [{"Status": "404"}, {"Status": "409"}, {"traceparent": "nonsense"}, {"Nats-Rollup": "sub"}, {"X": "ä" * 100}],
    ids=lambda headers: next(iter(headers.items()))[0] + next(iter(headers.values()))[:4],
)
async def test_headers_of_a_stranger_do_not_stop_the_conversation(
    working: Runtime, client: Client, name: str, headers: dict[str, str]
) -> None:
    talk = await opened(client, name)
    await talk.append([user("before")])
    try:
        await publish_raw(working, talk.at, envelope(messages.encode(user("odd"))), headers)
        wanted = [user("before"), user("odd"), user("after")]
    except Exception:  # the server refuses some of them, which is as good
        wanted = [user("before"), user("after")]
    await talk.append([user("after")])
    async with asyncio.timeout(180):
        assert (await talk.context(patience=3600)).messages == wanted


ODD_HISTORIES: dict[str, list[Json]] = {
    "a repeated call id": [user("q"), call("a"), result("a", "1"), call("a"), result("a", "2"), user("end")],
    "a call id twice in one message": [
        user("q"),
        {**call("a"), "tool_calls": [*call("a")["tool_calls"], *call("a")["tool_calls"]]},
        result("a", "1"),
        user("end"),
    ],
    "a result without a call": [user("q"), result("ghost", "boo"), user("end")],
    "a second result": [user("q"), call("a"), result("a", "1"), result("a", "again"), user("end")],
    "a call without a result": [user("q"), call("a"), user("end")],
    "no calls after all": [user("q"), {"role": "assistant", "content": "x", "tool_calls": []}, user("end")],
    "an empty result": [user("q"), call("a"), {"role": "tool", "tool_call_id": "a", "content": None}, user("end")],
    "lone surrogates": [user("a \ud800 b"), call("a"), result("a", "\udfff"), user("end")],
    "lone surrogates in ids": [user("q"), call("\ud800"), result("\ud800", "1"), result("\udc00", "2"), user("end")],
    "lone surrogates in names": [
        {**user("q"), "name": "\ud800"},
        call("a", "run\ud800"),
        result("a", "1"),
        user("end"),
    ],
    "lone surrogates in other fields": [{**user("q"), "x\ud800": ["\udfff"]}, user("end")],
    "many lone surrogates": [user("q"), call("a"), result("a", "x \ud800 y\n" * 5_000), user("end")],
    "megabytes of lone surrogates": [user("q"), call("a"), result("a", "x \ud800 y\n" * 50_000), user("end")],
    "nothing but spaces": [user(" " * 60_000), user("end")],
}


@pytest.mark.parametrize("what", ODD_HISTORIES)
async def test_an_odd_history_is_served_in_a_legal_form(working: Runtime, client: Client, name: str, what: str) -> None:
    talk = await opened(client, name)
    await talk.append(ODD_HISTORIES[what])
    context = await talk.context(patience=180)
    assert problems(context.messages) == []
    assert context.tokens <= context.budget
    assert context.messages[-1] == user("end")
    # whoever starts cold sees the same
    state = await settled(working, talk.at)
    assert state.messages == len(ODD_HISTORIES[what])


async def test_all_odd_histories_survive_compaction(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name, window=4_000)
    for history in ODD_HISTORIES.values():
        await talk.append([*history, *chatter(4)])
        context = await talk.context(patience=180)
        assert problems(context.messages) == []
        assert context.tokens <= context.budget == 4_000


# What is wrong of an agent ------------------------------------------------------------------------------------------


async def test_a_count_below_nothing_is_refused_before_it_is_said(working: Runtime, client: Client, name: str) -> None:
    talk = await opened(client, name)
    await talk.append([user("hi")])
    for told in (
        lambda: talk.context(budget=-5),
        lambda: talk.report_usage(input_tokens=-4),
        lambda: talk.report_overflow(limit_tokens=-1),
    ):
        with pytest.raises(Rejected, match="number of tokens"):
            await told()
    assert (await talk.context()).upto == 1


async def test_a_closed_client_says_so_at_once(working: Runtime, name: str) -> None:
    async with Client.connect(working.settings.nats.url) as client:
        talk = await opened(client, name)
    for told in (lambda: talk.append([user("hi")]), talk.context):
        with pytest.raises(LogUnavailable, match="closed"):
            await told()


@pytest.mark.parametrize("given", [user("hi"), "hi", b"hi"])
async def test_one_message_is_no_list_of_messages(client: Client, name: str, given: Any) -> None:
    talk = Conversation(client=client, at=address(name))
    with pytest.raises(BadMessage, match="takes a list of messages"):
        await talk.append(given)


# Nobody there -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["closed", "silent"])
async def test_nats_that_does_not_answer_is_reported_soon(what: str) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, LOOPBACK, 0) if what == "silent" else None
    port = server.sockets[0].getsockname()[1] if server else free_port()
    try:
        # two seconds; nats-py itself would try for ever
        async with asyncio.timeout(180):
            with pytest.raises(LogUnavailable):
                async with Client.connect(f"nats://{LOOPBACK}:{port}"):
                    pass
    finally:
        if server:
            server.close()


async def test_every_error_of_the_service_has_a_type_here() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, JettisonError)]
    for kind in kinds:
        again = raised(fault_of(kind("what happened", number=3, where=("a",))))
        assert type(again) is kind
        assert again.fields == {"number": 3, "where": "('a',)"}
