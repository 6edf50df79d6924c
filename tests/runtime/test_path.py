"""The whole path on real servers: a recorded run in, views out, and the same again from the log alone."""

import asyncio
import hashlib
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from actors.audit.replay import replay
from actors.cli.session import started_stack
from actors.core.flow import next_actor
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from actors.runtime.kept_states import STATE_SCHEMA, Snapshot
from protocol import subjects
from protocol.client import Client
from protocol.context import Context
from protocol.errors import LogRegression
from protocol.facts import ContextServed, HistoryDigested, ToolOutputSpilled
from protocol.formats import messages
from protocol.formats.validate import problems
from protocol.ids import Address, address, fresh_id
from protocol.limits import SNAPSHOT_COMMITS
from protocol.subjects import ACTORS, Actor
from storage.jetstream_snapshots import JetStreamSnapshots
from tests.conftest import SAMPLE, WINDOW_TOKENS, Json, at_work, done_facts, layer, served, settled
from tests.promises.harness import environment
from tests.said import said_messages
from tests.stack import jettison_command

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True, kw_only=True)
class Played:
    """A conversation that was played to its end, and all views it was served."""

    at: Address
    contexts: tuple[Context, ...]


async def by_turn(client: Client, said: Sequence[Json]) -> Played:
    talk = await client.open(f"turns-{fresh_id()}", policy=layer())
    contexts = []
    for index, message in enumerate(said):
        if index and message["role"] == "assistant":
            contexts.append(await talk.context(patience=180))
        await talk.append([message])
    contexts.append(await talk.context(patience=180))
    return Played(at=talk.at, contexts=tuple(contexts))


async def at_once(client: Client, said: Sequence[Json], *, wait_seconds: float = 180) -> Played:
    talk = await client.open(f"once-{fresh_id()}", policy=layer())
    await talk.append(said)
    return Played(at=talk.at, contexts=(await talk.context(patience=wait_seconds),))


@pytest.fixture(scope="module")
async def played(working: Runtime, client: Client) -> Played:
    return await by_turn(client, SAMPLE)


async def test_every_view_is_legal_and_within_budget(played: Played) -> None:
    assert len(played.contexts) > 50
    for context in played.contexts:
        assert problems(context.messages) == []
        assert context.tokens <= context.budget == WINDOW_TOKENS
    assert played.contexts[-1].upto == len(SAMPLE)


async def test_the_sample_is_really_lightened(working: Runtime, played: Played) -> None:
    facts = done_facts(await working.log.read(played.at, after=0))
    kinds = {type(fact) for fact in facts}
    assert {ToolOutputSpilled, HistoryDigested, ContextServed} <= kinds
    # an answer that came too late was asked for again, and is recorded twice
    recorded = iter([fact.view_hash for fact in facts if isinstance(fact, ContextServed)])
    assert [context.version for context in played.contexts if context.hash not in recorded] == []


async def test_every_spilled_part_is_in_the_store_byte_for_byte(working: Runtime, played: Played) -> None:
    facts = done_facts(await working.log.read(played.at, after=0))
    spilled = [fact for fact in facts if isinstance(fact, ToolOutputSpilled)]
    assert len(spilled) > 3
    for fact in spilled:
        wanted = messages.leaf(SAMPLE[fact.number - 1], fact.pointer).encode()
        assert await working.artifacts.get(played.at.tenant, fact.sha256) == wanted
        assert fact.sha256[:16] in fact.text


async def test_untouched_messages_come_out_as_they_went_in(working: Runtime, played: Played) -> None:
    said = [messages.decode(one.raw) for one in await said_messages(played.at, log=working.log)]
    assert said == SAMPLE
    newest = played.contexts[-1].messages[-1]
    assert newest == SAMPLE[-1]


async def test_replay_verifies_and_ends_in_the_served_view(working: Runtime, played: Played) -> None:
    found = replay(played.at, await working.log.read(played.at, after=0))
    assert found.divergence is None
    assert found.view_hash == played.contexts[-1].hash
    assert found.messages == len(SAMPLE)
    assert found.views >= len(played.contexts)


async def test_published_at_once_ends_in_the_same_view(working: Runtime, client: Client, played: Played) -> None:
    once = await at_once(client, SAMPLE)
    assert once.contexts[-1].hash == played.contexts[-1].hash
    assert replay(once.at, await working.log.read(once.at, after=0)).divergence is None


async def test_a_cold_start_finds_the_same_state(working: Runtime, settings: Settings, played: Played) -> None:
    warm = await settled(working, played.at)
    assert warm.version > SNAPSHOT_COMMITS, "there must be a snapshot to lose"
    snapshots = working.snapshots
    assert await snapshots.newest(played.at) is not None
    async with runtime(settings, role="test") as other:
        assert await other.conversations.load(played.at) == warm
    await working.connection.jetstream().purge_stream(subjects.SNAPSHOT_STREAM, subject=subjects.snapshot(played.at))
    assert await snapshots.newest(played.at) is None
    async with runtime(settings, role="test") as other:
        assert await other.conversations.load(played.at) == warm


