"""What gateways agree on who go on with one conversation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from actors.gateway import identity
from actors.gateway.claims import Claims, Search
from actors.gateway.identity import Head
from protocol.errors import LogUnavailable
from protocol.ids import token
from storage.gateway_places import MemoryPlaces

HASHES = tuple(bytes([number]) * 16 for number in range(5))


def search(messages: int, **more: Any) -> Search:
    hashes = HASHES[:messages]
    return Search(
        tenant="t",
        place=token("p"),
        chain=identity.chain_of(hashes, secret=b"s"),
        hashes=hashes,
        tools=False,
        beside=False,
        alone=False,
        first=False,
        answered=messages + 1,
        new=Head(name=f"of-{messages}", length=0, chain=b"", logged=0, outside=0, tools=False),
        **more,
    )


async def test_a_request_whose_deadline_is_over_begins_no_branch_of_what_went_on_without_it() -> None:
    """It waited for a frozen NATS; its agent was answered, and the next request has all of it."""
    places = MemoryPlaces()
    claims = Claims(places=places)
    assert (await claims.claimed(search(5))).name == "of-5"
    before = await places.read(token("t"), token("p"))
    with pytest.raises(LogUnavailable):
        await claims.claimed(search(3, until=time.monotonic() - 1))
    assert await places.read(token("t"), token("p")) == before
    assert (await claims.claimed(search(3, until=time.monotonic() + 60))).name == "of-3"
