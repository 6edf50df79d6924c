"""What every `EventLog` promises, asked of the one in memory, of the one on JetStream, and of one from elsewhere."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from actors.host.bootstrap import Runtime
from protocol.errors import LogRegression
from protocol.ids import Address, address, fresh_id
from storage.jetstream_reads import READ_BATCH
from storage.memory import MemoryLog
from storage.ports import EventLog, Record
from tests.storage.sqlite_log import SqliteLog


@pytest.fixture(params=["memory", "jetstream", "sqlite"])
def log(request: pytest.FixtureRequest, running: Runtime, tmp_path: Path) -> Iterator[EventLog]:
    if request.param == "sqlite":
        elsewhere = SqliteLog(tmp_path / "log.sqlite")
        yield elsewhere
        elsewhere.close()
    else:
        yield MemoryLog() if request.param == "memory" else running.log


async def say(log: EventLog, at: Address, body: bytes) -> int:
    return await log.say(at, body, message_id=fresh_id(), headers={})


async def append(log: EventLog, at: Address, body: bytes, *, expected_seq: int, commit_id: str = "") -> int | None:
    return await log.append(at, body, expected_seq=expected_seq, commit_id=commit_id or fresh_id(), headers={})


def seen(records: list[Record]) -> list[tuple[str, bytes]]:
    return [(record.side, record.body) for record in records]


async def test_an_unknown_conversation_is_empty(log: EventLog, at: Address) -> None:
    assert await log.head(at) == 0
    assert await log.read(at, after=0) == []
    assert at not in await log.addresses()


async def test_what_is_said_comes_back_in_order_with_its_headers(log: EventLog, at: Address) -> None:
    headers = {"traceparent": "00-aa-bb-01"}
    seqs = [await log.say(at, b"%d" % index, message_id=fresh_id(), headers=headers) for index in range(5)]
    records = await log.read(at, after=0)
    assert seqs == sorted(set(seqs)) == [record.seq for record in records]
    assert seen(records) == [("said", b"%d" % index) for index in range(5)]
    assert all(headers.items() <= record.headers.items() for record in records)
    assert seen(await log.read(at, after=seqs[2])) == [("said", b"3"), ("said", b"4")]
    assert await log.read(at, after=seqs[-1]) == []
    assert await log.head(at) == seqs[-1]


async def test_a_repeated_message_id_is_stored_once(log: EventLog, at: Address) -> None:
    ident = fresh_id()
    first = await log.say(at, b"once", message_id=ident, headers={})
    await say(log, at, b"between")
    assert await log.say(at, b"once", message_id=ident, headers={}) == first
    assert seen(await log.read(at, after=0)) == [("said", b"once"), ("said", b"between")]


async def test_a_record_that_is_not_the_one_that_was_read_is_not_gone_on_from(log: EventLog, at: Address) -> None:
    first = await say(log, at, b"one")
    (one,) = await log.read(at, after=0)
    assert await log.read(at, after=first, time=one.time) == []
    others = await say(log, address(f"{at.conversation}-other"), b"other")
    second = await say(log, at, b"two")
    assert seen(await log.read(at, after=first, time=one.time)) == [("said", b"two")]
    (two,) = await log.read(at, after=first)
    # as a log would be that lost its end and grew past it: another record there, another conversation's, none
    for seq, time in ((first, two.time), (second, one.time), (others, one.time), (second + 1, two.time)):
        with pytest.raises(LogRegression, match="lost its end"):
            await log.read(at, after=seq, time=time)


async def test_who_says_how_far_gets_at_least_so_much(log: EventLog, at: Address) -> None:
    seqs = [await say(log, at, b"%d" % index) for index in range(3)]
    one, two, _ = await log.read(at, after=0)

    async def upto(seq: int, time: str) -> list[tuple[str, bytes]]:
        return seen([record async for found in log.batches(at, after=one.seq, time=time, upto=seq) for record in found])

    assert (await upto(seqs[1], one.time))[:1] == [("said", b"1")]
    for seq in (seqs[2], seqs[2] + 1000, one.seq):  # what was told too large, or is there, harms nothing
        assert await upto(seq, one.time) == [("said", b"1"), ("said", b"2")]
    with pytest.raises(LogRegression, match="lost its end"):
        await upto(seqs[2], two.time)


async def test_who_says_how_far_does_not_wait_for_where_it_ends(running: Runtime, at: Address) -> None:
    asked: list[bytes] = []

    async def hear(message: Msg) -> None:
        asked.append(message.data)

    first, last = [await say(running.log, at, b"%d" % index) for index in range(2)]
    (one, _) = await running.log.read(at, after=0)
    heard = await running.connection.subscribe("$JS.API.STREAM.MSG.GET.>", cb=hear)
    try:
        for upto in (last, 0):
            _ = [batch async for batch in running.log.batches(at, after=first, time=one.time, upto=upto)]
            await running.connection.flush()
            assert bool([one for one in asked if str(at.conversation).encode() in one]) is (upto == 0)
    finally:
        await heard.unsubscribe()


async def test_a_commit_on_the_newest_lands_and_one_on_an_older_does_not(log: EventLog, at: Address) -> None:
    first = await append(log, at, b"first", expected_seq=0)
    assert first
    second = await append(log, at, b"second", expected_seq=first)
    assert second
    assert second > first
    assert await append(log, at, b"late", expected_seq=first) is None
    assert await append(log, at, b"blind", expected_seq=0) is None
    assert await append(log, at, b"ahead", expected_seq=second + 1000) is None
    assert seen(await log.read(at, after=0)) == [("done", b"first"), ("done", b"second")]


async def test_a_new_conversation_expects_nothing(log: EventLog, at: Address) -> None:
    assert await append(log, at, b"too much", expected_seq=7) is None
    assert await append(log, at, b"right", expected_seq=0)
    assert seen(await log.read(at, after=0)) == [("done", b"right")]


async def test_the_same_commit_again_is_not_stored_again(log: EventLog, at: Address) -> None:
    ident = fresh_id()
    first = await append(log, at, b"step", expected_seq=0, commit_id=ident)
    assert first
    assert await append(log, at, b"step", expected_seq=0, commit_id=ident) is None
    # as after P1 of the research: another commit on top, and the retry expects exactly that one
    assert await append(log, at, b"step", expected_seq=first, commit_id=ident) is None
    assert seen(await log.read(at, after=0)) == [("done", b"step")]


async def test_a_message_between_never_conflicts_with_a_commit(log: EventLog, at: Address) -> None:
    first = await append(log, at, b"first", expected_seq=0)
    assert first
    await say(log, at, b"meanwhile")
    assert await append(log, at, b"second", expected_seq=first)
    assert [side for side, _ in seen(await log.read(at, after=0))] == ["done", "said", "done"]


async def test_of_concurrent_commits_exactly_one_lands(log: EventLog, at: Address) -> None:
    expected = 0
    for _ in range(5):
        landed = [
            seq
            for seq in await asyncio.gather(
                *(append(log, at, b"from %d" % writer, expected_seq=expected) for writer in range(16))
            )
            if seq is not None
        ]
        assert len(landed) == 1
        expected = landed[0]
    assert len(await log.read(at, after=0)) == 5


async def test_a_long_log_is_read_whole(log: EventLog, at: Address) -> None:
    wanted = [b"%d" % index for index in range(READ_BATCH + 120)]
    limit = asyncio.Semaphore(64)

    async def one(body: bytes) -> None:
        async with limit:
            await say(log, at, body)

    await asyncio.gather(*map(one, wanted))
    records = await log.read(at, after=0)
    assert sorted(int(record.body) for record in records) == list(range(len(wanted)))
    seqs = [record.seq for record in records]
    assert seqs == sorted(set(seqs))
    batches = [batch async for batch in log.batches(at, after=seqs[0])]
    assert seen([record for batch in batches for record in batch]) == seen(records[1:])
    assert all(len(batch) <= READ_BATCH for batch in batches) or isinstance(log, MemoryLog)
    assert [record.seq for record in await log.read(at, after=seqs[9])] == seqs[10:]


async def test_large_bodies_come_back_whole(log: EventLog, at: Address) -> None:
    # 60 of 200 KB are more than one batch may carry (8 MB)
    wanted = [bytes([index]) * 200_000 for index in range(60)]
    for body in wanted:
        await say(log, at, body)
    assert [record.body for record in await log.read(at, after=0)] == wanted


HOSTILE = ["a.b", "*", ">", "a b", "ä😀", "\ud800", "..", "e--YQ", "h--x", "x" * 500, "a/b", "a\nb", "$JS"]


async def test_hostile_names_do_not_mix(log: EventLog) -> None:
    salt = fresh_id()
    places = [address(f"{name}{salt}", tenant) for name in HOSTILE for tenant in ("default", f"{name}{salt}")]
    assert len(set(places)) == len(places)
    for place in places:
        await say(log, place, str(place).encode())
        assert await append(log, place, b"done " + str(place).encode(), expected_seq=0)
    for place in places:
        wanted = [("said", str(place).encode()), ("done", b"done " + str(place).encode())]
        assert seen(await log.read(place, after=0)) == wanted
    found = await log.addresses()
    assert found == sorted(found)
    assert set(places) <= set(found)


async def test_headers_of_a_stranger_do_not_move_a_record(log: EventLog, at: Address) -> None:
    victim = address(f"victim-{fresh_id()}")
    forged = {"Nats-Sequence": "1", "Nats-Subject": f"ctx.v1.log.default.{victim.conversation}.done"}
    seq = await log.say(at, b"forged", message_id=fresh_id(), headers=forged)
    (record,) = await log.read(at, after=0)
    assert (record.seq, record.side, record.body) == (seq, "said", b"forged")
    assert await log.read(victim, after=0) == []
