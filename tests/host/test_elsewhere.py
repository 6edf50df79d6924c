"""Conversations kept elsewhere: who works on them knows ports only, so any store that keeps the contracts will do."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from actors.audit.replay import replay
from actors.cli.session import started_stack
from actors.core.flow import next_actor
from actors.host.bootstrap import Process, ProcessRole, Runtime, runtime, work
from actors.host.settings import Settings
from actors.runtime.conversations import Conversations
from actors.runtime.stepping import Effects
from protocol import codec, subjects
from protocol.acked import acked
from protocol.client import Client
from protocol.errors import NotFound
from protocol.facts import ConversationOpened, MessagesAppended, SaidFact, SaidMessage, ToolOutputSpilled
from protocol.formats import messages
from protocol.ids import Address, address, fresh_id
from protocol.service_messages import Answer, ContextAsked
from protocol.subjects import ACTORS, Actor
from storage.archives import ArchivedLog
from storage.encrypted import EncryptedLog, EncryptedSnapshots
from storage.gateway_sessions import MemorySessions
from storage.hearing import NatsHearing
from storage.memory import MemoryAnchors, MemoryArchives, MemoryArtifacts, MemoryKeys, MemoryLog, MemorySnapshots
from storage.memory_erasure import MemoryErasure
from storage.memory_work import (
    MemoryAnnouncer,
    MemoryDeadLetters,
    MemoryInProgress,
    MemoryKeptList,
    MemoryLogChanges,
    MemoryRequests,
    MemoryStuckSlots,
    MemoryWakes,
)
from tests.conftest import SAMPLE, Json, done_facts, layer
from tests.storage.sqlite_log import SqliteLog

AT = address("elsewhere")


class NoSandbox:
    """`Sandbox` of one process: nobody dies in it."""

    async def death(self, actor: Actor, at: Address) -> str:
        raise AssertionError("no worker disappears here")


def in_memory() -> Process:
    """Return a process whose stores are all in memory."""
    wakes, artifacts, keys, archives = MemoryWakes(), MemoryArtifacts(), MemoryKeys(), MemoryArchives()
    in_progress, dead_letters = MemoryInProgress(), MemoryDeadLetters()
    stored, closed = MemoryLog(wakes), MemorySnapshots()
    log = EncryptedLog(ArchivedLog(stored, archives=archives), keys=keys)
    snapshots = EncryptedSnapshots(closed, keys=keys, artifacts=artifacts)
    return Process(
        anchors=MemoryAnchors(),
        sessions=MemorySessions(),
        log=log,
        snapshots=snapshots,
        artifacts=artifacts,
        wakes=wakes,
        in_progress=in_progress,
        dead_letters=dead_letters,
        changes=MemoryLogChanges(stored),
        stuck_slots=MemoryStuckSlots(),
        kept_list=MemoryKeptList(),
        keys=keys,
        stored=stored,
        archives=archives,
        erasure=MemoryErasure(
            log=stored,
            wakes=wakes,
            in_progress=in_progress,
            dead_letters=dead_letters,
            keys=keys,
        ),
        announcer=MemoryAnnouncer(),
        requests=MemoryRequests(),
        conversations=Conversations(log=log, snapshots=snapshots, writer="memory"),
        effects=Effects(artifacts=artifacts),
        sandbox=NoSandbox(),
        name="memory",
    )


def on(stored: SqliteLog, beside: Process) -> Process:
    """Return a process whose log is *stored*, and all else as *beside*: its sweeper and its eraser see another log."""
    log = EncryptedLog(ArchivedLog(stored, archives=beside.archives), keys=beside.keys)
    conversations = Conversations(log=log, snapshots=beside.snapshots, writer="sqlite")
    return replace(beside, log=log, stored=stored, conversations=conversations, name="sqlite")


@asynccontextmanager
async def at_work(ours: Process, *roles: ProcessRole) -> AsyncIterator[Process]:
    """Have the four actors, the service and the sweeper of *ours* work meanwhile, or *roles* alone."""
    working = asyncio.create_task(work(ours, roles or ACTORS, alone=bool(roles)))
    try:
        yield ours
    finally:
        working.cancel()
        (ended,) = await asyncio.gather(working, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), ended


@pytest.fixture
async def process() -> AsyncIterator[Process]:
    """Yield a process in memory whose four actors, service and sweeper work."""
    async with at_work(in_memory()) as ours:
        yield ours


async def say(process: Process, *facts: SaidFact, count: int) -> None:
    body = codec.encode_said(codec.Said(writer="agent", count=count, facts=facts))
    await process.log.say(AT, body, message_id=fresh_id(), headers={})


async def context(process: Process) -> tuple[Answer, list[Json]]:
    assert isinstance(process.requests, MemoryRequests)
    asked = ContextAsked(upto_seq=await process.log.head(AT), wait_seconds=60.0)
    first, *frames = await process.requests.ask("context", AT, msgspec.json.encode(asked))
    answer = msgspec.json.decode(first, type=Answer)
    assert answer.fault is None, answer.fault
    return answer, json.loads(b"".join(frames))


def appended(new: Sequence[Json]) -> MessagesAppended:
    return MessagesAppended(messages=tuple(SaidMessage(raw=messages.encode(one)) for one in new))


async def test_the_four_actors_lighten_a_conversation_that_no_server_ever_saw(process: Process) -> None:
    opened = ConversationOpened(name="elsewhere", model="gpt-4o", policy=json.dumps(layer(window=6_000)).encode())
    await say(process, opened, appended(SAMPLE), count=1)
    answer, view = await context(process)
    assert answer.context is not None
    assert answer.context.compacted
    assert answer.context.tokens <= 6_000
    assert view[0] == SAMPLE[0]
    assert 0 < len(view) < len(SAMPLE)
    spilled = [fact for fact in done_facts(await process.log.read(AT, after=0)) if isinstance(fact, ToolOutputSpilled)]
    assert spilled
    for fact in spilled:
        assert await process.artifacts.get(AT.tenant, fact.sha256)
    assert isinstance(process.announcer, MemoryAnnouncer)
    async with asyncio.timeout(180):
        while not process.announcer.heard:
            await asyncio.sleep(0.01)
    assert {name for name, *_ in process.announcer.heard} == {"ready"}


async def test_a_conversation_kept_in_one_file_is_the_same_for_who_opens_it_later(tmp_path: Path) -> None:
    file, first = tmp_path / "log.sqlite", in_memory()
    with closing(SqliteLog(file, first.wakes)) as stored:
        async with at_work(on(stored, first)) as ours:
            opened = ConversationOpened(name="file", model="gpt-4o", policy=json.dumps(layer(window=6_000)).encode())
            await say(ours, opened, appended(SAMPLE), count=1)
            answer, shown = await context(ours)
        assert answer.context is not None
        assert answer.context.compacted
        assert 0 < len(shown) < len(SAMPLE)
        left = await ours.conversations.load(AT)

    # of the first process nothing is left but the file, and what opens what is encrypted in it
    with closing(SqliteLog(file)) as stored:
        later = on(stored, replace(in_memory(), keys=first.keys))
        records = await later.log.read(AT, after=0)
        again = replay(AT, records)
        assert (again.hash, again.version, again.divergence) == (left.hash.hex(), left.version, None)
        assert again.decided_again > 0
        assert again.views == 1
        assert {type(fact).__name__ for fact in done_facts(records)} >= {"ToolOutputSpilled", "ContextServed"}
        assert (await later.conversations.load(AT)).hash == left.hash
        assert [one.body for one in await stored.read(AT, after=0)] != [one.body for one in records]


class Choosy(SqliteLog):
    """One that fails at some messages, as a fault in an adapter would."""

    async def say(self, at: Address, body: bytes, *, message_id: str, headers: Mapping[str, str]) -> int:
        if body == b"poison":
            raise ValueError("a fault of this adapter")
        return await super().say(at, body, message_id=message_id, headers=headers)


async def test_an_agent_speaks_to_a_log_that_is_no_stream_as_to_any_other(tmp_path: Path) -> None:
    async with (
        started_stack(Settings(data=str(tmp_path))) as (ours, _),
        runtime(ours, role="test") as running,
        Client.connect(ours.nats.url) as agent,
    ):
        assert await running.connection.jetstream().delete_stream(subjects.LOG_STREAM)
        with closing(Choosy(tmp_path / "log.sqlite", running.wakes)) as stored:
            hearing = NatsHearing(running.connection, stored)
            there = replace(on(stored, running), hearing=hearing)
            # its sweeper and its eraser would ask the stream
            async with at_work(there, *ACTORS, "service"):
                talk = await agent.open(f"file-{fresh_id()}", policy=layer(window=6_000))
                await talk.append(SAMPLE)
                await running.connection.publish(subjects.said(AT), b"poison")
                view = await talk.context(patience=120)
                assert view.compacted
                assert 0 < len(view.messages) < len(SAMPLE)
                newest = (await stored.read(talk.at, after=0))[-1]
                # said again, since nobody confirmed it, it is stored once, and both are told its place
                said, id_ = subjects.said(talk.at), {"Nats-Msg-Id": "unconfirmed"}
                body = codec.encode_said(codec.Said(writer="agent", count=1, facts=(appended(SAMPLE[-1:]),)))
                told = [await acked(running.connection, said, body, headers=id_, seconds=30) for _ in range(2)]
                assert told[0].seq == told[1].seq > newest.seq
            records = await there.log.read(talk.at, after=0)
            assert [one.seq for one in records if one.side == "said"][-1] == told[0].seq
            assert replay(talk.at, records).divergence is None


async def test_a_sweep_of_memory_finds_what_nobody_was_told() -> None:
    quiet = in_memory()
    await quiet.log.say(
        AT,
        codec.encode_said(codec.Said(writer="agent", count=1, facts=(appended(SAMPLE[:1]),))),
        message_id=fresh_id(),
        headers={},
    )
    slot = await anext(quiet.wakes.slots("spill", credits=1))
    await slot.done()
    swept = await quiet.sweeper().sweep(everything=True)
    assert (swept.looked_at, swept.open, swept.woken, swept.complete) == (1, 1, 1, True)


async def test_what_no_server_ever_saw_is_archived_and_then_erased(process: Process) -> None:
    await say(process, appended(SAMPLE), count=1)
    await context(process)
    async with asyncio.timeout(180):
        while next_actor(state := await process.conversations.load(AT)) is not None:
            await asyncio.sleep(0.01)
    records = await process.log.read(AT, after=0)
    archived = await process.archiving().archive(AT, idle_seconds=0.0, by="test")
    assert (archived.kept, archived.removed) == ("", len(records))
    assert len(await process.stored.read(AT, after=0)) == 1
    through = await process.log.read(AT, after=0)
    assert [one.body for one in through[:-1]] == [one.body for one in records]

    gone = await process.erasing().erase(AT, by="test")
    assert (gone.messages, gone.records, gone.keys, gone.archives) == (state.messages, 1, 1, (archived.sha256,))
    assert [one.side for one in await process.log.read(AT, after=0)] == ["done"]
    assert (await process.conversations.load(AT)).erased
    for sha256 in gone.artifacts:
        with pytest.raises(NotFound):
            await process.artifacts.get(AT.tenant, sha256)


async def test_snapshots_that_are_kept_apart_from_the_log_go_with_its_erasure(running: Runtime) -> None:
    at, apart = address("victim", f"apart-{fresh_id()}"), MemorySnapshots()
    await running.log.say(
        at,
        codec.encode_said(codec.Said(writer="agent", count=1, facts=(appended(SAMPLE[:1]),))),
        message_id=fresh_id(),
        headers={},
    )
    large = EncryptedSnapshots(apart, keys=running.keys, artifacts=running.artifacts)
    await large.put(at, secrets.token_bytes(300_000))
    sha256 = await large.artifact(at)
    assert sha256
    gone = await msgspec.structs.replace(running.erasing(), snapshots=large).erase(at, by="test")
    assert (gone.snapshots, gone.artifacts) == (1, (sha256,))
    assert await apart.newest(at) is None
    again = await msgspec.structs.replace(running.erasing(), snapshots=large).erase(at, by="test")
    assert again.snapshots == 0