async def test_a_snapshot_of_an_unknown_kind_is_ignored(working: Runtime, settings: Settings, played: Played) -> None:
    warm = await settled(working, played.at)
    snapshots = JetStreamSnapshots(working.connection)
    older = msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA - 1, state=b"?"))
    for store, body in ((snapshots, b"garbage"), (snapshots, older), (working.snapshots, older)):
        await store.put(played.at, body)
        async with runtime(settings, role="test") as other:
            assert await other.conversations.load(played.at) == warm


async def test_a_snapshot_ahead_of_the_log_stops_the_conversation(
    working: Runtime, settings: Settings, client: Client
) -> None:
    talk = await client.open(f"ahead-{fresh_id()}", policy=layer())
    await talk.append(SAMPLE[:2])
    state = await settled(working, talk.at)
    ahead = msgspec.structs.replace(state, position=msgspec.structs.replace(state.position, seq=state.seq + 10))
    body = msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA, state=msgspec.msgpack.encode(ahead)))
    await working.snapshots.put(talk.at, body)
    async with runtime(settings, role="test") as other:
        with pytest.raises(LogRegression, match="ahead of the log"):
            await other.conversations.load(talk.at)


# Pools of processes -------------------------------------------------------------------------------------------------


async def started_worker(settings: Settings, actor: Actor) -> asyncio.subprocess.Process:
    command = (*jettison_command(), "worker", actor)
    return await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=environment(settings), stderr=asyncio.subprocess.DEVNULL
    )


@asynccontextmanager
async def pool(settings: Settings, actors: Sequence[Actor]) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Run one process for each of *actors*; those that the test adds to the list are ended too."""
    processes = [await started_worker(settings, actor) for actor in actors]
    try:
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
        codes = await asyncio.gather(*(process.wait() for process in processes))
        # -15: told to end before it had begun
        assert set(codes) <= {0, -signal.SIGKILL, -signal.SIGTERM}, codes


@pytest.fixture(scope="module")
async def apart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Settings]:
    """Yield servers of their own, on which nobody of this process works."""
    async with started_stack(Settings(data=str(tmp_path_factory.mktemp("apart")))) as (ours, _):
        yield ours


@pytest.mark.slow
async def test_two_processes_of_each_actor_end_in_the_same_view(apart: Settings, played: Played) -> None:
    async with (
        runtime(apart, role="test") as running,
        pool(apart, [*ACTORS, *ACTORS]),
        Client.connect(apart.nats.url) as client,
    ):
        await served(running)
        both = await asyncio.gather(by_turn(client, SAMPLE), at_once(client, SAMPLE), at_once(client, SAMPLE))
        assert {one.contexts[-1].hash for one in both} == {played.contexts[-1].hash}
        for one in both:
            assert replay(one.at, await running.log.read(one.at, after=0)).divergence is None


@pytest.mark.slow
async def test_killed_workers_delay_and_lose_nothing(apart: Settings, played: Played) -> None:
    async with (
        runtime(apart, role="test") as running,
        pool(apart, ACTORS) as processes,
        Client.connect(apart.nats.url) as client,
    ):
        await served(running)
        talk = await client.open(f"killed-{fresh_id()}", policy=layer())
        halves = (SAMPLE[: len(SAMPLE) // 2], SAMPLE[len(SAMPLE) // 2 :])
        for round_, half in enumerate(halves):
            await talk.append(half)
            # in the middle, if this machine lets us look in time: some commits of this half are there, more are to come
            seen = await running.log.head(talk.at)
            while len(await running.log.read(talk.at, after=seen)) < 2:
                if next_actor(await running.conversations.load(talk.at)) is None:
                    break
                await asyncio.sleep(0.005)
            victims = processes[-len(ACTORS) :][round_::2]
            for process in victims:
                process.kill()
            processes += [await started_worker(apart, actor) for actor in ACTORS]
        state = await settled(running, talk.at)
        await served(running)
        context = await talk.context(patience=180)
        assert context.hash == played.contexts[-1].hash
        assert state.messages == len(SAMPLE)
        records = await running.log.read(talk.at, after=0)
        assert replay(talk.at, records).divergence is None


async def test_the_hash_of_a_view_is_that_of_its_messages(played: Played) -> None:
    last = played.contexts[-1]
    body = b"[" + b",".join(messages.encode(message) for message in last.messages) + b"]"
    assert hashlib.sha256(body).hexdigest() == last.hash


async def test_four_actors_in_two_runtimes_agree(settings: Settings, client: Client, played: Played) -> None:
    async with at_work(settings) as second:
        once = await at_once(client, SAMPLE)
        assert once.contexts[-1].hash == played.contexts[-1].hash
        assert await second.conversations.load(address(once.at.conversation)) == await settled(second, once.at)
