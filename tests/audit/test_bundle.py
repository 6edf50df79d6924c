"""Bundles: one file that proves itself, read on any machine, and refused when it is not what was written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import msgspec
import pytest

from actors.audit import bundle as bundles
from actors.audit.anchoring import Anchoring, book_of
from actors.audit.bundle import BLOCK, Bundle, judged, packed, sound, unpacked
from actors.audit.importing import imported
from actors.audit.replay import replay
from actors.audit.verify import Evidence, mentioned, verify
from actors.runtime.kept_states import STATE_SCHEMA, Snapshot
from protocol.errors import Damaged, JettisonError, Rejected
from protocol.ids import fresh_id
from storage.memory import MemoryAnchors, MemoryArtifacts, MemoryLog
from tests.audit.faults import AT, flipped, recorded

ROOT = Path(__file__).parents[2]
FAULTS = int(os.environ.get("TESTS_FAULTS", "300")) // 3
"""A third of those that `test_verify.py` tries: each reads the whole file."""

SEED = int(os.environ.get("TESTS_SEED", "20261121"))


@cache
def whole() -> Bundle:
    return recorded().bundle()


@cache
def data() -> bytes:
    return packed(whole())


def members(body: bytes) -> list[tuple[str, bytes]]:
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        return [(one.name, archive.extractfile(one).read()) for one in archive]  # type: ignore[union-attr]


def tarred(parts: list[tuple[str, bytes]], kind: bytes = tarfile.REGTYPE) -> bytes:
    """Return a tar as ours, with any members."""
    out = b""
    for name, body in parts:
        info = tarfile.TarInfo(name)
        info.size, info.type = len(body), kind if name == parts[-1][0] else tarfile.REGTYPE
        out += info.tobuf(tarfile.USTAR_FORMAT) + body + bytes(-len(body) % BLOCK)
    return out + bytes(2 * BLOCK)


def test_a_bundle_comes_back_as_it_was_and_has_the_same_bytes_every_time() -> None:
    assert unpacked(data()) == whole()
    again = msgspec.structs.replace(
        whole(), artifacts=dict(sorted(whole().artifacts.items(), reverse=True)), missing={}
    )
    assert packed(again) == data()
    assert packed(unpacked(data())) == data()


def test_any_tar_reads_a_bundle() -> None:
    names = [name for name, _ in members(data())]
    assert names[0] == "manifest.json"
    assert names[1:] == sorted(names[1:])
    assert {name.partition("/")[0] for name in names} == {"manifest.json", "log.msgpack", "artifacts", "anchors"}


def test_a_bundle_is_verified_and_replayed_from_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "one.tar"
    file.write_bytes(data())
    bundle = sound(bundles.read(file))
    verdict = judged(bundle)
    assert (verdict.ok, verdict.version, verdict.anchors) == (True, recorded().state.version, len(recorded().anchors))
    assert verdict == verify(recorded().evidence())
    found = replay(bundle.at, bundle.records)
    assert (found.divergence, found.hash) == (None, recorded().state.hash.hex())


def test_a_snapshot_in_a_bundle_has_to_be_what_its_log_folds_to() -> None:
    def snapshot(tokens: int) -> bytes:
        state = recorded().state
        state = msgspec.structs.replace(state, shown=msgspec.structs.replace(state.shown, live_tokens=tokens))
        return msgspec.msgpack.encode(Snapshot(schema=STATE_SCHEMA, state=msgspec.msgpack.encode(state)))

    kept = unpacked(packed(msgspec.structs.replace(whole(), snapshot=snapshot(recorded().state.live_tokens))))
    assert judged(kept).ok
    other = unpacked(packed(msgspec.structs.replace(whole(), snapshot=snapshot(1))))
    assert [problem.what for problem in judged(other).problems] == ["snapshot"]


def test_what_was_missing_at_export_is_missing_for_ever() -> None:
    sha256 = sorted(whole().artifacts)[0]
    left = {key: body for key, body in whole().artifacts.items() if key != sha256}
    bundle = unpacked(packed(msgspec.structs.replace(whole(), artifacts=left, missing={sha256: "damaged"})))
    verdict = judged(bundle)
    assert [(one.what, one.where) for one in verdict.problems] == [("artifact", f"artifact {sha256}")]
    # leaving one out without a word is no way out
    with pytest.raises(Damaged):
        unpacked(packed(msgspec.structs.replace(whole(), artifacts=left)))


def places(body: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield where each member's own bytes are."""
    at = 0
    for name, content in members(body):
        yield at + BLOCK, at + BLOCK + len(content), name
        at += BLOCK + len(content) + -len(content) % BLOCK


