"""What every `Snapshots` promises: the newest of each conversation, failures that cost time alone, and an end."""

import pytest

from actors.host.bootstrap import Runtime
from protocol.ids import Address, address, fresh_id
from storage.jetstream_snapshots import JetStreamSnapshots
from storage.memory import MemorySnapshots
from storage.ports import Snapshots


@pytest.fixture(params=["memory", "jetstream"])
def snapshots(request: pytest.FixtureRequest, running: Runtime) -> Snapshots:
    return MemorySnapshots() if request.param == "memory" else JetStreamSnapshots(running.connection)


async def test_there_is_none_at_first(snapshots: Snapshots, at: Address) -> None:
    assert await snapshots.newest(at) is None


async def test_the_newest_is_returned(snapshots: Snapshots, at: Address) -> None:
    for body in (b"one", b"two", b"three", b"x" * 300_000):
        await snapshots.put(at, body)
        assert await snapshots.newest(at) == body


async def test_conversations_do_not_mix(snapshots: Snapshots) -> None:
    salt = fresh_id()
    places = [address(f"{name}{salt}", tenant) for name in ("*", ">", "a.b", "a") for tenant in ("t", "*", ">")]
    for place in places:
        await snapshots.put(place, str(place).encode())
    assert [await snapshots.newest(place) for place in places] == [str(place).encode() for place in places]


async def test_what_is_forgotten_is_gone_with_its_older_ones_and_another_conversation_stays(
    snapshots: Snapshots, at: Address
) -> None:
    other = address(f"other-{fresh_id()}")
    for place in (at, at, other):
        await snapshots.put(place, str(place).encode())
    assert await snapshots.forget(at) >= 1
    assert await snapshots.forget(at) == 0
    assert await snapshots.newest(at) is None
    assert await snapshots.newest(other) == str(other).encode()
    await snapshots.put(at, b"again")
    assert await snapshots.newest(at) == b"again"


async def test_one_that_cannot_be_kept_is_no_failure(running: Runtime, at: Address) -> None:
    snapshots = JetStreamSnapshots(running.connection)
    await snapshots.put(at, b"kept")
    await snapshots.put(at, b"x" * 2_000_000)  # over the server's max_payload
    assert await snapshots.newest(at) == b"kept"
    assert running.connection.is_connected
