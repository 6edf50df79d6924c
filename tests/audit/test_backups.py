"""What a backup made before an erasure still opens, and what ends it."""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest
from nats.aio.client import Client as NatsConnection

from actors.cli.backup import MANIFEST, BackupManifest, checked, restore, streams_copied
from actors.cli.compact import stack_for
from actors.cli.options import StackOptions
from actors.host.bootstrap import Runtime
from actors.host.settings import KeysSection, Settings
from actors.runtime.listing import LISTS
from protocol import codec, subjects
from protocol.client import Client
from protocol.errors import Damaged, KeysUnavailable, LogUnavailable, Rejected
from protocol.facts import ConversationErased, MessagesAppended
from protocol.formats import messages
from protocol.ids import Address, Token, address, fresh_id
from protocol.subjects import LOG_STREAM
from storage import stream_copies
from storage.erasure import removed
from storage.rewrapping import rewrapped
from storage.stream_copies import StreamCopy
from storage.streams import drift
from tests.audit.test_erasing import hits
from tests.builders import user
from tests.conftest import done_facts, settled

AT = address("victim")


def stack(data: Path, keys: Path) -> AbstractAsyncContextManager[tuple[Runtime, str]]:
    """Run a stack on *data* with the tenants' keys of another folder."""
    return stack_for(Settings(data=str(data), keys=KeysSection(folder=str(keys), make=True)), workers=0)


async def texts(running: Runtime, at: Address) -> list[str]:
    """Return what was said in *at*."""

    out = []
    for record in await running.log.read(at, after=0):
        for fact in codec.decode_said(record.body).facts if record.side == "said" else ():
            if isinstance(fact, MessagesAppended):
                out += [messages.decode(one.raw)["content"] for one in fact.messages]
    return out


async def erase(running: Runtime, at: Address) -> None:
    await running.erasing().erase(at, by="test")


async def test_a_backup_opens_with_the_wrapped_keys_and_the_tenants_key_together_and_no_other_way(
    tmp_path: Path,
) -> None:
    planted = f"PLANTED{secrets.token_hex(12)}"
    live, keys, backup = tmp_path / "live", tmp_path / "keys", tmp_path / "backup"
    async with stack(live, keys) as (running, url), Client.connect(url, keys=running.tenants) as client:
        for name in ("victim", "bystander"):
            talk = await client.open(name)
            await talk.append([user(f"{planted} of {name}")])
            await talk.context()
            await settled(running, talk.at)
        # the tenant's list has a key too, which the first sweep makes
        while not (await running.sweeper().sweep(everything=True)).complete:
            await asyncio.sleep(0.05)
    shutil.copytree(live, backup)
    assert hits(backup, planted) == {}, "nothing of it lies on the disk, erased or not"
    old = (keys / "default.key").read_text()
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "default.key").write_text(old)

    async with stack(live, keys) as (running, _):
        await erase(running, AT)
        assert any(isinstance(fact, ConversationErased) for fact in done_facts(await running.log.read(AT, after=0)))
        # the tenant's key is replaced, and the old one thrown away
        (keys / "default.key").write_text(old + os.urandom(32).hex() + "\n")
        assert running.tenants is not None
        kept = await rewrapped(running.connection, tenants=running.tenants, tenant=Token("default"))
        assert kept == len(("bystander", LISTS))
        assert await drift(running.connection) == []
        (keys / "default.key").write_text((keys / "default.key").read_text().splitlines()[-1])
    async with stack(live, keys) as (running, _):
        assert await texts(running, address("bystander")) == [f"{planted} of bystander"]
        assert await texts(running, AT) == []

    # a whole copy, and the tenant's key of that time: everything
    async with stack(backup, tmp_path / "old") as (running, _):
        assert await texts(running, AT) == [f"{planted} of victim"]
    # a whole copy, and the tenant's key of today
    async with stack(backup, keys) as (running, _):
        with pytest.raises(KeysUnavailable, match="was wrapped by key"):
            await running.log.read(AT, after=0)
    # a copy without the stream of keys, and whatever key
    (folder,) = backup.glob("nats/jetstream/*/streams/CTX_KEYS")
    shutil.rmtree(folder)
    async with stack(backup, tmp_path / "old") as (running, _):
        with pytest.raises(KeysUnavailable, match="restore the stream of keys"):
            await running.log.read(AT, after=0)
    assert hits(backup, planted) == {}


