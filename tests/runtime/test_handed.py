"""Handed over: a receiver holds the snapshot that it is handed against its log, and stops where they do not fit."""

from __future__ import annotations

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider

from actors.audit.repair_plan import plan
from actors.audit.repairing import repaired
from actors.host.bootstrap import Runtime
from actors.runtime.conversations import Conversations
from actors.runtime.fold import decisions, folded
from actors.runtime.handed import Handed, handed, handed_over
from actors.runtime.kept_states import KeptStates
from actors.runtime.step_span import tell_versions
from protocol import codec, semconv, subjects
from protocol.client import Client
from protocol.errors import ChainBroken, LogMoved, LogRegression, NotReady
from protocol.facts import ContextServed, MessagesAppended, SaidMessage
from protocol.formats import messages
from protocol.ids import Address
from protocol.limits import SNAPSHOT_COMMITS
from storage.memory import MemoryLog, MemorySnapshots
from storage.ports import Record
from tests.audit.recorded import recorded
from tests.builders import AT, user
from tests.conftest import layer, settled
from tests.runtime.test_poison import letter

RECORDS = recorded().records
HEAD = folded(AT, RECORDS)
ENDS_SAID = RECORDS[
    : max(at for at in range(1, len(RECORDS)) if [one.side for one in RECORDS[at - 1 : at + 1]] == ["done", "said"]) + 1
]


async def filled(records: list[Record], log: MemoryLog | None = None) -> MemoryLog:
    log, done = log or MemoryLog(), 0
    for record in records:
        if record.side == "said":
            await log.say(AT, record.body, message_id=str(record.seq), headers={})
            continue
        landed = await log.append(AT, record.body, expected_seq=done, commit_id=str(record.seq), headers={})
        assert landed
        done = landed
    return log


class MovingLog(MemoryLog):
    """Somewhere else as soon as its head was asked for."""

    moved = False

    async def head(self, at: Address) -> int:
        found = await super().head(at)
        self.moved = True
        return found

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        if self.moved and after:
            raise LogMoved(f"{at} moved", seq=after)
        return await super().read(at, after=after, time=time)


async def receiver(records: list[Record] = RECORDS) -> Conversations:
    return Conversations(log=await filled(records), snapshots=MemorySnapshots(), writer="w")


def at_version(version: int) -> Handed:
    found = next(one.after for one in decisions(AT, RECORDS) if one.commit.version == version)
    told = handed_over(handed(found))
    assert told is not None
    return told


def other(what: Handed, **changed: object) -> Handed:
    return msgspec.structs.replace(what, **changed)


SERVED = ContextServed(upto=1, budget=1, profile="openai-chat", view_hash="x", tokens=1, level="none")


