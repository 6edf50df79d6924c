"""Fork and rewind over NATS: an agent goes on from an earlier context, in its conversation or in a copy."""

from __future__ import annotations

import asyncio

import pytest

from actors.audit.forking import forked
from actors.audit.replay import replay
from actors.audit.verify import Evidence, verify
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from protocol.client import Client
from protocol.errors import BadId, NotFound, NotReady, Rejected
from protocol.ids import Address, address
from storage.memory import MemoryLog, MemorySnapshots
from storage.ports import Record
from tests.audit.recorded import recorded
from tests.builders import AT, assistant, user
from tests.conftest import layer


async def test_a_fork_goes_on_by_itself_and_its_parent_too(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("one"), assistant("1")])
    await talk.append([user("two")])
    before = await talk.context()
    await talk.append([assistant("2"), user("three")])
    await talk.context()
    # several at once: each actor is woken for each message of a copy while it is written
    branches = await asyncio.gather(*(talk.fork(f"{name}-{number}", upto=4) for number in range(4)))
    assert [branch.upto for branch in branches] == [3] * 4
    for number, branch in enumerate(branches):
        await branch.append([assistant(f"other 2 of {number}"), user("other three")])
        assert (await branch.context()).messages == [
            *before.messages, assistant(f"other 2 of {number}"), user("other three")
        ]  # fmt: skip
    assert (await talk.context()).messages[3:] == [assistant("2"), user("three")]
    for at in (talk.at, *(branch.at for branch in branches)):
        records = await working.log.read(at, after=0)
        assert verify(Evidence(at=at, records=tuple(records))).ok
        assert replay(at, records).divergence is None
    again = await talk.fork(f"{name}-0", upto=3)
    assert (again.at, again.upto) == (branches[0].at, 3)
    with pytest.raises(Rejected, match="another history"):
        await talk.fork(f"{name}-0")
    with pytest.raises(Rejected, match="a version, or upto"):
        await talk.fork(f"{name}-9", upto=3, version=1)
    with pytest.raises(NotFound, match="no version 99"):
        await talk.fork(f"{name}-9", version=99)
    with pytest.raises(BadId):
        await talk.fork("")
    with pytest.raises(NotFound):
        await (await client.open(f"{name}-new")).fork(f"{name}-9", upto=1)


async def test_a_rewind_takes_back_what_was_said_since(working: Runtime, client: Client, name: str) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("one")])
    first = await talk.context()
    await talk.append([assistant("wrong"), user("two")])
    await talk.context()
    rewound = await talk.rewind(upto=1)
    assert (rewound.to_version, rewound.upto) == (first.version, 1)
    await talk.append([assistant("right"), user("two")])
    assert (await talk.context()).messages == [user("one"), assistant("right"), user("two")]
    assert (await talk.rewind(version=first.version)).upto == 1
    with pytest.raises(Rejected, match="say where to go back to"):
        await talk.rewind()
    with pytest.raises(NotFound, match="no version 99"):
        await talk.rewind(version=99)
    assert replay(talk.at, await working.log.read(talk.at, after=0)).divergence is None


async def test_nobody_works_on_a_copy_before_all_of_it_is_there() -> None:
    new = address("copy", "tests")
    copies = forked(AT, recorded().records, version=5, new=new, name="copy")
    log = MemoryLog()
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    for record in copies[:-1]:
        await written(log, new, record)
        with pytest.raises(NotReady, match="records of a copy are to come"):
            await known.load(new)
        assert not known.is_warm(new)
    await written(log, new, copies[-1])
    assert (await known.load(new)).version == 6


async def written(log: MemoryLog, at: Address, record: Record) -> None:
    if record.side == "said":
        await log.say(at, record.body, message_id=str(record.seq), headers=record.headers)
        return
    done = [one.seq for one in await log.read(at, after=0) if one.side == "done"]
    last = max(done, default=0)
    await log.append(at, record.body, expected_seq=last, commit_id=str(record.seq), headers=record.headers)
