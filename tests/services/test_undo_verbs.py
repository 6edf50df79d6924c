"""Fork and rewind over NATS: an agent goes on from an earlier context, in its conversation or in a copy."""

from __future__ import annotations

import asyncio

import pytest

from actors.audit.forking import Forking, forked
from actors.audit.replay import replay
from actors.audit.verify import Evidence, verify
from actors.cli.undo import rewound_text
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from actors.services.undo import Undo
from protocol.client import Client
from protocol.errors import BadId, NotFound, NotReady, Rejected
from protocol.facts import ConversationRewound
from protocol.ids import Address, address
from protocol.service_messages import ForkAsked
from storage.memory import MemoryArtifacts, MemoryLog, MemorySnapshots
from storage.ports import Record
from tests.audit.recorded import recorded, serve
from tests.builders import AT, Talk, assistant, policy, user
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
    with pytest.raises(Rejected, match="one, not both"):
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
    assert (rewound.to_version, rewound.upto, rewound.left) == (first.version, 1, (2, 3))
    await talk.append([assistant("right"), user("two")])
    assert (await talk.context()).messages == [user("one"), assistant("right"), user("two")]
    again = await talk.rewind(version=first.version)
    assert (again.upto, again.left) == (1, (4, 5))
    back = f"2 messages leave the view (4-5), back by: jettison expand {talk.at} --messages 4-5\n"
    assert rewound_text(talk.at, again).endswith(back)
    assert (await talk.expand(messages="4-5")).restored == (4, 5)
    with pytest.raises(NotFound, match="has no message 400; its last one is 5"):
        await talk.rewind(upto=400)
    with pytest.raises(Rejected, match="say where: version="):
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


def late() -> Talk:
    """Return 30 messages of which version 1 saw none: its writer was faster than they."""
    talk = Talk(policy(100_000))
    talk.append(*(one for turn in range(15) for one in (user(f"question {turn}"), assistant(f"answer {turn}"))))
    talk.settle()
    serve(talk)
    return talk


async def in_memory(talk: Talk) -> tuple[Undo, Forking]:
    """Return who carries out wishes on a log in memory that holds *talk*."""
    log, artifacts = MemoryLog(), MemoryArtifacts()
    for record in talk.records:
        await written(log, talk.at, record)
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    return (
        Undo(conversations=known, log=log, artifacts=artifacts),
        Forking(conversations=known, log=log, artifacts=artifacts),
    )


async def test_nobody_goes_back_to_a_version_that_had_heard_nothing() -> None:
    talk = late()
    nearest = min(version for version, step in talk.past.items() if step.before.messages)
    undo, forking = await in_memory(talk)
    told = f"no version of .* ends within 20 messages; the nearest is version {nearest}, with 30 messages"
    with pytest.raises(NotFound, match=told):
        await undo.rewind(AT, upto=20, headers={})
    with pytest.raises(NotFound, match=told):
        await forking.fork(AT, ForkAsked(name="copy", upto=20))
    assert (await forking.fork(AT, ForkAsked(name="copy", upto=30))).upto == 30
    first = Talk(policy(100_000))
    first.append(user("one"))
    undo, forking = await in_memory(first)
    with pytest.raises(NotFound, match=r"no version of .* has a message yet; call context\(\) first"):
        await undo.rewind(AT, upto=1, headers={})
    with pytest.raises(NotFound, match="has a message yet"):
        await forking.fork(AT, ForkAsked(name="copy"))


async def test_a_context_that_went_back_to_nothing_is_not_gone_back_to_by_messages() -> None:
    talk = late()
    newest = talk.state.version
    talk.land(talk.sealed((ConversationRewound(to_version=1, upto=0, before_tokens=0, after_tokens=0),)))
    undo, _ = await in_memory(talk)
    assert (await undo.rewind(AT, upto=30, headers={})).to_version == newest


@pytest.mark.parametrize(
    ("version", "upto", "told"),
    [
        (0, 400, "has no message 400; its last one is 30"),
        (0, -1, "upto is at least 1, and cannot be -1"),
        (-2, 0, "version is at least 1, and cannot be -2"),
        (1, 3, "one, not both"),
        (1, -3, "upto is at least 1"),
        (0, 0, "say where: version="),
    ],
)
async def test_a_place_that_cannot_be_is_refused_by_what_is_wrong_with_it(version: int, upto: int, told: str) -> None:
    undo, forking = await in_memory(late())
    with pytest.raises(Rejected, match=told):
        await undo.rewind(AT, to=version, upto=upto, headers={})
    if version or upto:
        with pytest.raises(Rejected, match=told):
            await forking.fork(AT, ForkAsked(name="copy", version=version, upto=upto))


async def test_a_name_that_is_taken_asks_for_another_one() -> None:
    talk = late()
    _, forking = await in_memory(talk)
    await forking.fork(AT, ForkAsked(name="copy", version=talk.state.version))
    with pytest.raises(Rejected, match=r"copy exists here with another history .*; choose another name$"):
        await forking.fork(AT, ForkAsked(name="copy", version=1))


async def written(log: MemoryLog, at: Address, record: Record) -> None:
    if record.side == "said":
        await log.say(at, record.body, message_id=str(record.seq), headers=record.headers)
        return
    done = [one.seq for one in await log.read(at, after=0) if one.side == "done"]
    last = max(done, default=0)
    await log.append(at, record.body, expected_seq=last, commit_id=str(record.seq), headers=record.headers)
