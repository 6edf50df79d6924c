"""Partitions: everything that a log in one stream can, a log in four can, and an agent does not see it."""

import asyncio
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol import subjects
from protocol.client import Client
from protocol.errors import Damaged, Rejected
from protocol.ids import Address, Token, address
from protocol.login import Login
from protocol.subjects import LOG_STREAM
from storage.partition_streams import computes_shards
from storage.partitions import ONE, SHARDS, grown, partition_at, shard_of, told
from storage.places import places_of
from storage.streams import drift, provision
from tests.conftest import at_work, chatter, layer, settled
from tests.promises.harness import Rights, at_server, environment, one
from tests.stack import ROOT, jettison_command

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
    with pytest.raises(Damaged, match="no partition has the shards"):
        told([*listening[:2], []])


@pytest.fixture(scope="module")
async def four(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Settings]:
    """Yield the settings of a server that computes shards, whose log has four partitions."""
    folder = tmp_path_factory.mktemp("four")
    rights = Rights(include=SHARDS_FILE.read_text(), operator=Login())
    async with one(folder, rights=rights, partitions=4) as server:
        yield at_server(settings, server.url)


async def test_a_log_in_four_partitions_does_all_that_one_does(four: Settings) -> None:
    places = [address(f"part-{number}") for number in range(16)]
    async with at_work(four) as busy, Client.connect(four.nats.url) as client:
        assert await computes_shards(busy.connection)
        await asyncio.gather(*(spoken(client, at) for at in places))
        layout = await places_of(busy.connection).layout()
        assert layout == grown(ONE, 4)
        for at in places:
            # where the server put it is where we look for it, and its sequences say so
            found = await busy.connection.jetstream().get_last_msg(layout.stream(LOG_STREAM, at), subjects.both(at))
            assert partition_at(found.seq or 0) == layout.partition(at)
            await settled(busy, at)
        assert {layout.partition(at) for at in places} == {0, 1, 2, 3}
        assert await busy.log.addresses() == sorted(places)
        await lost_wake_ups_are_found(busy, places)
        assert await drift(busy.connection) == []
    done = await told_by(four, "replay", "--all", "--verify")
    assert done.returncode == 0, done.stdout + done.stderr
    done = await told_by(four, "verify", "--all")
    assert done.returncode == 0, done.stdout + done.stderr
    await forked_and_erased(four, places[0])


async def spoken(client: Client, at: Address) -> None:
    """Say more than the view may have, and ask for it."""
    talk = await client.open(at.conversation, policy=layer(window=2_000), budget=1_000)
    for message in chatter(6):
        await talk.append([message])
    assert (await talk.context()).tokens <= 1_000


async def lost_wake_ups_are_found(busy: Runtime, places: list[Address]) -> None:
    """A sweep looks at every partition."""
    assert (await busy.sweeper().sweep(everything=True)).looked_at >= len(places)


async def forked_and_erased(four: Settings, at: Address) -> None:
    """A fork stands in another partition than what it is a copy of, and erasing leaves a tombstone alone."""
    for command in (["fork", str(at), "copied-1"], ["erase", str(at), "--yes"], ["verify", "--all"]):
        done = await told_by(four, *command)
        assert done.returncode == 0, done.stdout + done.stderr
    async with runtime(four, role="test") as running:
        assert [record.side for record in await running.log.read(at, after=0)] == ["done"]
        assert len(await running.log.read(address("copied-1"), after=0)) > 10


async def told_by(settings: Settings, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command as an operator does."""
    return await asyncio.to_thread(
        subprocess.run,
        [*jettison_command(), *command],
        env=environment(settings),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


async def test_a_server_that_computes_no_shards_is_refused_partitions(running: Runtime) -> None:
    assert not await computes_shards(running.connection)
    with pytest.raises(Rejected, match="has 1 partitions"):
        await provision(running.connection, partitions=4)
