"""What the gateway knows and tells is changed by compare-and-set, in NATS as in memory."""

import pytest
from msgspec.structs import replace

from actors.host.bootstrap import Runtime
from protocol.ids import Address, Token, fresh_id, token
from storage.gateway_places import GatewayPlaces, JetStreamPlaces, MemoryPlaces
from storage.gateway_sessions import GatewaySessions, JetStreamSessions, MemorySessions, Session

TENANT = Token("default")


@pytest.fixture(params=["memory", "jetstream"])
def places(request: pytest.FixtureRequest, running: Runtime) -> GatewayPlaces:
    return MemoryPlaces() if request.param == "memory" else JetStreamPlaces(running.connection)


async def test_of_two_writers_one_is_told_that_the_other_was_faster(places: GatewayPlaces) -> None:
    place = token(fresh_id())
    assert await places.read(TENANT, place) == (b"", 0)
    first = await places.write(TENANT, place, b"one", revision=0)
    assert first is not None
    assert await places.write(TENANT, place, b"late", revision=0) is None
    second = await places.write(TENANT, place, b"two", revision=first)
    assert second is not None
    assert await places.write(TENANT, place, b"late", revision=first) is None
    assert await places.read(TENANT, place) == (b"two", second)
    assert await places.read(Token("other"), place) == (b"", 0)


@pytest.fixture(params=["memory", "jetstream"])
def sessions(request: pytest.FixtureRequest, running: Runtime) -> GatewaySessions:
    return MemorySessions() if request.param == "memory" else JetStreamSessions(running.connection)


async def test_what_gateways_tell_of_a_conversation_is_one_and_of_two_writes_the_first_is_kept(
    sessions: GatewaySessions, at: Address
) -> None:
    one, other = Token("gate-1"), Token("gate-2")
    told = Session(client="pi", model="m", api="chat", requests=2, input_tokens=10, saved_tokens=5, last_ms=2_000)
    first = await sessions.write(at, one, told, revision=0)
    assert first is not None
    assert await sessions.write(at, one, told, revision=0) is None
    assert await sessions.write(at, one, replace(told, requests=3), revision=first) is not None
    await sessions.write(at, other, replace(told, client="codex", last_ms=1_000), revision=0)

    async def live(since_ms: int) -> list[Session]:
        return [found.session for found in await sessions.newest(since_ms=since_ms) if found.at == at]

    assert await live(1_000) == [replace(told, requests=5, input_tokens=20, saved_tokens=10)]
    assert await live(1_500) == [replace(told, requests=3)]
    assert await live(3_000) == []
