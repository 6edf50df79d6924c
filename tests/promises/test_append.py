"""Appending: acknowledged is kept, once, in order, whatever happens to server or answer (promises 1, 3-6, 8)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from actors.host.adapters import tenant_keys
from actors.host.bootstrap import Runtime
from actors.host.settings import Settings
from actors.runtime.conversations import Conversations
from actors.runtime.fold import folded
from protocol import codec, subjects
from protocol.client import Client
from protocol.connecting import connect
from protocol.errors import LogUnavailable, OutcomeUnknown
from protocol.facts import MessageRepaired
from protocol.ids import Address, address, fresh_id
from protocol.keys import JetStreamKeys
from protocol.subjects import FIRST_ACTOR
from storage.encrypted import EncryptedLog
from storage.jetstream import JetStreamLog
from storage.jetstream_snapshots import JetStreamSnapshots
from storage.streams import streams
from tests.conftest import settled
from tests.promises.harness import Server, connected, one, said_body, three
from tests.protocol.test_client import said, user
from tests.protocol.test_client_outages import proxied

WRITERS = 16
ROUNDS = 5
EACH_ROUND = 100
"""Messages between two faults."""


async def test_an_acknowledged_message_is_never_lost_though_the_server_is_killed_under_load(tmp_path: Path) -> None:
    acknowledged: dict[int, bytes] = {}
    async with one(tmp_path) as server:
        connection = await connect(server.url, name="writers")
        log = JetStreamLog(connection)
        stopping = asyncio.Event()

        async def write(number: int) -> None:
            count = 0
            while not stopping.is_set():
                count += 1
                body = said_body(f"{number}/{count}", writer=f"w{number}", count=count)
                seq = await log.say(address(f"c{number}"), body, message_id=fresh_id(), headers={})
                acknowledged[seq] = body

        async with asyncio.TaskGroup() as group:
            for number in range(WRITERS):
                group.create_task(write(number))
            for number in range(1, ROUNDS + 2):
                while len(acknowledged) < number * EACH_ROUND:
                    await asyncio.sleep(0.01)
                if number <= ROUNDS:
                    server.kill()
                    server.start()
            stopping.set()
        kept: dict[int, bytes] = {}
        for number in range(WRITERS):
            kept |= {record.seq: record.body for record in await log.read(address(f"c{number}"), after=0)}
        await connection.close()
    assert len(acknowledged) >= EACH_ROUND * (ROUNDS + 1)
    assert {seq: kept.get(seq) for seq in acknowledged} == acknowledged


async def test_a_commit_whose_answer_was_lost_is_stored_once_though_another_came_on_top(
    running: Runtime, settings: Settings, at: Address
) -> None:
    """The pitfall P1: the retry finds another's commit at the head, and must not fold its own copy once more."""
    await running.log.say(at, said_body("hello"), message_id=fresh_id(), headers={})
    writer = _conversations(running.connection, "writer", settings)
    async with proxied(settings) as proxy:
        cut_off = await connect(proxy.url, name="cut-off")
        mine, other = _conversations(cut_off, "mine", settings), _conversations(running.connection, "other", settings)
        before = await mine.load(at)
        policy = (await running.effects.step(FIRST_ACTOR, at, before)).adopt
        assert policy is not None
        # whoever listens hears each try, also those that the server takes for repeats
        tries: asyncio.Queue[Msg] = asyncio.Queue()
        listening = await running.connection.subscribe(subjects.done(at), cb=tries.put)
        await running.connection.flush()
        proxy.answers.clear()
        sending = asyncio.create_task(mine.commit(at, before, (), headers={}, adopt=policy))
        async with asyncio.timeout(180):
            while (state := await other.load(at)).version == 0:
                await asyncio.sleep(0.01)
        repaired = MessageRepaired(number=1, kind="refused", detail="another's")
        assert await other.commit(at, state, (repaired,), headers={}) is True
        async with asyncio.timeout(180):
            for _ in ("mine", "another's", "mine again"):
                await tries.get()
        await listening.unsubscribe()
        proxy.answers.set()
        await sending
        seen = await mine.load(at)
        await cut_off.close()
    commits = [
        codec.decode_commit(record.body) for record in await running.log.read(at, after=0) if record.side == "done"
    ]
    assert [commit.writer for commit in commits] == ["mine", "other"]
    assert seen == await writer.load(at) == folded(at, await running.log.read(at, after=0))


