"""What `backup` and `restore` do: all streams that cannot be made anew, and all objects, in a folder and back."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec

from actors.host.bootstrap import Runtime
from protocol import subjects
from protocol.errors import LogUnavailable, Rejected, in_words
from storage import object_copies, stream_copies
from storage.known_layout import layout_of
from storage.partition_streams import check_computes_shards
from storage.partitions import ONE, Layout, grows, told
from storage.stream_copies import StreamCopy
from storage.streams import provision

from .options import StackOptions
from .session import connected, shown

MANIFEST, OBJECTS, KEYS = "backup.json", "objects", "keys"
COPIED = (subjects.LOG_STREAM, subjects.GATEWAY_STREAM, subjects.DEAD_LETTER_STREAM, subjects.KEY_STREAM)
"""The keys last: whose first message is in the log has its key by then."""
MADE_ANEW = (subjects.WAKE_STREAM, subjects.SNAPSHOT_STREAM)

NOT_EMPTY = (
    "a backup is put back where nothing is, and never over a log; what to do then: infra/docs/backup.md, "
    '"It was provisioned all the same"'
)


class BackupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder with a backup says of itself."""

    made_at: str
    streams: tuple[StreamCopy, ...]
    objects: int
    """In the folder, those of earlier backups too."""
    new_objects: int

    @property
    def logs(self) -> list[StreamCopy]:
        """Return the copies of the log, one for each partition, in their order."""
        found = [one for one in self.streams if one.stream.startswith(subjects.LOG_STREAM)]
        return sorted(found, key=lambda one: (len(one.stream), one.stream))

    @property
    def layout(self) -> Layout:
        """Return the partition of each shard."""
        return told([one.config["subjects"] for one in self.logs])

    @property
    def ends(self) -> dict[str, int]:
        """Return the last sequence of the log, by stream."""
        return {one.stream: one.last_seq for one in self.logs}


def backup(stack: StackOptions, folder: Path, *, keys: Path | None, as_json: bool) -> int:
    """Copy everything; see `jettison backup --help`."""

    async def main(running: Runtime) -> int:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        objects = folder / OBJECTS
        # before the log: an anchor that is newer than the log would tell of a lost end
        new = await object_copies.anchors_copied(running.bucket, objects)
        streams = await streams_copied(running, folder, keys)
        # after the log: what a fact points to was stored before it
        new += await object_copies.artifacts_copied(running.bucket, objects)
        count = sum(1 for _ in object_copies.kept(objects))
        made_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        manifest = BackupManifest(made_at=made_at, streams=tuple(streams), objects=count, new_objects=new)
        _replaced(folder / MANIFEST, msgspec.json.encode(manifest))
        shown(
            manifest, f"{_manifest_text(manifest)}{folder} has all of it, but the tenants' key files\n", as_json=as_json
        )
        return 0

    return connected(main, stack, role="backup")


async def _parts(running: Runtime, streams: Sequence[str]) -> list[str]:
    """Return *streams*, each with its partitions, as the server has them."""
    there = [info.config.name or "" for info in await running.connection.jetstream(timeout=5).streams_info()]
    return [name for one in streams for name in sorted(there) if name == one or name.startswith(f"{one}_")]


async def streams_copied(running: Runtime, folder: Path, keys: Path | None) -> list[StreamCopy]:
    """Copy the streams to *folder*, that of keys to *keys*; until all are there, those of the backup before stay.

    Raises `LogUnavailable` while shards move (one would be in two copies, or in none) and while records leave the log.
    """
    before = await layout_of(running.connection)
    copies = []
    for stream in await _parts(running, COPIED):
        partial = _partial(_file(folder, keys, stream))
        partial.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        is_log = stream.startswith(subjects.LOG_STREAM)
        how = stream_copies.copied_whole if is_log else stream_copies.copied
        copies.append(await how(running.connection, stream, partial))
    after = await layout_of(running.connection)
    if after.moving or after != before:
        raise LogUnavailable(grows(after))
    for copy in copies:
        path = _file(folder, keys, copy.stream)
        _partial(path).replace(path)
        if copy.stream == subjects.KEY_STREAM:
            # a folder of another night may be put back with these keys
            _replaced(_about(path), msgspec.json.encode(copy))
    return copies


