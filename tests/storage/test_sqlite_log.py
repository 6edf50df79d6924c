"""What a log in a file promises beyond the contract of all logs: other processes write to it too, and it is kept."""

import asyncio
import sys
from pathlib import Path

from protocol.ids import address, fresh_id
from storage.ports import Record
from tests.storage.sqlite_log import SqliteLog

AT = address("shared")
ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 20
RACE = "import asyncio, sys; from tests.storage.test_sqlite_log import race; sys.exit(asyncio.run(race(sys.argv[1])))"


async def sides(log: SqliteLog) -> list[str]:
    return [record.side for record in await log.read(AT, after=0)]


async def race(file: str) -> int:
    """Commit in each round on what both have seen, once both have; return how often that landed."""
    log, landed = SqliteLog(Path(file)), 0
    for turn in range(ROUNDS):
        newest = max([one.seq for one in await log.read(AT, after=0) if one.side == "done"], default=0)
        await log.say(AT, b"ready", message_id=fresh_id(), headers={})
        async with asyncio.timeout(120):
            while (await sides(log)).count("said") < 2 * (turn + 1):
                await asyncio.sleep(0)
        commit = b"on %d" % newest
        landed += bool(await log.append(AT, commit, expected_seq=newest, commit_id=fresh_id(), headers={}))
    log.close()
    return landed


async def test_of_two_processes_that_commit_on_the_same_exactly_one_lands(tmp_path: Path) -> None:
    file = tmp_path / "log.sqlite"
    command = (sys.executable, "-c", RACE, str(file))
    racing = [await asyncio.create_subprocess_exec(*command, cwd=ROOT) for _ in range(2)]
    landed = await asyncio.gather(*(process.wait() for process in racing))
    log = SqliteLog(file)
    done = [record for record in await log.read(AT, after=0) if record.side == "done"]
    log.close()
    assert sum(landed) == len(done) == ROUNDS
    assert [record.body for record in done] == [b"on %d" % seq for seq in [0, *(one.seq for one in done)][:-1]]


async def test_a_file_that_is_opened_again_has_everything_and_knows_what_it_has(tmp_path: Path) -> None:
    async def read() -> list[Record]:
        return await log.read(AT, after=0)

    log, said, done = SqliteLog(tmp_path / "log.sqlite"), fresh_id(), fresh_id()
    first = await log.say(AT, b"said", message_id=said, headers={"traceparent": "00-aa-bb-01"})
    second = await log.append(AT, b"done", expected_seq=0, commit_id=done, headers={})
    assert second
    there = await read()
    log.close()
    log = SqliteLog(tmp_path / "log.sqlite")
    assert await read() == there
    assert await log.say(AT, b"said", message_id=said, headers={}) == first
    assert await log.append(AT, b"done", expected_seq=second, commit_id=done, headers={}) is None
    assert (await read(), await log.addresses(), await log.end()) == (there, [AT], second)
    log.close()