def _conversations(connection: NatsConnection, writer: str, settings: Settings | None = None) -> Conversations:
    keys = JetStreamKeys(connection, tenants=tenant_keys(settings) if settings else None)
    return Conversations(
        log=EncryptedLog(JetStreamLog(connection, patience_seconds=180.0), keys=keys),
        snapshots=JetStreamSnapshots(connection),
        writer=writer,
    )


@pytest.fixture
async def forgetful(tmp_path: Path) -> AsyncIterator[NatsConnection]:
    """Yield a connection to a server that remembers message ids for a moment only."""
    async with one(tmp_path) as server:
        connection = await connected(server.url)
        (config,) = (found for found in streams() if found.name == subjects.LOG_STREAM)
        await connection.jetstream().update_stream(config.evolve(duplicate_window=0.2))
        yield connection
        await connection.close()


async def forgotten(log: JetStreamLog) -> None:
    """Wait until the server takes the same message id again: it forgets those from before in order."""
    at = address(f"probe-{fresh_id()}")
    first = await log.say(at, said_body("probe"), message_id=str(at), headers={})
    async with asyncio.timeout(180):
        while await log.say(at, said_body("probe"), message_id=str(at), headers={}) == first:
            await asyncio.sleep(0.05)


async def test_a_retry_after_the_duplicate_window_is_still_heard_once(forgetful: NatsConnection) -> None:
    log, at = JetStreamLog(forgetful), address("late")
    first = await log.say(at, said_body("once"), message_id="same", headers={})
    await forgotten(log)
    assert await log.say(at, said_body("once"), message_id="same", headers={}) > first, "the server took it again"
    state = await _conversations(forgetful, "w").load(at)
    assert (state.messages, state.seq) == (1, await log.head(at))


async def test_a_commit_after_the_duplicate_window_is_not_stored_again(forgetful: NatsConnection) -> None:
    log, at = JetStreamLog(forgetful), address("late-commit")
    assert await log.append(at, b"one", expected_seq=0, commit_id="same", headers={})
    await forgotten(log)
    assert await log.append(at, b"one", expected_seq=0, commit_id="same", headers={}) is None
    assert [record.body for record in await log.read(at, after=0)] == [b"one"]


