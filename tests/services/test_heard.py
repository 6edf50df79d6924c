"""What is said at the same time as a question is waited for, for as long as who asks would wait."""

import pytest

from actors.core.state import State, initial
from actors.services import heard
from protocol import codec
from protocol.errors import NotReady
from protocol.ids import address
from protocol.service_messages import SaidAt


async def test_what_does_not_come_is_waited_for_no_longer_than_who_asks_waits() -> None:
    looks: list[int] = []

    async def look(upto: int) -> State:
        looks.append(upto)
        return initial(codec.genesis(address("talk")))

    with pytest.raises(NotReady):
        await heard.arriving(look, SaidAt(seq=0, writer="k-a", count=1), wait_seconds=0.0)
    assert looks == [1]