@pytest.mark.parametrize("version", [1, HEAD.version // 2, HEAD.version])
async def test_what_lies_on_the_way_to_the_head_is_taken(version: int) -> None:
    known = await receiver()
    assert await known.receive(AT, at_version(version)) == HEAD
    assert await known.receive(AT, other(at_version(version), seq=0)) == HEAD
    assert await known.receive(AT, other(at_version(version), seq=3)) == HEAD, "a log that was imported anew"
    assert await known.commit(AT, HEAD, (SERVED,), headers={})


@pytest.mark.parametrize("version", [1, HEAD.version // 2, HEAD.version])
async def test_the_same_version_with_another_hash_stops_all_writing(version: int) -> None:
    known = await receiver()
    wrong = other(at_version(version), hash="ab" * 32)
    with pytest.raises(
        ChainBroken, match=rf"hands over version {version} .*another one.*writing stops.*jettison verify"
    ):
        await known.receive(AT, wrong)
    with pytest.raises(ChainBroken, match="writing stops"):
        await known.commit(AT, await known.load(AT), (SERVED,), headers={})
    await known.renew(AT)
    assert await known.commit(AT, HEAD, (SERVED,), headers={})


async def test_a_version_beyond_the_log_stops_all_writing_until_the_log_has_it() -> None:
    last = max(index for index, record in enumerate(RECORDS) if record.side == "done")
    log = await filled(RECORDS[:last])
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    newest = at_version(HEAD.version)
    with pytest.raises(LogRegression, match=rf"hands over version {HEAD.version} .*ends at {HEAD.version - 1}"):
        await known.receive(AT, newest)
    state = await known.load(AT)
    with pytest.raises(LogRegression, match="writing stops"):
        await known.commit(AT, state, (SERVED,), headers={})
    # it comes back: from a copy, or with the server that had it
    await log.append(AT, RECORDS[last].body, expected_seq=state.position.done_seq, commit_id="back", headers={})
    assert (await known.receive(AT, newest)).version == HEAD.version


async def test_who_was_away_for_long_takes_the_snapshot_that_was_kept_since() -> None:
    snapshots = MemorySnapshots()
    early = [one for one in RECORDS if one.seq <= at_version(2).seq]
    log = await filled(early)
    known = Conversations(log=log, snapshots=snapshots, writer="w")
    old = await known.load(AT)
    for record in RECORDS[len(early) :]:
        if record.side == "said":
            await log.say(AT, record.body, message_id=str(record.seq), headers={})
        else:
            seq = max(one.seq for one in await log.read(AT, after=0) if one.side == "done")
            await log.append(AT, record.body, expected_seq=seq, commit_id=str(record.seq), headers={})
    assert HEAD.version > old.version + SNAPSHOT_COMMITS
    await KeptStates(log=log, snapshots=snapshots).keep(AT, HEAD)
    assert await known.receive(AT, at_version(HEAD.version)) == HEAD


class ToldLog(MemoryLog):
    """Remembers what was read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[int] = []

    async def read(self, at: Address, *, after: int, time: str = "") -> list[Record]:
        found = await super().read(at, after=after, time=time)
        self.told += [one.seq for one in found]
        return found


async def test_what_lies_behind_a_kept_state_is_read_once() -> None:
    log, snapshots, early = await filled(RECORDS, ToldLog()), MemorySnapshots(), folded(AT, RECORDS[:4])
    assert isinstance(log, ToldLog)
    assert early.version
    await KeptStates(log=log, snapshots=snapshots).keep(AT, early)
    assert await Conversations(log=log, snapshots=snapshots, writer="w").load(AT) == HEAD
    assert [seq for seq in log.told if seq > early.seq] == [one.seq for one in RECORDS if one.seq > early.seq]


async def test_a_log_that_moves_while_a_snapshot_is_held_against_it_is_read_from_its_beginning() -> None:
    log, snapshots = await filled(RECORDS, MovingLog()), MemorySnapshots()
    await KeptStates(log=log, snapshots=snapshots).keep(AT, HEAD)
    assert await Conversations(log=log, snapshots=snapshots, writer="w").load(AT) == HEAD


def test_a_wake_up_of_an_agents_message_or_of_nobody_hands_over_nothing() -> None:
    for body in (b"", b"{}", b"garbage", b'{"version": 3}', b'{"version": "x", "hash": "y"}'):
        assert handed_over(body) is None


def test_the_span_says_which_version_was_given_and_which_one_is_worked_on() -> None:
    with TracerProvider().get_tracer("t").start_as_current_span("process") as span:
        tell_versions(HEAD, at_version(3))
    assert dict(span.attributes or {}) == {  # type: ignore[attr-defined]
        semconv.HANDED_VERSION: 3,
        semconv.WORKED_VERSION: HEAD.version,
    }


async def test_a_wake_up_that_does_not_fit_the_log_becomes_a_letter_and_the_agent_is_told(
    working: Runtime, client: Client, name: str
) -> None:
    talk = await client.open(name, policy=layer())
    await talk.append([user("one")])
    state = await settled(working, talk.at)
    forged = msgspec.json.encode(Handed(version=state.version + 5, hash="ab" * 32))
    await working.connection.jetstream().publish(subjects.wake("digest", talk.at), forged)
    kept = await letter(working, talk.at, "digest")
    assert (kept.letter.reason, kept.letter.error) == ("damaged", "LogRegression")
    with pytest.raises((LogRegression, NotReady), match="writing stops"):
        await talk.context()


@pytest.mark.parametrize("behind", [0, 3])
async def test_a_log_that_lost_its_end_and_grew_past_it_is_noticed_by_who_remembers_it(behind: int) -> None:
    log = await filled(ENDS_SAID)
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    before = await known.load(AT)
    await restored(log, upto=before.position.done_seq, said=len(ENDS_SAID) - before.position.done_seq + behind)
    assert await log.head(AT) == before.seq + behind
    with pytest.raises(LogRegression, match=r"not the one that was read|lost its end"):
        await known.load(AT)
    with pytest.raises(LogRegression, match="jettison repair"):
        await known.receive(AT, None)


async def test_a_snapshot_with_messages_that_the_log_lost_is_not_gone_on_from() -> None:
    log, snapshots = await filled(ENDS_SAID), MemorySnapshots()
    known = Conversations(log=log, snapshots=snapshots, writer="w")
    before = await known.load(AT)
    await KeptStates(log=log, snapshots=snapshots).keep(AT, before)
    await restored(log, upto=before.position.done_seq, said=len(ENDS_SAID) - before.position.done_seq + 1)
    state = await Conversations(log=log, snapshots=snapshots, writer="w").load(AT)
    assert state == folded(AT, await log.read(AT, after=0))


async def restored(log: MemoryLog, *, upto: int, said: int) -> None:
    """Leave *log* as a copy has it that ends at *upto*, with so many other messages said since."""
    log._records[AT] = log._records[AT][:upto]
    log._seq = upto
    for number in range(said):
        message = (SaidMessage(raw=messages.encode(user(f"another {number}"))),)
        again = codec.Said(writer="again", count=number + 1, facts=(MessagesAppended(messages=message),))
        await log.say(AT, codec.encode_said(again), message_id=f"again-{number}", headers={})


async def test_what_is_remembered_of_a_log_that_lost_its_end_is_given_up_when_it_was_repaired() -> None:
    log = await filled(RECORDS)
    known = Conversations(log=log, snapshots=MemorySnapshots(), writer="w")
    assert await known.load(AT) == HEAD
    rest = log._records[AT][: len(RECORDS) // 2]
    log._records[AT], log._seq = rest, rest[-1].seq
    with pytest.raises(LogRegression, match="jettison repair"):
        await known.load(AT)
    wanted = plan(AT, rest, marks=(), copies=())
    for at_ms in (7, 2**45):
        commit = repaired(AT, wanted, by="test", export="e" * 64, at_ms=at_ms)
        repair = Record(seq=rest[-1].seq + 1, side="done", body=codec.encode_commit(commit))
        log._records[AT], log._seq = [*rest, repair], repair.seq
        if at_ms == 7:
            # of before the loss: it says nothing of this one
            with pytest.raises(LogRegression, match="jettison repair"):
                await known.load(AT)
    state = await known.load(AT)
    assert state == folded(AT, log._records[AT])
    assert await known.load(AT) is state
    assert await known.commit(AT, state, (SERVED,), headers={})
