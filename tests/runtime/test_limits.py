"""Limits: agents are told that there is no room, memory stays bounded, and no tenant starves another."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest
from nats.aio.msg import Msg
from nats.js.api import DiscardPolicy

from actors.cli.session import started_stack
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.services.request_limit import TENANT_RUNNING_MAX, TENANT_WAITING_MAX, Admission
from protocol import codec, subjects
from protocol.client import Client
from protocol.errors import Busy, OutcomeUnknown, Unavailable
from protocol.facts import MessagesAppended, SaidMessage
from protocol.ids import Token, address, fresh_id
from protocol.service_messages import Answer, fault_of
from storage.streams import provision, streams
from tests.conftest import at_work, settled

FLOOD = 1_000
A, B = Token("a"), Token("b")


@pytest.fixture(scope="module")
async def apart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Settings]:
    """Yield servers of their own, whose streams may be full."""
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("limits")))) as (ours, _):
        yield ours


@pytest.fixture
async def idle(apart: Settings) -> AsyncIterator[Runtime]:
    async with runtime(apart, role="test") as running:
        yield running


async def limited(running: Runtime, stream: str, **limits: int) -> None:
    (wanted,) = (one for one in streams() if one.name == stream)
    await running.connection.jetstream().update_stream(wanted.evolve(discard=DiscardPolicy.NEW, **limits))


async def test_a_full_log_says_busy_at_once_and_what_was_said_goes_first_later(idle: Runtime, apart: Settings) -> None:
    async with Client.connect(apart.nats.url) as client:
        talk = await client.open(f"full-{fresh_id()}")
        info = await idle.connection.jetstream().stream_info(subjects.LOG_STREAM)
        await limited(idle, subjects.LOG_STREAM, max_msgs=info.state.messages)
        try:
            # whoever waited for room would have an hour of patience
            client.patience_seconds = 3600.0
            async with asyncio.timeout(180):
                with pytest.raises(Busy, match="no room"):
                    await talk.append([{"role": "user", "content": "one"}])
            assert not issubclass(Busy, OutcomeUnknown)
            assert issubclass(Busy, Unavailable)
        finally:
            await provision(idle.connection)
        await talk.append([{"role": "user", "content": "two"}])
        records = await idle.log.read(talk.at, after=0)
        said = [fact for one in records for fact in codec.decode_said(one.body).facts]
        assert [fact.messages[0].raw for fact in said if isinstance(fact, MessagesAppended)] == [
            b'{"role":"user","content":"one"}',
            b'{"role":"user","content":"two"}',
        ]


async def test_a_full_log_serves_what_was_served_and_refuses_what_cannot_be_written_down(
    idle: Runtime, apart: Settings
) -> None:
    async with Client.connect(apart.nats.url) as client, at_work(apart) as busy:
        talk, other = await client.open(f"seen-{fresh_id()}"), await client.open(f"unseen-{fresh_id()}")
        for one in (talk, other):
            await one.append([{"role": "user", "content": "one"}])
        first = await talk.context()
        await settled(busy, other.at)
        info = await idle.connection.jetstream().stream_info(subjects.LOG_STREAM)
        await limited(idle, subjects.LOG_STREAM, max_msgs=info.state.messages)
        try:
            assert await talk.context() == first
            # its wish for a smaller one cannot be written down, and the view is within it as it is
            smaller = await talk.context(budget=5_000)
            assert (smaller.messages, smaller.hash, smaller.version) == (first.messages, first.hash, first.version)
            assert (first.budget > smaller.budget, smaller.budget) == (True, 5_000)
            with pytest.raises(Busy, match="no room"):
                await other.context(patience=0.5)
        finally:
            await provision(idle.connection)
        assert (await other.context()).messages == first.messages
        assert (await talk.context(budget=5_000)).version > first.version


async def test_a_full_work_queue_is_not_taken_for_a_filled_slot(idle: Runtime) -> None:
    await idle.wakes.wake("digest", address("fills-it"), headers={})
    info = await idle.connection.jetstream().stream_info(subjects.WAKE_STREAM)
    await limited(idle, subjects.WAKE_STREAM, max_msgs=info.state.messages)
    try:
        with pytest.raises(Busy):
            await idle.wakes.wake("digest", address("has-no-room"), headers={})
    finally:
        await provision(idle.connection)
    assert await idle.wakes.wake("digest", address("has-no-room"), headers={}) is True
    await idle.connection.jetstream().purge_stream(subjects.WAKE_STREAM)


async def test_a_tenant_never_takes_every_place() -> None:
    admission = Admission()
    held: list[asyncio.Event] = []
    begun: list[Token] = []

    async def request(tenant: Token) -> None:
        async with admission.place(tenant):
            begun.append(tenant)
            held.append(asyncio.Event())
            await held[-1].wait()

    async with asyncio.TaskGroup() as group:
        for _ in range(TENANT_WAITING_MAX):
            group.create_task(request(A))
        await asyncio.sleep(0)
        async with asyncio.timeout(180):
            while len(begun) < TENANT_RUNNING_MAX:
                await asyncio.sleep(0)
        assert begun == [A] * TENANT_RUNNING_MAX
        with pytest.raises(Busy, match="context service"):
            await request(A)
        group.create_task(request(B))
        async with asyncio.timeout(180):
            while begun[-1] != B:
                await asyncio.sleep(0)
        while any(not one.is_set() for one in held):
            for one in held:
                one.set()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
    assert len(begun) == TENANT_WAITING_MAX + 1
    async with admission.place(A):
        assert admission._here.total() == 1, "who has left holds nothing"


async def test_an_agent_asks_again_where_the_service_is_busy_and_is_told_in_the_end(
    idle: Runtime, apart: Settings
) -> None:
    asked: list[Msg] = []

    async def busy_twice(message: Msg) -> None:
        asked.append(message)
        fault = fault_of(Busy("the context service has too many requests", requests=9)) if len(asked) < 3 else None
        await message.respond(msgspec.json.encode(Answer(fault=fault)))

    subscription = await idle.connection.subscribe(subjects.ask_filter("read"), cb=busy_twice)
    async with Client.connect(apart.nats.url) as client:
        talk = await client.open(f"busy-{fresh_id()}")
        assert await talk.read_artifact("0" * 16) == ""
        assert len(asked) == 3
        await subscription.unsubscribe()

        async def always_busy(message: Msg) -> None:
            await message.respond(msgspec.json.encode(Answer(fault=fault_of(Busy("full", requests=9)))))

        subscription = await idle.connection.subscribe(subjects.ask_filter("context"), cb=always_busy)
        async with asyncio.timeout(180):
            with pytest.raises(Busy, match="full") as failed:
                await talk.context(patience=0.5)
        assert failed.value.fields == {"requests": 9}
        await subscription.unsubscribe()


async def flooded(running: Runtime, tenant: str, count: int) -> None:
    """Let *count* conversations of *tenant* wait for spill."""
    facts = (MessagesAppended(messages=(SaidMessage(raw=b'{"role":"user","content":"hi"}'),)),)
    gate = asyncio.Semaphore(32)

    async def one(index: int) -> None:
        body = codec.encode_said(codec.Said(writer="w", count=1, facts=facts))
        async with gate:
            await running.log.say(address(f"c{index}", tenant), body, message_id=fresh_id(), headers={})

    await asyncio.gather(*(one(index) for index in range(count)))


async def waiting(running: Runtime, tenant: str) -> int:
    info = await running.connection.jetstream().stream_info(
        subjects.WAKE_STREAM, subjects_filter=f"ctx.v1.wake.spill.{tenant}.*"
    )
    return len(info.state.subjects or {})


async def test_a_tenant_with_many_waiting_conversations_does_not_hold_up_another(
    idle: Runtime, apart: Settings
) -> None:
    tenant = f"flood-{fresh_id()[:6]}"
    await flooded(idle, tenant, FLOOD)
    async with asyncio.timeout(180):
        while await waiting(idle, tenant) < FLOOD:  # the server wakes a moment after it answered
            await asyncio.sleep(0.02)
    async with Client.connect(apart.nats.url) as client, at_work(apart):
        talk = await client.open("waits", tenant=f"small-{fresh_id()[:6]}")
        await talk.append([{"role": "user", "content": "hello"}])
        context = await talk.context(patience=180)
        left = await waiting(idle, tenant)
    assert context.upto == 1
    assert left > FLOOD // 4, f"it was served after {FLOOD - left} of the other tenant's {FLOOD}"


async def test_waiting_events_fill_one_slot_for_each_conversation(idle: Runtime) -> None:
    at = address(f"many-{fresh_id()}", "crowd")
    facts = (MessagesAppended(messages=(SaidMessage(raw=b'{"role":"user","content":"hi"}'),)),)
    for count in range(200):
        body = codec.encode_said(codec.Said(writer="w", count=count + 1, facts=facts))
        await idle.log.say(at, body, message_id=fresh_id(), headers={})
    async with asyncio.timeout(180):
        while not (filled := await waiting(idle, "crowd")):  # the server wakes a moment after it answered
            await asyncio.sleep(0.02)
    assert filled == 1
