"""What every `Archives` promises, asked of the one in memory and of a real S3 store."""

import hashlib

import pytest

from actors.host.bootstrap import Runtime
from protocol.errors import ArchiveDamaged
from protocol.ids import Address, address, fresh_id
from storage.archives import S3Archives
from storage.memory import MemoryArchives
from storage.ports import Archives


@pytest.fixture(params=["memory", "s3"])
def archives(request: pytest.FixtureRequest, running: Runtime) -> Archives:
    return MemoryArchives() if request.param == "memory" else S3Archives(running.bucket)


@pytest.fixture
def at() -> Address:
    return address(f"archived-{fresh_id()[:8]}")


async def test_bytes_come_back_as_they_were_and_twice_is_once(archives: Archives, at: Address) -> None:
    for body in (b"", b"\0\xff\r\n", b"x" * 300_000):
        name = hashlib.sha256(body).hexdigest()
        assert [await archives.put(at, body) for _ in range(2)] == [name, name]
        assert await archives.get(at, name) == body
    assert len(await archives.names(at)) == 3


async def test_a_missing_one_is_damage(archives: Archives, at: Address) -> None:
    with pytest.raises(ArchiveDamaged):
        await archives.get(at, hashlib.sha256(b"never stored").hexdigest())


async def test_conversations_have_archives_of_their_own(archives: Archives, at: Address) -> None:
    name, other = await archives.put(at, b"mine"), address(f"{at.conversation}x")
    assert (await archives.names(at), await archives.names(other)) == ([name], [])
    with pytest.raises(ArchiveDamaged):
        await archives.get(other, name)


async def test_names_are_sorted_and_what_is_deleted_is_gone(archives: Archives, at: Address) -> None:
    first, *others = [await archives.put(at, b"%d" % number) for number in range(5)]
    for _ in range(2):  # the second time is harmless
        await archives.delete(at, first)
    assert await archives.names(at) == sorted(others)
    with pytest.raises(ArchiveDamaged):
        await archives.get(at, first)


async def test_each_conversation_of_which_anything_is_kept_is_named_once(archives: Archives, at: Address) -> None:
    other = address(f"{at.conversation}x")
    names = [await archives.put(at, b"%d" % number) for number in range(3)]
    await archives.put(other, b"another's")
    assert [one async for one in archives.addresses() if one in (at, other)] == [at, other]
    for name in names:
        await archives.delete(at, name)
    assert [one async for one in archives.addresses() if one in (at, other)] == [other]
