"""What is kept is read with the key of its conversation alone, and a destroyed key ends it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest
from nats.js.api import StreamConfig

from actors.host.bootstrap import Runtime
from protocol import cipher, codec, subjects
from protocol.errors import BadEnvelope, Damaged, Erased, JettisonError, KeysUnavailable, NotProvisioned
from protocol.ids import Address, Token, address, fresh_id
from protocol.keys import DESTROYED, FolderKeys, JetStreamKeys
from storage.encrypted import EncryptedLog, EncryptedSnapshots
from storage.erasure import key_destroyed, overwritten
from storage.jetstream import JetStreamLog
from storage.jetstream_snapshots import JetStreamSnapshots
from storage.memory import MemoryArtifacts, MemoryKeys, MemoryLog, MemorySnapshots
from storage.ports import Keys

OVERHEAD_BYTES = len(codec.ENCRYPTED) + cipher.NONCE_BYTES + cipher.TAG_BYTES
"""What a record that is encrypted is longer."""

SECRET = b"the user's own words " * 20


@pytest.fixture
def folder(tmp_path: Path) -> FolderKeys:
    made = FolderKeys(folder=str(tmp_path / "keys"), makes=True)
    made.make(Token("default"))  # other tests' keys of this tenant are kept: nobody would make a first one
    return made


@pytest.fixture(params=["memory", "wrapped", "plain", "agent"])
def keys(request: pytest.FixtureRequest, running: Runtime, folder: FolderKeys) -> Keys:
    if request.param == "memory":
        return MemoryKeys()
    tenants = None if request.param == "plain" else folder
    return JetStreamKeys(running.connection, tenants=tenants, read="direct" if request.param == "agent" else "leader")


async def test_each_conversation_has_one_key_of_its_own(keys: Keys, at: Address) -> None:
    other = address(fresh_id())
    assert await keys.known(at) is None
    assert await keys.key(at) == await keys.key(at) == await keys.known(at)
    assert len({await keys.key(at), await keys.key(other)}) == 2
    assert len((await keys.key(at)).secret) == 32
    assert "secret" not in repr(await keys.key(at))


async def test_a_tenant_whose_key_is_there_needs_nothing_and_may_be_asked_again(keys: Keys, at: Address) -> None:
    for _ in range(2):
        await keys.prepare(at.tenant)
        await keys.check(Token(f"new-{fresh_id()[:8]}"))
    assert await keys.known(at) is None, "the tenant's key alone is made"


async def test_two_processes_agree_on_a_key(running: Runtime, folder: FolderKeys, at: Address) -> None:
    first, second, late = (JetStreamKeys(running.connection, tenants=folder) for _ in range(3))
    made = await first.key(at)
    assert await second.key(at) == made
    assert await late._made(at) is None
    assert await late.known(at) == made


async def test_many_who_begin_with_a_new_tenant_make_its_key_once(running: Runtime, tmp_path: Path) -> None:
    tenants = FolderKeys(folder=tmp_path, makes=True)
    tenant = f"new-{fresh_id()[:6]}"

    async def begun(number: int) -> Address:
        await asyncio.sleep(number * 0.0003)  # some look while others write
        at = address(f"c{number}", tenant)
        await JetStreamKeys(running.connection, tenants=tenants).key(at)
        return at

    opened = await asyncio.gather(*(begun(number) for number in range(60)))
    assert len((tmp_path / f"{tenant}.key").read_text().split()) == 1
    for at in opened:
        assert await JetStreamKeys(running.connection, tenants=tenants).known(at) is not None


async def test_a_key_lies_on_nats_only_as_its_tenant_wrapped_it(
    running: Runtime, folder: FolderKeys, at: Address, tmp_path: Path
) -> None:
    made = await JetStreamKeys(running.connection, tenants=folder).key(at)
    kept = await running.connection.jetstream().get_msg(subjects.KEY_STREAM, subject=subjects.key(at))
    file = tmp_path / "keys" / "default.key"
    tenants = file.read_text().split()
    assert len(tenants) == 1
    assert all(secret not in (kept.data or b"") for secret in (made.secret, bytes.fromhex(tenants[0])))
    assert file.stat().st_mode & 0o777 == 0o600


async def test_a_key_that_lies_there_is_never_written_over(running: Runtime, folder: FolderKeys, at: Address) -> None:
    made = await JetStreamKeys(running.connection, tenants=folder).key(at)
    for headers in ({}, {"Nats-Expected-Last-Subject-Sequence": "0"}):
        with pytest.raises(Exception, match=r"maximum messages per subject|wrong last sequence"):
            await running.connection.jetstream().publish(subjects.key(at), b"mine", headers=headers)
    assert await JetStreamKeys(running.connection, tenants=folder).known(at) == made


async def test_without_the_tenants_key_nothing_opens_and_the_reason_is_told(
    running: Runtime, folder: FolderKeys, at: Address, tmp_path: Path
) -> None:
    await JetStreamKeys(running.connection, tenants=folder).key(at)
    with pytest.raises(KeysUnavailable, match="JETTISON_KEYS__FOLDER"):
        await JetStreamKeys(running.connection).key(at)
    empty = FolderKeys(folder=tmp_path / "empty")
    with pytest.raises(KeysUnavailable, match="tenant default has no key in "):
        await JetStreamKeys(running.connection, tenants=empty).key(at)
    other = FolderKeys(folder=tmp_path / "other", makes=True)
    with pytest.raises(KeysUnavailable, match="tenant default has no key in "):
        await JetStreamKeys(running.connection, tenants=other).key(at)
    assert not (tmp_path / "other").exists(), "to read makes no key"
    other.make(at.tenant)
    with pytest.raises(
        KeysUnavailable, match=r"was wrapped by key [0-9a-f]{16} .* put that key's line above the others"
    ):
        await JetStreamKeys(running.connection, tenants=other).key(at)
    for text in ("", "short\n", "zz" * 32, "ä"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        (tmp_path / "empty" / "default.key").write_text(text)
        with pytest.raises(KeysUnavailable, match=r"must hold lines of 64 hex digits|cannot be read"):
            await JetStreamKeys(running.connection, tenants=empty).key(at)


async def test_a_tenant_that_never_had_a_key_gets_one_and_a_lost_one_is_never_replaced(
    running: Runtime, tmp_path: Path
) -> None:
    ours = Token(f"t-{fresh_id()[:8]}")
    first, second, third = (Address(tenant=ours, conversation=Token(name)) for name in ("a", "b", "c"))
    folder, file = FolderKeys(folder=tmp_path, makes=True), tmp_path / f"{ours}.key"

    def fresh() -> JetStreamKeys:
        return JetStreamKeys(running.connection, tenants=folder)

    with pytest.raises(KeysUnavailable, match="has no key in"):
        await JetStreamKeys(running.connection, tenants=folder, read="direct").key(first)
    assert not file.exists(), "an agent makes none"
    made = await fresh().key(first)
    file.rename(tmp_path / "copy")
    for refused in (fresh().key(second), fresh().prepare(ours)):
        with pytest.raises(KeysUnavailable, match=rf"the key of tenant {ours} is lost.* put {ours}\.key back"):
            await refused
    assert not file.exists()
    await key_destroyed(running.connection, first)
    with pytest.raises(KeysUnavailable, match="is lost"):
        await fresh().prepare(ours)  # a mark may have others behind it
    (tmp_path / "copy").rename(file)
    assert await fresh().key(second) not in (made, await fresh().key(third))
    assert await fresh().known(second) == await fresh().key(second)


async def test_a_tenants_key_is_missed_even_after_another_one_took_its_place(running: Runtime, tmp_path: Path) -> None:
    ours = Token(f"t-{fresh_id()[:8]}")
    first, second = (Address(tenant=ours, conversation=Token(name)) for name in ("a", "b"))
    folder, file = FolderKeys(folder=tmp_path, makes=True), tmp_path / f"{ours}.key"
    keys = JetStreamKeys(running.connection, tenants=folder)
    await keys.check(ours)
    await keys.key(first)
    await keys.check(ours)
    lost = file.read_text()
    new = os.urandom(32).hex() + "\n"
    file.write_text(new)
    await keys.key(second)
    with pytest.raises(KeysUnavailable, match=rf"the key of {first} was wrapped by key"):
        await keys.check(ours)
    file.write_text(lost)
    with pytest.raises(KeysUnavailable, match=rf"the key of {second} was wrapped by key"):
        await keys.check(ours)
    file.write_text(lost + new)
    await keys.check(ours)
    file.unlink()
    with pytest.raises(KeysUnavailable, match="has no key in"):
        await keys.check(ours)


async def test_a_second_line_wraps_from_then_on_and_the_first_still_opens(
    folder: FolderKeys, at: Address, tmp_path: Path
) -> None:
    before = await folder.wrap(at, b"k" * 32)
    path = tmp_path / "keys" / "default.key"
    path.write_text(path.read_text() + os.urandom(32).hex() + "\n")
    after = await folder.wrap(at, b"k" * 32)
    assert before[1:9] != after[1:9]
    assert [await folder.unwrap(at, one) for one in (before, after)] == [b"k" * 32] * 2
    path.write_text(path.read_text().splitlines()[1])
    assert await folder.unwrap(at, after) == b"k" * 32
    with pytest.raises(KeysUnavailable):
        await folder.unwrap(at, before)


async def test_a_wrapped_key_opens_at_its_own_address_only(folder: FolderKeys, at: Address) -> None:
    wrapped = await folder.wrap(at, b"k" * 32)
    with pytest.raises(Damaged, match="does not open"):
        await folder.unwrap(address("another"), wrapped)
    with pytest.raises(Damaged):
        await folder.unwrap(at, wrapped[:-1] + bytes([wrapped[-1] ^ 1]))


async def test_a_destroyed_key_is_gone_and_nobody_makes_another(
    running: Runtime, folder: FolderKeys, at: Address
) -> None:
    await JetStreamKeys(running.connection, tenants=folder).key(at)
    assert await key_destroyed(running.connection, at) == 1
    assert await key_destroyed(running.connection, at) == 0
    for fresh in (
        JetStreamKeys(running.connection, tenants=folder),
        JetStreamKeys(running.connection, tenants=folder, read="direct"),
        JetStreamKeys(running.connection),
    ):
        for asked in (fresh.key, fresh.known):
            with pytest.raises(Erased, match="key destroyed"):
                await asked(at)
        assert await fresh._made(at) is None
    never = address(fresh_id())
    assert await key_destroyed(running.connection, never) == 0
    with pytest.raises(Erased):
        await JetStreamKeys(running.connection, tenants=folder).key(never)


async def test_garbage_in_a_keys_place_is_damage(running: Runtime, folder: FolderKeys, at: Address) -> None:
    await running.connection.jetstream().publish(subjects.key(at), b"garbage")
    with pytest.raises(Damaged, match="not readable"):
        await JetStreamKeys(running.connection, tenants=folder).key(at)
    assert codec.encode_said(codec.Said(writer="w", count=1, facts=()))[:1] != codec.ENCRYPTED[:1] != DESTROYED[:1]


@pytest.mark.parametrize("size", [1, 400_000], ids=["inline", "artifact"])
async def test_what_is_kept_does_not_show_what_was_said(at: Address, size: int) -> None:
    state = SECRET + os.urandom(size)  # random: it is made smaller before it is encrypted
    snapshots, artifacts = MemorySnapshots(), MemoryArtifacts()
    encrypted = EncryptedSnapshots(snapshots, keys=MemoryKeys(), artifacts=artifacts)
    await encrypted.put(at, state)
    assert await encrypted.newest(at) == state
    kept = [await snapshots.newest(at) or b"", *artifacts._bodies.values()]
    assert len(kept) == (1 if size == 1 else 2)
    assert all(SECRET[:16] not in body for body in kept)
    assert (await encrypted.artifact(at) != "") == (size > 1)


async def test_another_key_another_conversation_and_garbage_open_no_snapshot(at: Address) -> None:
    snapshots, artifacts, keys = MemorySnapshots(), MemoryArtifacts(), MemoryKeys()
    encrypted = EncryptedSnapshots(snapshots, keys=keys, artifacts=artifacts)
    await encrypted.put(at, SECRET)
    stored = await snapshots.newest(at) or b""
    elsewhere = address(fresh_id())
    keys._keys[elsewhere] = await keys.key(at)
    await snapshots.put(elsewhere, stored)
    assert await encrypted.newest(elsewhere) is None
    strange = MemoryKeys()
    await strange.key(at)
    for others in (MemoryKeys(), strange):
        assert await EncryptedSnapshots(snapshots, keys=others, artifacts=artifacts).newest(at) is None
    for body in (b"", b"garbage", stored[:-1], stored[:9], b"\x92\xc4\x00\xa0"):
        await snapshots.put(at, body)
        assert await encrypted.newest(at) is None


class Keyless(MemoryKeys):
    """Keys whose stream is missing, as it is told after a while."""

    def __init__(self, error: JettisonError) -> None:
        super().__init__()
        self._error = error

    async def known(self, at: Address) -> cipher.Key | None:
        for _ in range(3):
            await asyncio.sleep(0)
        raise self._error


class Unreadable(MemorySnapshots):
    """Snapshots whose reader has a fault."""

    async def newest(self, at: Address) -> bytes | None:
        raise RuntimeError("a fault of the reader")


async def test_what_is_wrong_with_the_keys_matters_where_there_is_a_snapshot(at: Address) -> None:
    snapshots, artifacts = MemorySnapshots(), MemoryArtifacts()
    missing, locked = Keyless(NotProvisioned("no stream of keys")), Keyless(KeysUnavailable("locked"))
    for keys in (missing, locked):
        assert await EncryptedSnapshots(snapshots, keys=keys, artifacts=artifacts).newest(at) is None
    await EncryptedSnapshots(snapshots, keys=MemoryKeys(), artifacts=artifacts).put(at, SECRET)
    assert await EncryptedSnapshots(snapshots, keys=locked, artifacts=artifacts).newest(at) is None
    with pytest.raises(NotProvisioned):
        await EncryptedSnapshots(snapshots, keys=missing, artifacts=artifacts).newest(at)
    running = asyncio.all_tasks()
    with pytest.raises(RuntimeError):
        await EncryptedSnapshots(Unreadable(), keys=missing, artifacts=artifacts).newest(at)
    assert asyncio.all_tasks() == running, "nobody asks for a key that nobody waits for"


async def test_a_snapshot_is_neither_kept_nor_found_once_the_key_is_destroyed(
    running: Runtime, folder: FolderKeys, at: Address
) -> None:
    def fresh() -> EncryptedSnapshots:
        keys = JetStreamKeys(running.connection, tenants=folder)
        return EncryptedSnapshots(JetStreamSnapshots(running.connection), keys=keys, artifacts=running.artifacts)

    await fresh().put(at, SECRET)
    assert await fresh().newest(at) == SECRET
    await key_destroyed(running.connection, at)
    assert await fresh().newest(at) is None
    await overwritten(running.connection, stream=subjects.SNAPSHOT_STREAM, subject=subjects.snapshot(at))
    await fresh().put(at, SECRET)
    assert await JetStreamSnapshots(running.connection).newest(at) is None


async def test_a_log_shows_nothing_to_who_has_not_the_key(running: Runtime, folder: FolderKeys, at: Address) -> None:
    at = Address(tenant=Token("locked"), conversation=at.conversation)  # nobody else of the session has its key
    plain = JetStreamLog(running.connection)
    log = EncryptedLog(plain, keys=JetStreamKeys(running.connection, tenants=folder))
    said = await log.say(at, SECRET, message_id=fresh_id(), headers={"traceparent": "x"})
    done = await log.append(at, SECRET, expected_seq=0, commit_id=fresh_id(), headers={})
    await plain.say(at, b"in plain text", message_id=fresh_id(), headers={})
    assert done is not None
    kept = await plain.read(at, after=0)
    assert [SECRET[:16] in record.body for record in kept] == [False, False, False]
    assert [len(record.body) for record in kept[:2]] == [len(SECRET) + OVERHEAD_BYTES] * 2
    assert [(one.seq, one.side, one.body) for one in await log.read(at, after=0)] == [
        (said, "said", SECRET),
        (done, "done", SECRET),
        (done + 1, "said", b"in plain text"),
    ]
    with pytest.raises(KeysUnavailable):
        await EncryptedLog(plain, keys=JetStreamKeys(running.connection)).read(at, after=0)
    assert len(await EncryptedLog(plain, keys=JetStreamKeys(running.connection)).read(at, after=done)) == 1


async def test_a_record_that_was_moved_or_changed_does_not_open(at: Address) -> None:
    plain, keys, other = MemoryLog(), MemoryKeys(), address("other")
    log = EncryptedLog(plain, keys=keys)
    await log.say(at, SECRET, message_id="one", headers={})
    (kept,) = await plain.read(at, after=0)
    keys._keys[other] = await keys.key(at)
    flipped = [kept.body[:place] + bytes([kept.body[place] ^ 1]) + kept.body[place + 1 :] for place in (2, 20, -1)]
    await plain.say(other, kept.body, message_id="two", headers={})
    await plain.append(at, kept.body, expected_seq=0, commit_id="three", headers={})
    for index, body in enumerate([*flipped, kept.body[:20], kept.body[:2]]):
        await plain.say(at, body, message_id=f"changed {index}", headers={})
    (moved,) = await log.read(other, after=0)
    assert replace(moved, time="") == replace(kept, seq=2, time="")
    assert [one.body == SECRET for one in await log.read(at, after=0)] == [True, *[False] * 6]
    for read in (codec.decode_said, codec.decode_commit):
        with pytest.raises(BadEnvelope, match="the conversation's key does not open"):
            read(kept.body)


async def test_an_encrypted_log_without_its_key_is_never_taken_for_garbage(at: Address) -> None:
    plain = MemoryLog()
    await EncryptedLog(plain, keys=MemoryKeys()).say(at, SECRET, message_id="one", headers={})
    lost = MemoryKeys()
    with pytest.raises(KeysUnavailable, match="restore the stream of keys"):
        await EncryptedLog(plain, keys=lost).read(at, after=0)
    assert lost._keys == {}, "reading makes no key"


async def test_what_is_written_to_a_conversation_whose_key_is_destroyed_is_refused(
    running: Runtime, folder: FolderKeys, at: Address
) -> None:
    await key_destroyed(running.connection, at)
    log = EncryptedLog(JetStreamLog(running.connection), keys=JetStreamKeys(running.connection, tenants=folder))
    with pytest.raises(Erased):
        await log.say(at, SECRET, message_id=fresh_id(), headers={})
    assert await log.append(at, SECRET, expected_seq=0, commit_id=fresh_id(), headers={}) is None
    assert await log.read(at, after=0) == []


async def test_a_stream_that_forbids_erasing_is_named(running: Runtime) -> None:
    jetstream = running.connection.jetstream()
    name = f"FORBIDS-{fresh_id()[:8]}"
    await jetstream.add_stream(StreamConfig(name=name, subjects=[f"forbids.{name}"], deny_delete=True))
    try:
        await jetstream.publish(f"forbids.{name}", b"x")
        with pytest.raises(NotProvisioned, match="forbids to delete"):
            await overwritten(running.connection, stream=name, subject=f"forbids.{name}")
    finally:
        await jetstream.delete_stream(name)