async def test_a_backup_is_made_again_where_records_left_the_log_meanwhile(
    running: Runtime, at: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would have neither what an archiver took away nor the commit that says where that is."""
    one = stream_copies.copied
    left = [await running.log.say(at, b"said", message_id=fresh_id(), headers={}) for _ in range(4)]
    ends: list[int] = []

    async def leaving(connection: NatsConnection, stream: str, file: Path) -> StreamCopy:
        copy = await one(connection, stream, file)
        if stream.startswith(subjects.LOG_STREAM) and left:
            ends.append(await running.log.say(at, b"where they are", message_id=fresh_id(), headers={}))
            await removed(connection, stream=stream, seqs=[left.pop()])
        return copy

    monkeypatch.setattr(stream_copies, "copied", leaving)
    with pytest.raises(LogUnavailable, match="while it is copied"):
        await streams_copied(running, tmp_path, None)
    assert list(tmp_path.glob("*.stream")) == [], "the backup before stays"
    log = next(one for one in await streams_copied(running, tmp_path, None) if one.stream == subjects.LOG_STREAM)
    assert log.last_seq >= ends[-1]


def test_a_restore_without_the_place_of_the_wrapped_keys_says_so_before_it_begins(tmp_path: Path) -> None:
    keys = StreamCopy(stream=subjects.KEY_STREAM, config={}, state={"last_seq": 1}, bytes=0, sha256="")
    manifest = BackupManifest(made_at="", streams=(keys,), objects=0, new_objects=0)
    (tmp_path / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    with pytest.raises(Rejected, match=r"CTX_KEYS\.stream is not there; the wrapped keys lie elsewhere: say --keys"):
        restore(StackOptions(), tmp_path, keys=None, objects=False, as_json=False)


def copy_of(stream: str, body: bytes, *, last_seq: int) -> StreamCopy:
    sha256 = hashlib.sha256(body).hexdigest()
    return StreamCopy(stream=stream, config={}, state={"last_seq": last_seq}, bytes=len(body), sha256=sha256)


def test_a_restore_looks_at_all_copies_before_it_changes_anything(tmp_path: Path) -> None:
    """No stack is asked: there is none."""
    log, keys = b"the log", b"the keys of that night"
    copies = (copy_of(LOG_STREAM, log, last_seq=9), copy_of(subjects.KEY_STREAM, keys, last_seq=5))
    (tmp_path / MANIFEST).write_bytes(
        msgspec.json.encode(BackupManifest(made_at="", streams=copies, objects=0, new_objects=0))
    )
    (tmp_path / f"{LOG_STREAM}.stream").write_bytes(log)
    away = tmp_path / "keys"
    away.mkdir()
    (away / f"{subjects.KEY_STREAM}.stream").write_bytes(b"those of another stack")
    with pytest.raises(Damaged, match=r"CTX_KEYS\.stream is not the copy of CTX_KEYS that was written"):
        restore(StackOptions(), tmp_path, keys=away, objects=False, as_json=False)


@pytest.mark.parametrize(("last_seq", "taken"), [(7, True), (5, True), (4, False)])
def test_keys_that_a_later_backup_wrote_are_taken(tmp_path: Path, last_seq: int, taken: bool) -> None:
    newer = b"the keys of tonight"
    then, now = (copy_of(subjects.KEY_STREAM, b"x", last_seq=5), copy_of(subjects.KEY_STREAM, newer, last_seq=last_seq))
    (tmp_path / f"{subjects.KEY_STREAM}.stream").write_bytes(newer)
    (tmp_path / f"{subjects.KEY_STREAM}.json").write_bytes(msgspec.json.encode(now))
    manifest = BackupManifest(made_at="", streams=(then,), objects=0, new_objects=0)
    if taken:
        assert checked(manifest, tmp_path, tmp_path / "") == [now]
    else:
        with pytest.raises(Damaged):
            checked(manifest, tmp_path, tmp_path / "")
