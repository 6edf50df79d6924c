"""Partitions: everything that a log in one stream can, a log in four can, and an agent does not see it."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as NatsConnection

from actors.audit import moving
from actors.audit.replay import replay
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.errors import Damaged, LogUnavailable, Rejected
from protocol.ids import Address, Token, address, fresh_id
from protocol.subjects import LOG_STREAM
from storage import known_layout as layouts
from storage import partition_growth
from storage.known_layout import known_layout
from storage.memory import MemoryLog
from storage.memory_work import MemoryWakes
from storage.partition_growth import listening, wanted
from storage.partition_streams import computes_shards
from storage.partitions import ONE, SHARDS, Layout, grown, partition_at, shard_of, told
from storage.streams import drift, provision
from tests.conftest import at_work, chatter, layer, settled
from tests.promises.harness import Rights, Server, at_server, connected, one, told_by, with_own_bucket

SHARDS_FILE = Path(__file__).parents[2] / "infra" / "nats" / "shards.conf"
GOLDEN = {
    ("default", "ticket-4312"): 35,
    ("acme", "ticket-4312"): 8,
    ("default", "a"): 45,
    ("default", "e--w7w"): 42,
    ("t", "x" * 64): 35,
}


def test_the_shard_of_an_address_is_the_same_for_ever() -> None:
    """The vectors of `infra/docs/protocol.md`."""
    found = {at: shard_of(Address(tenant=Token(at[0]), conversation=Token(at[1]))) for at in GOLDEN}
    assert found == GOLDEN


def test_each_partition_has_its_share_and_growth_moves_to_new_ones_only() -> None:
    layout = ONE
    for count in (1, 2, 3, 4, 8, 16):
        larger = grown(layout, count)
        moved = {owner for before, owner in zip(layout.shards, larger.shards, strict=True) if before != owner}
        assert moved == set(range(layout.partitions, count))
        assert {len(larger.of(one)) for one in range(count)} <= {SHARDS // count, SHARDS // count + 1}
        assert sorted(shard for one in range(count) for shard in larger.of(one)) == list(range(SHARDS))
        layout = larger
    with pytest.raises(Rejected, match="only grows"):
        grown(layout, 8)
    with pytest.raises(Rejected, match="16 at most"):
        grown(ONE, 17)


def test_what_the_streams_listen_to_is_the_layout() -> None:
    layout = grown(ONE, 3)
    listening = [
        [pattern for shard in layout.of(one) for pattern in subjects.sharded(subjects.LOG_STREAM, shard)]
        for one in range(3)
    ]
    assert told(listening) == layout
    with pytest.raises(Damaged, match=r"no partition has the shards .*jettison restore"):
        told([*listening[:2], []])


async def test_a_server_that_computes_no_shards_is_refused_partitions(running: Runtime) -> None:
    assert not await computes_shards(running.connection)
    with pytest.raises(Rejected, match="does not compute shards"):
        await running.moving(told=print).grow(4)
    with pytest.raises(Rejected, match="has 1 partitions"):
        await provision(running.connection, partitions=4)


async def test_a_log_grows_while_agents_speak_and_who_moves_it_is_killed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "FRESH_SECONDS", 0.2)
    monkeypatch.setattr(moving, "SEEN_SECONDS", 0.5)
    at_all = [address(f"grows-{number}") for number in range(5)]
    async with one(tmp_path, rights=Rights(include=SHARDS_FILE.read_text()), partitions=1) as server:
        grows = with_own_bucket(at_server(settings, server.url))
        async with at_work(grows) as busy, Client.connect(grows.nats.url) as client:
            ended = asyncio.Event()
            speaking = [asyncio.create_task(spoken_until(client, at, ended)) for at in at_all]
            for steps in (1, 20, 1000):
                await grown_for(busy, steps)
            ended.set()
            said = await asyncio.gather(*speaking)
            layout = await known_layout(busy.connection).again()
            assert layout == grown(ONE, 2)
            assert await drift(busy.connection) == []
            for at, count in zip(at_all, said, strict=True):
                state = await settled(busy, at)
                records = await busy.log.read(at, after=0)
                assert {partition_at(record.seq) for record in records} == {layout.partition(at)}
                assert (state.messages, replay(at, records).divergence) == (count, None)
            everywhere = [await busy.connection.jetstream().stream_info(one) for one in layout.streams(LOG_STREAM)]
            lengths = [len(await busy.log.read(at, after=0)) for at in await busy.log.addresses()]
            assert sum(one.state.messages for one in everywhere) == sum(lengths), "nothing is left where it was"
            await opened_anew(client, busy, layout)
            # a worker sweeps too, and who comes second looks at nothing
            while not (swept := await busy.sweeper().sweep(everything=True)).complete:
                await asyncio.sleep(0.1)
            assert swept.looked_at >= len(at_all)
        for command in (["erase", str(at_all[0]), "--yes"], ["verify", "--all"]):
            done = await told_by(grows, *command)
            assert done.returncode == 0, done.stdout + done.stderr


async def test_a_growth_goes_on_when_the_server_comes_back(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "FRESH_SECONDS", 0.2)
    monkeypatch.setattr(moving, "SEEN_SECONDS", 0.5)
    at_all = [address(f"stays-{number}") for number in range(5)]
    async with one(tmp_path, rights=Rights(include=SHARDS_FILE.read_text()), partitions=1) as server:
        grows = with_own_bucket(at_server(settings, server.url))
        async with at_work(grows) as busy, Client.connect(grows.nats.url) as client:
            for at in at_all:
                talk = await client.open(at.conversation)
                await talk.append(chatter(3))
            monkeypatch.setattr(moving, "listening", gone_behind(listening, server))
            told: list[str] = []
            moved = await busy.moving(told=told.append).grow(2)
            assert (moved.partitions, moved.shards) == (2, len(told))
            assert await known_layout(busy.connection).again() == grown(ONE, 2)
            for at in at_all:
                assert (await settled(busy, at)).messages == 6


async def test_what_is_taken_again_within_a_growth_is_told_once_and_brought_to_its_end(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layouts, "FRESH_SECONDS", 0.2)
    monkeypatch.setattr(moving, "SEEN_SECONDS", 0.5)
    monkeypatch.setattr(moving, "WAIT_SECONDS", 0.01)
    at_all = [address(f"again-{number}") for number in range(8)]
    rights = Rights(include=SHARDS_FILE.read_text())
    async with one(tmp_path, rights=rights, partitions=1) as server:
        own = with_own_bucket(at_server(settings, server.url))
        async with runtime(own, role="test") as idle:
            for at in (at for at in at_all for _ in range(3)):
                await idle.log.say(at, b"a word", message_id=fresh_id(), headers={})
            goes = [at for at in at_all if grown(ONE, 2).partition(at)]
            monkeypatch.setattr(moving, "thawed", away(partition_growth.thawed, times=3))
            monkeypatch.setattr(partition_growth, "provision", away(provision, times=1))
            moved = await idle.moving(told=print).grow(2)
            assert (moved.conversations, moved.records) == (len(goes), 3 * len(goes))
            assert await drift(idle.connection) == []
            monkeypatch.setattr(partition_growth, "provision", away(provision, times=1))
            with pytest.raises(LogUnavailable):
                await idle.moving(told=print).grow(2)


async def test_a_growth_that_an_earlier_version_began_is_brought_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = Rights(include=SHARDS_FILE.read_text())
    async with one(tmp_path, rights=rights, partitions=1) as server:
        connection = await connected(server.url)
        with monkeypatch.context() as earlier:
            # it listened to all that was called like the log
            earlier.setitem(subjects.SHARD_SUBJECTS, LOG_STREAM, ("ctx.v1.shard.*.log.*.*.*",))
            earlier.setattr(subjects, "LOG_SUBJECTS", ("ctx.v1.log.*.*.*",))
            await provision(connection)
            layout, target = await wanted(connection, 2)
            assert target is not None
            now = await partition_growth.begun(connection, layout, target)
            first, second, *rest = [shard for shard in range(SHARDS) if target.shards[shard] == 1]
            for shard in (first, second):
                await partition_growth.frozen(connection, shard, 0, target)
            await partition_growth.thawed(connection, first, 0, target)
        assert await partition_growth.begun(connection, now, target) == now
        for shard in (second, *rest):
            await partition_growth.frozen(connection, shard, 0, target)
        for shard in (first, second, *rest):
            await partition_growth.thawed(connection, shard, 0, target, left=True)
        await partition_growth.ended(connection, target)
        assert await known_layout(connection).again() == grown(ONE, 2)
        assert await drift(connection) == []
        await connection.close()


async def test_a_growth_waits_for_a_server_as_long_since_it_got_something_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moving, "WAIT_SECONDS", 0.01)
    monkeypatch.setattr(moving, "INSIST_SECONDS", 0.2)
    nobody = MemoryWakes()
    growing, tries = moving.Moving(NatsConnection(), log_of=lambda _: MemoryLog(nobody), wakes=nobody, told=print), 0

    async def large() -> int:
        nonlocal tries
        tries += 1
        if tries < 4:
            await asyncio.sleep(0.3)
            growing._done += 1
            raise LogUnavailable("the server is away")
        return 7

    async def nothing_done() -> None:
        raise LogUnavailable("the server is away for good")

    assert await growing._insisted(large) == 7
    async with asyncio.timeout(60):
        with pytest.raises(LogUnavailable):
            await growing._insisted(nothing_done)


def away(acts: Callable[..., Awaitable[None]], *, times: int) -> Callable[..., Awaitable[None]]:
    """Return *acts*, for which the server is away so many times."""
    left = [None] * times

    async def acted(*given: Any, **named: Any) -> None:
        if left:
            left.pop()
            raise LogUnavailable("the server is away")
        await acts(*given, **named)

    return acted


def gone_behind(
    asks: Callable[..., Awaitable[list[tuple[int, int]]]], server: Server
) -> Callable[..., Awaitable[list[tuple[int, int]]]]:
    """Return what asks who knows of shards that left; behind it the server is away for long."""

    async def then_gone(*given: Any) -> list[tuple[int, int]]:
        found = await asks(*given)
        server.kill()
        asyncio.get_running_loop().call_later(8.0, server.start)
        return found

    return then_gone


async def opened_anew(client: Client, busy: Runtime, layout: Layout) -> None:
    """Where the server puts a new conversation is where it is looked for."""
    talks = [await client.open(f"new-{number}") for number in range(8)]
    assert {layout.partition(talk.at) for talk in talks} == {0, 1}
    for talk in talks:
        assert partition_at(await talk.append(chatter(1))) == layout.partition(talk.at)
        assert len(await busy.log.read(talk.at, after=0)) >= 2


class Killed(Exception):
    """Who moves is gone."""


async def grown_for(busy: Runtime, steps: int) -> None:
    """Grow to two partitions, and break off behind so many steps."""
    told: list[str] = []

    def tell(what: str) -> None:
        told.append(what)
        if len(told) == steps:
            raise Killed

    with suppress(Killed):
        await busy.moving(told=tell).grow(2)


async def spoken_until(client: Client, at: Address, ended: asyncio.Event) -> int:
    """Say one thing after the other, and look at each; return how many messages there are."""
    talk = await client.open(at.conversation, policy=layer(window=2_000), budget=1_000)
    count = 0
    while not ended.is_set():
        for message in chatter(1):
            await talk.append([message])
            count += 1
        assert (await talk.context()).upto == count
        await asyncio.sleep(0.05)  # a model thinks
    return count
