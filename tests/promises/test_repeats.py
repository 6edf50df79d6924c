"""Repeats: what is delivered again, late and out of its order is heard once, where it stood first (promise 4b)."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from actors.audit.replay import replay
from actors.core.flow import next_actor
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from protocol.client import Client
from protocol.ids import fresh_id
from tests.builders import Talk, appended, policy, user, words
from tests.conftest import Json, layer, settled
from tests.laws import LAWS
from tests.protocol.test_client import said

WINDOW = 900
"""Some ten messages: most of the drawn conversations are compacted while they are said."""


@given(
    turns=st.lists(st.sampled_from("ab"), min_size=1, max_size=30),
    again=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=12),
    acts=st.lists(st.booleans(), min_size=1, max_size=8),
)
@LAWS
def test_what_is_delivered_again_and_later_is_dropped_and_the_order_is_that_of_the_stream(
    turns: list[str], again: list[tuple[int, int]], acts: list[bool]
) -> None:
    once, twice = Talk(policy(WINDOW)), Talk(policy(WINDOW))
    bodies: list[bytes] = []
    for number, (writer, act) in enumerate(zip(turns, itertools.cycle(acts), strict=False)):
        message = user(f"{number} by {writer} {words(80)}")
        bodies.append(once.say(appended([message]), writer=writer))
        twice.hear(bodies[-1])
        for first, later in again:
            if later == number and first <= number:
                twice.hear(bodies[first])
        if act:
            once.settle()
            twice.settle()
    once.settle()
    twice.settle()
    assert next_actor(twice.state) is None
    assert twice.state.messages == len(turns)
    assert [entry.number for entry in twice.state.live] == [entry.number for entry in once.state.live]
    assert (twice.state.heard.writers, twice.state.live, twice.shown()) == (
        once.state.heard.writers,
        once.state.live,
        once.shown(),
    )
    assert twice.facts == once.facts
    found = replay(twice.at, twice.records)
    assert (found.divergence, found.hash, found.view_hash) == (None, twice.state.hash.hex(), twice.view().hash)


async def test_two_writers_and_envelopes_that_come_again_under_other_ids_are_heard_once_and_in_order(
    working: Runtime, client: Client, name: str
) -> None:
    first = await client.open(name, policy=layer())
    second = await client.open(name)
    wanted: list[Json] = []
    for number in range(12):
        wanted.append(user(f"{number} " + "word " * 300))
        await (first, second)[number % 2].append(wanted[-1:])
        if number % 4 == 3:
            spoken = [record for record in await working.log.read(first.at, after=0) if record.side == "said"]
            # backwards, and under ids that the duplicate window does not know: as if it were long over
            for record in spoken[::-3]:
                await working.log.say(first.at, record.body, message_id=fresh_id(), headers={})
    # a large window, no compaction: all of it is shown
    context = await first.context(patience=180)
    live = await settled(working, first.at)
    records = await working.log.read(first.at, after=0)
    assert sum(record.side == "said" for record in records) > len(wanted) + 2, "the repeats are in the log"
    assert (context.messages, context.upto, live.messages) == (wanted, len(wanted), len(wanted))
    assert await said(working, first.at) == wanted
    found = replay(first.at, records)
    assert (found.divergence, found.hash, found.messages) == (None, live.hash.hex(), len(wanted))
    cold = Conversations(log=working.log, snapshots=working.snapshots, writer="cold")
    assert await cold.load(first.at) == await working.conversations.load(first.at)
