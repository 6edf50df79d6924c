"""What the gateway knows is changed by compare-and-set, in NATS as in memory."""

import pytest

from actors.host.bootstrap import Runtime
from protocol.ids import Token, fresh_id, token
from storage.gateway_places import GatewayPlaces, JetStreamPlaces, MemoryPlaces

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