def test_every_bit_that_is_turned_in_a_file_is_found_and_placed() -> None:
    random = Random(SEED)
    spans = list(places(data()))
    for number in range(FAULTS):
        changed = flipped(data(), random)
        offset = next(at for at, (one, two) in enumerate(zip(changed, data(), strict=True)) if one != two)
        inside = next((name for first, end, name in spans if first <= offset < end), "")
        try:
            found = judged(unpacked(changed))
        except (Damaged, Rejected) as error:
            where = str(error.fields.get("where"))
            assert where == inside or where.startswith("byte "), (number, offset, inside, where)
            if where.startswith("byte "):
                start = int(where.removeprefix("byte "))
                assert start <= offset, (number, offset, where)
                assert inside == "" or inside == "manifest.json", (number, offset, inside, where)
            continue
        if inside == "manifest.json":
            # it says of an untouched member what is not so
            assert not found.ok
            continue
        assert inside in {problem.where for problem in found.problems}, (number, offset, inside, found.problems)


def test_every_cut_copied_or_moved_piece_of_a_file_is_found() -> None:
    random = Random(SEED)
    body = data()
    for number in range(FAULTS):
        first, second, third = sorted(random.sample(range(len(body) + 1), 3))
        changed = random.choice((
            body[:first],
            body[:first] + body[second:],
            body[:second] + body[first:],
            body[:first] + body[second:third] + body[first:second] + body[third:],
            body + body[first:second],
            body[:first] + random.randbytes(random.choice((1, BLOCK))) + body[first:],
        ))  # fmt: skip
        if changed == body:
            continue
        try:
            found = judged(unpacked(changed))
        except (Damaged, Rejected):
            continue
        assert not found.ok, (number, first, second, third)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../../etc/passwd", "a member that no bundle has"),
        ("/etc/passwd", "a member that no bundle has"),
        ("artifacts/../../x", "a member that no bundle has"),
        ("artifacts/" + "A" * 64, "a member that no bundle has"),
        ("notes.txt", "a member that no bundle has"),
        ("log.msgpack", "not those that the manifest lists"),
        ("artifacts/" + "0" * 64, "not those that the manifest lists"),
    ],
)
def test_a_member_that_does_not_belong_is_refused(name: str, says: str) -> None:
    with pytest.raises(Damaged, match=says):
        unpacked(tarred([*members(data()), (name, b"x")]))


def test_links_sparse_files_and_sizes_that_lie_are_refused() -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE, tarfile.XHDTYPE):
        with pytest.raises(Damaged):
            unpacked(tarred(members(data()), kind))
    huge = tarfile.TarInfo("manifest.json")
    huge.size = 8**11 - 1
    with pytest.raises(Rejected, match="cut off"):
        unpacked(huge.tobuf(tarfile.USTAR_FORMAT) + b"{}")
    negative = bytearray(data()[:BLOCK])
    negative[124:136] = b"\xff" * 12
    for header in (bytes(negative), bytes(negative).replace(b"ustar", b"USTAR")):
        with pytest.raises(Rejected):
            unpacked(header + bytes(BLOCK))


@pytest.mark.parametrize("body", [b"", b"x", b"PK\x03\x04" + bytes(600), bytes(1024), b"\x1f\x8b" + bytes(900)])
def test_what_is_no_bundle_is_refused(body: bytes) -> None:
    with pytest.raises(JettisonError):
        unpacked(body)


def test_a_manifest_that_says_otherwise_is_refused() -> None:
    named = dict(members(data()))
    manifest = msgspec.json.decode(named["manifest.json"])
    for change in (
        {"version": 1},
        {"records": 1},
        {"seq": 1},
        {"head": "00"},
        {"address": "tests/other"},
        {"address": "tests/../other"},
        {"bundle": 2},
        {"more": 1},
        {"missing": {"0" * 64: "damaged"}},
        {"missing": {"0" * 64: "eaten"}},
    ):
        body = msgspec.json.format(msgspec.json.encode({**manifest, **change}), indent=1) + b"\n"
        with pytest.raises(Damaged):
            unpacked(tarred([("manifest.json", body), *members(data())[1:]]))


def test_a_file_above_the_bound_is_refused_unread(tmp_path: Path) -> None:
    file = tmp_path / "sparse.tar"
    with file.open("wb") as out:
        out.truncate(bundles.BYTES_MAX + 1)
    with pytest.raises(Rejected, match="1024 MiB"):
        bundles.read(file)


def test_a_consistent_forgery_of_a_whole_file_breaks_on_its_anchors() -> None:
    shorter = replace(recorded(), records=recorded().records[:-20])
    forged = msgspec.structs.replace(shorter.bundle(), artifacts={})
    kept = {key: whole().artifacts[key] for key in mentioned(AT, forged.records)}
    verdict = judged(unpacked(packed(msgspec.structs.replace(forged, artifacts=kept))))
    assert [problem.what for problem in verdict.problems] == ["truncated"]


# Import ---------------------------------------------------------------------------------------