def _file(folder: Path, keys: Path | None, stream: str) -> Path:
    return (keys or folder / KEYS if stream == subjects.KEY_STREAM else folder) / f"{stream}.stream"


def restore(stack: StackOptions, folder: Path, *, keys: Path | None, objects: bool, as_json: bool) -> int:
    """Put back everything, or the objects alone; see `jettison restore --help`."""
    try:
        manifest = msgspec.json.decode((folder / MANIFEST).read_bytes(), type=BackupManifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise Rejected(f"{folder} holds no backup ({in_words(error)})") from None
    copies = [] if objects else checked(manifest, folder, keys)

    async def main(running: Runtime) -> int:
        await running.bucket.prepare()
        if not objects:
            await _put_back(running, manifest, copies, folder, keys)
        put = await object_copies.put_back(running.bucket, folder / OBJECTS)
        row: dict[str, Any] = {"objects": put, "streams": [] if objects else [one.stream for one in manifest.streams]}
        row["ends"] = manifest.ends
        text = f"objects: {manifest.objects:,} in the backup, {put:,} put back that the bucket lacked\n"
        if not objects:
            text = _logs_text(manifest) + text + "What was said behind these sequences is lost, and nothing else.\n"
            text += "Until when each conversation goes: jettison sweep --all, then jettison ls.\n"
        shown(row, text, as_json=as_json)
        return 0

    return connected(main, stack, role="restore")


def checked(manifest: BackupManifest, folder: Path, keys: Path | None) -> list[StreamCopy]:
    """Return the copies of the streams as they lie there, before anything is changed: of keys it may be a newer one.

    Raises `Rejected` where one is not there, `Damaged` where it is not what was written.
    """
    copies = []
    for copy in manifest.streams:
        is_keys = copy.stream == subjects.KEY_STREAM
        if not (file := _file(folder, keys, copy.stream)).is_file():
            lie = "; the wrapped keys lie elsewhere: say --keys, as the backup did"
            raise Rejected(f"{file} is not there{lie if is_keys else ''}")
        newer = _newer_keys(copy, file) if is_keys and not stream_copies.is_copy(copy, file) else None
        stream_copies.check(newer or copy, file)
        copies.append(newer or copy)
    return copies


def _newer_keys(copy: StreamCopy, file: Path) -> StreamCopy | None:
    """Return the copy that a later backup made of the keys in *file*; None where no later one did."""
    try:
        found = msgspec.json.decode(_about(file).read_bytes(), type=StreamCopy)
    except (OSError, msgspec.MsgspecError):
        return None
    return found if found.stream == copy.stream and found.state["last_seq"] >= copy.state["last_seq"] else None


def _about(path: Path) -> Path:
    return path.with_suffix(".json")


async def _put_back(
    running: Runtime, manifest: BackupManifest, copies: Sequence[StreamCopy], folder: Path, keys: Path | None
) -> None:
    """Make the streams again. Raises `Rejected` where one has anything in it, or no shards are computed for several."""
    jetstream = running.connection.jetstream(timeout=5)
    if manifest.layout != ONE:
        await check_computes_shards(running.connection)
    await provision(running.connection)
    # of another layout, even of one as large, they listen to what is another partition's
    fitting = await layout_of(running.connection) == manifest.layout
    for name in await _parts(running, COPIED):
        if (await jetstream.stream_info(name)).state.messages:
            raise Rejected(f"{name} is not empty: {NOT_EMPTY}")
    async with running.erasure.paused() if fitting else nullcontext():
        for name in await _parts(running, COPIED if fitting else (*COPIED, *MADE_ANEW)):
            await jetstream.delete_stream(name)
        for copy in copies:
            await stream_copies.put_back(running.connection, copy, _file(folder, keys, copy.stream))
        await provision(running.connection)


def _manifest_text(manifest: BackupManifest) -> str:
    return f"{_logs_text(manifest)}objects: {manifest.objects:,}, {manifest.new_objects:,} of them new\n"


def _logs_text(manifest: BackupManifest) -> str:
    text = ""
    for log in manifest.logs:
        last = f"the last one {log.last_seq} of {log.state['last_ts']}" if log.state["messages"] else "none"
        text += f"{log.stream}: {log.state['messages']:,} messages, {last}\n"
    return text


def _replaced(path: Path, body: bytes) -> None:
    _partial(path).write_bytes(body)
    _partial(path).replace(path)


def _partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")
