"""Commands on a log of several partitions: a backup of it, a growth that was interrupted, and where a damage lies."""

from pathlib import Path

import pytest

from actors.audit import moving
from actors.cli.backup import MANIFEST
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol.ids import Address, address, fresh_id
from storage import record_lines
from storage.archives import Archive
from storage.jetstream import JetStreamLog
from storage.known_layout import known_layout
from storage.partition_growth import begun, wanted
from storage.partitions import ONE, first_seq, grown
from storage.streams import drift, provision
from tests.audit.test_erasing import hits
from tests.promises.harness import Rights, at_server, one, said_body, told_by, with_own_bucket
from tests.storage.test_partitions import SHARDS_FILE

PLANTED = b"PLANTED-IN-A-SNAPSHOT"
FOUR, FIVE = grown(ONE, 4), grown(grown(ONE, 4), 5)
TALKS = [address(f"talk-{number}") for number in range(12)]
MOVES = next(at for at in TALKS if FOUR.partition(at) != FIVE.partition(at))
LAST = next(at for at in TALKS if FOUR.partition(at) == 3)


async def test_an_operator_of_four_partitions_backs_up_restores_and_is_told_of_an_interrupted_growth(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "SEEN_SECONDS", 0.0)
    folder = tmp_path / "backup"
    async with one(tmp_path, rights=Rights(include=SHARDS_FILE.read_text()), partitions=4, sync="2m") as server:
        parted = with_own_bucket(at_server(settings, server.url))
        async with runtime(parted, role="test") as running:
            assert {FOUR.partition(at) for at in TALKS} == {0, 1, 2, 3}
            await running.bucket.prepare()
            for at in TALKS:
                await running.log.say(at, said_body(str(at)), message_id=fresh_id(), headers={})
            await restored_elsewhere(parted, settings, running, folder)
            await damage_in_the_last(parted, running)
            await interrupted(parted, running, folder)
            await running.snapshots.put(MOVES, PLANTED)
            whole = await archived(running, MOVES)
            await running.moving(told=lambda _: None).grow(5)
            assert hits(server.store, PLANTED.decode()) == {}, "what moved is not left where it was"
            assert await drift(running.connection) == []
            assert [one.body for one in await running.log.read(MOVES, after=0)] == whole
            assert len(await JetStreamLog(running.connection).read(MOVES, after=0)) == 1, "what is archived stays so"


async def archived(running: Runtime, at: Address) -> list[bytes]:
    """Archive the log of *at*, and leave it in its stream, as an archiver does that is killed; return what is in it."""
    records = await JetStreamLog(running.connection).read(at, after=0)
    sha256 = await running.archives.put(at, record_lines.written(records))
    headers = Archive(last=records[-1].seq, records=len(records), sha256=sha256).header()
    assert await running.log.append(at, b"archived", expected_seq=0, commit_id=fresh_id(), headers=headers)
    return [one.body for one in await running.log.read(at, after=0)]


async def restored_elsewhere(parted: Settings, settings: Settings, running: Runtime, folder: Path) -> None:
    """A backup comes back as it was, whatever was provisioned meanwhile; where it cannot, nothing is changed."""
    before = [await running.log.read(at, after=0) for at in TALKS]
    await told(parted, "backup", str(folder), code=0)
    await told(settings, "restore", str(folder), code=1, says="does not compute shards")
    await told(parted, "restore", str(folder), code=1, says='"It was provisioned all the same"')
    for partitions in (1, 2):
        await emptied(running)
        await provision(running.connection, partitions=partitions)
        await told(parted, "restore", str(folder), code=0)
        assert await known_layout(running.connection).again() == FOUR
        assert [await running.log.read(at, after=0) for at in TALKS] == before
        assert await drift(running.connection) == []


async def emptied(running: Runtime) -> None:
    jetstream = running.connection.jetstream()
    for info in await jetstream.streams_info():
        await jetstream.delete_stream(info.config.name or "")


async def damage_in_the_last(parted: Settings, running: Runtime) -> None:
    """Where nothing sound is before it, a damage begins where its partition does."""
    await running.log.append(LAST, b"\x93garbage", expected_seq=0, commit_id=fresh_id(), headers={})
    await told(parted, "verify", str(LAST), code=3, says=f"sequences {first_seq(3)} to ")


async def interrupted(parted: Settings, running: Runtime, folder: Path) -> None:
    """Everybody who is refused is told how it ends, and the backup before stays whole."""
    layout, target = await wanted(running.connection, 5)
    assert target == FIVE
    await begun(running.connection, layout, target)
    kept = {file: file.read_bytes() for file in folder.glob("*") if file.is_file()}
    assert folder / MANIFEST in kept
    await told(parted, "backup", str(folder), code=4, says="`jettison repartition 5` goes on")
    assert {file: file.read_bytes() for file in kept} == kept
    await told(parted, "erase", str(TALKS[0]), "--yes", code=4, says="`jettison repartition 5` goes on")
    await told(parted, "doctor", code=4, says="fix: jettison repartition 5")


async def told(settings: Settings, *command: str, code: int, says: str = "") -> None:
    """Run a command as an operator does, and expect its exit *code* and what it *says*."""
    done = await told_by(settings, *command)
    assert done.returncode == code, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