async def crowded() -> MemoryLog:
    """Return a log in which others have spoken, so that sequences are other ones."""
    log = MemoryLog()
    for _ in range(1000):
        await log.say(msgspec.structs.replace(AT, conversation="other"), b"x", message_id=fresh_id(), headers={})
    return log


async def test_an_import_verifies_and_replays_under_other_sequences() -> None:
    log, artifacts = await crowded(), MemoryArtifacts()
    done = await imported(whole(), log=log, artifacts=artifacts)
    assert (done.records, done.present, done.artifacts) == (len(whole().records), 0, len(whole().artifacts))
    records = await log.read(AT, after=0)
    verdict = verify(Evidence(at=AT, records=records))
    assert (verdict.ok, verdict.head) == (True, recorded().state.hash.hex())
    assert records[0].seq != whole().records[0].seq
    assert replay(AT, records) == replay(AT, whole().records)
    for sha256, body in whole().artifacts.items():
        assert await artifacts.get(AT.tenant, sha256) == body


async def test_anchors_from_before_a_loss_vouch_for_what_was_imported_again() -> None:
    log, anchors = await crowded(), MemoryAnchors()
    for number, body in recorded().anchors.items():
        await anchors.put(AT.tenant, number, body)
    await imported(whole(), log=log, artifacts=MemoryArtifacts())
    records = await log.read(AT, after=0)
    marks = recorded().book.marks(AT.conversation)
    verdict = verify(Evidence(at=AT, records=records, marks=marks))
    assert (verdict.ok, verdict.unanchored_messages, verdict.unanchored_commits) == (True, 0, 0)
    missing = verify(Evidence(at=AT, records=[*records[:40], *records[41:]], marks=marks))
    assert missing.first is not None
    assert missing.first.first_seq <= records[40].seq <= missing.first.last_seq
    assert not verify(Evidence(at=AT, records=records[:-1], marks=marks)).ok

    (done,) = [one for one in await Anchoring(log=log, anchors=anchors).all_tenants() if one.tenant == AT.tenant]
    assert (done.refused, done.number) == ({}, len(recorded().anchors) + 1)
    after = (await book_of(AT.tenant, anchors)).marks(AT.conversation)
    assert after[-1].head.seq == records[-1].seq
    assert verify(Evidence(at=AT, records=records, marks=after)).ok


async def test_an_import_of_an_import_still_verifies() -> None:
    log = await crowded()
    await imported(whole(), log=log, artifacts=MemoryArtifacts())
    second = Bundle(at=AT, records=tuple(await log.read(AT, after=0)), artifacts=whole().artifacts)
    third = MemoryLog()
    await imported(unpacked(packed(second)), log=third, artifacts=MemoryArtifacts())
    assert verify(Evidence(at=AT, records=await third.read(AT, after=0))).ok


async def test_an_import_is_completed_but_never_mixed() -> None:
    log, artifacts = await crowded(), MemoryArtifacts()
    part = msgspec.structs.replace(whole(), records=whole().records[:33])
    await imported(part, log=log, artifacts=artifacts)
    done = await imported(whole(), log=log, artifacts=artifacts)
    assert (done.records, done.present) == (len(whole().records) - 33, 33)
    assert (await imported(whole(), log=log, artifacts=artifacts)).records == 0
    await log.say(AT, b"it goes on here", message_id=fresh_id(), headers={})
    assert (await imported(whole(), log=log, artifacts=artifacts)).records == 0

    other = await crowded()
    await other.say(AT, b"another history", message_id=fresh_id(), headers={})
    with pytest.raises(Rejected, match="another history"):
        await imported(whole(), log=other, artifacts=artifacts)


async def test_a_damaged_bundle_is_not_imported() -> None:
    changed = bytearray(data())
    changed[data().index(b"OPS-4312")] ^= 1
    log = MemoryLog()
    with pytest.raises(Damaged):
        await imported(unpacked(bytes(changed)), log=log, artifacts=MemoryArtifacts())
    assert await log.addresses() == []


# Another machine ------------------------------------------------------------------------------

SETTINGS = [
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Chatham"},
    {"PYTHONHASHSEED": "4294967295", "LC_ALL": "C.UTF-8", "TZ": "America/St_Johns", "PYTHONUTF8": "0"},
]


BOTH = """
import sys
from actors.cli import main
file = sys.argv[1]
for arguments in (["replay", file, "--verify"], ["verify", file, "--json"]):
    sys.argv = ["jettison", *arguments]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
"""


def test_replay_and_verdict_are_the_same_bytes_on_every_machine(tmp_path: Path) -> None:
    file = tmp_path / "sample.tar"
    file.write_bytes(data())
    outputs = set()
    for setting in SETTINGS:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **setting}
        done = subprocess.run(
            [sys.executable, "-c", BOTH, str(file)],
            cwd=ROOT, env=environment, capture_output=True, timeout=180, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b""), done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