async def test_what_a_dead_server_did_not_confirm_is_unknown_and_never_failed(tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        connection = await connect(server.url, name="writer")
        hasty = JetStreamLog(connection, patience_seconds=1.0)
        patient = JetStreamLog(connection, patience_seconds=180.0)
        at = address("unknown")
        server.kill()
        with pytest.raises(OutcomeUnknown, match="it may still land"):
            await hasty.append(at, b"zombie", expected_seq=0, commit_id="c1", headers={})
        sending = asyncio.create_task(patient.append(at, b"zombie", expected_seq=0, commit_id="c1", headers={}))
        await asyncio.sleep(0.5)  # the outage lasts
        server.start()
        # landed by the zombie of the first call, or by this one: never a conflict that is not there
        assert await sending in (None, 1)
        assert [record.body for record in await patient.read(at, after=0)] == [b"zombie"]
        await connection.close()


WRITER = """
import asyncio, os, sys
from protocol.connecting import connect
from protocol.ids import address, fresh_id
from storage.jetstream import JetStreamLog

async def main(url, commits):
    connection = await connect(url, name="writer")
    log, at = JetStreamLog(connection), address("hot")
    landed = 0
    while landed < commits:
        records = await log.read(at, after=0)
        version = len(records) + 1
        expected = records[-1].seq if records else 0
        body = b"%d" % version
        seq = await log.append(at, body, expected_seq=expected, commit_id=fresh_id(), headers={})
        landed += seq is not None
    await connection.close()

url, commits, writers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
forks = []
for _ in range(writers):
    fork = os.fork()  # all of them have imported this once
    if not fork:
        asyncio.run(main(url, commits))
        os._exit(0)
    forks.append(fork)
sys.exit(any([os.waitpid(fork, 0)[1] for fork in forks]))
"""


@pytest.mark.slow
async def test_versions_have_no_gap_and_no_double_with_sixteen_processes_on_one_conversation(tmp_path: Path) -> None:
    async with one(tmp_path) as server:
        command = (sys.executable, "-c", WRITER, server.url, "5", "16")
        assert await (await asyncio.create_subprocess_exec(*command)).wait() == 0
        connection = await connected(server.url)
        records = await JetStreamLog(connection).read(address("hot"), after=0)
        await connection.close()
    assert [record.body for record in records] == [b"%d" % version for version in range(1, 81)]


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
async def test_a_repeated_commit_answers_the_same_on_one_server_and_on_a_cluster(tmp_path: Path, size: int) -> None:
    async with _servers(tmp_path, size) as servers:
        connection = await connected(",".join(server.url for server in servers))
        log, at = JetStreamLog(connection), address("twice")
        first = await log.append(at, b"one", expected_seq=0, commit_id="c1", headers={})
        assert first
        assert await log.append(at, b"one", expected_seq=0, commit_id="c1", headers={}) is None
        assert await log.append(at, b"two", expected_seq=first, commit_id="c2", headers={}) is not None
        assert await log.append(at, b"one", expected_seq=0, commit_id="c1", headers={}) is None
        # what is said answers with its first place, since nobody else can have taken it
        said_at = await log.say(at, b"said", message_id="m1", headers={})
        assert await log.say(at, b"said", message_id="m1", headers={}) == said_at
        assert [record.body for record in await log.read(at, after=0)] == [b"one", b"two", b"said"]
        await connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3])
async def test_a_try_that_meets_another_under_way_is_told_the_truth_and_never_that_it_failed(
    tmp_path: Path, size: int
) -> None:
    """A cluster refuses what it is storing just now: a retry meets its own first try, a worker that of another one."""
    async with _servers(tmp_path, size) as servers:
        connection = await connected(",".join(server.url for server in servers))
        log, after = JetStreamLog(connection), 0
        for number in range(20):
            at = address(f"same-{number}")
            said_at = await asyncio.gather(
                *(log.say(at, b"said", message_id=f"m{number}", headers={}) for _ in range(4))
            )
            assert len(set(said_at)) == 1
            tries = [log.append(at, b"one", expected_seq=0, commit_id=f"c{number}", headers={}) for _ in range(4)]
            landed = [seq for seq in await asyncio.gather(*tries) if seq]
            assert [record.body for record in await log.read(at, after=0)] == [b"said", b"one"]
            assert len(landed) <= 1
            others = [
                log.append(address("hot"), b"%d" % writer, expected_seq=after, commit_id=fresh_id(), headers={})
                for writer in range(4)
            ]
            (after,) = [seq for seq in await asyncio.gather(*others) if seq]
        assert len(await log.read(address("hot"), after=0)) == 20
        await connection.close()


@asynccontextmanager
async def _servers(folder: Path, size: int) -> AsyncIterator[list[Server]]:
    if size == 3:
        async with three(folder) as servers:
            yield servers
    else:
        async with one(folder) as server:
            yield [server]


async def test_a_large_append_that_broke_off_goes_on_where_it_was(
    working: Runtime, settings: Settings, name: str
) -> None:
    large = [user(f"{number} " + "x" * 60_000) for number in range(48)]
    async with proxied(settings) as proxy, Client.connect(proxy.url) as client:
        talk = await client.open(name)
        client.patience_seconds = 0.3
        proxy.holds_after = 5 * 60_000
        with pytest.raises((OutcomeUnknown, LogUnavailable)):
            await talk.append(large)
        assert 4 <= len(await said(working, talk.at)) < 48, "it broke off in the middle"
        proxy.answers.set()
        await talk.append(large)
    assert await said(working, talk.at) == large
    assert (await settled(working, talk.at)).messages == 48
