"""Many conversations are replayed by many processes: the same outcomes, told as they come, and ended at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from actors.audit.bundle import Bundle, Lack, packed
from actors.audit.replay import Replayed, replay
from actors.audit.verify import mentioned
from actors.cli.replay import replay_text
from actors.cli.replay_pool import Failed, How, ReplaySource, replays
from actors.host.settings import Settings
from protocol.ids import address
from tests.audit.recorded import recorded, serve, small
from tests.builders import Talk, assistant, user, words
from tests.cli.test_cli import jettison

ROOT = Path(__file__).parents[2]


def talked(name: str, *, forged: bool = False) -> Talk:
    """Return a short conversation with a compaction and two views, one for its own budget, one perhaps forged."""
    talk = Talk(small(), at=address(name, "tests"))
    for turn in range(4):
        talk.play(user(f"{name} ORD-{turn}4711 {words(150)}"), assistant(f"Yes, {turn}. {words(80)}"))
    serve(talk, talk.state.usable_tokens)
    serve(talk, view_hash="0" * 64 if forged else "")
    return talk


def bundled(talk: Talk, file: Path) -> Path:
    """Write *talk* as a bundle without its artifacts."""
    missing: dict[str, Lack] = dict.fromkeys(mentioned(talk.at, talk.records), "not there")
    file.write_bytes(packed(Bundle(at=talk.at, records=tuple(talk.records), missing=missing)))
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with five sound bundles, and two files that are none."""
    for number in range(5):
        bundled(talked(f"talk-{number}"), tmp_path / f"talk-{number}.tar")
    (tmp_path / "torn.tar").write_bytes((tmp_path / "talk-0.tar").read_bytes()[:-600])
    (tmp_path / "notes.txt").write_text("no bundle")
    return tmp_path


@pytest.mark.parametrize(
    ("again", "elsewhere", "rests", "strict", "told"),
    [
        (5, 0, {}, True, "replay verified: all of these came out the same"),
        (0, 5, {}, True, "replay verified: all of these came out the same"),
        (3, 0, {"1": 2}, False, "replay verified: what was decided again came out the same"),
        (3, 0, {"1": 2}, True, "not verified as a whole: what was decided again came out the same"),
        (0, 0, {"1": 5}, False, "nothing was decided again: what was folded came out the same"),
        (0, 0, {"1": 5}, True, "nothing was decided again: what was folded came out the same"),
        (0, 0, {}, False, "nothing was decided again: what was folded came out the same"),
    ],
)
def test_only_what_was_decided_again_is_said_to_be_verified(
    again: int, elsewhere: int, rests: dict[str, int], strict: bool, told: str
) -> None:
    found = Replayed(address="default/c", decided_again=again, decided_elsewhere=elsewhere, rests=rests)
    assert replay_text(found, strict=strict).splitlines()[-1] == told


@pytest.mark.parametrize("jobs", [1, 3])
def test_as_many_outcomes_come_as_there_are_sources_and_one_that_is_damaged_stops_no_other(
    folder: Path, jobs: int
) -> None:
    sources: list[ReplaySource] = sorted(folder.glob("*.tar"))
    outcomes = list(replays(sources, How(settings=Settings()), jobs=jobs))
    found = {one.address: one for one in outcomes if isinstance(one, Replayed)}
    talks = [talked(f"talk-{number}") for number in range(5)]
    assert found == {str(talk.at): replay(talk.at, talk.records) for talk in talks}
    (failed,) = [one for one in outcomes if isinstance(one, Failed)]
    assert (Path(failed.source).name, failed.unavailable) == ("torn.tar", False)
    assert "damaged" in failed.error


def test_a_folder_of_bundles_is_replayed_line_by_line_and_a_difference_is_exit_3(folder: Path) -> None:
    (folder / "torn.tar").unlink()
    fine = jettison("replay", str(folder), "--verify", "--json", "--jobs", "2")
    assert fine.returncode == 0, fine.stderr
    rows = [json.loads(line) for line in fine.stdout.splitlines()]
    assert sorted(row["address"] for row in rows) == [f"tests/talk-{number}" for number in range(5)]
    assert "5 conversations" in fine.stderr
    assert "all the same" in fine.stderr

    bundled(talked("forged", forged=True), folder / "forged.tar")
    different = jettison("replay", str(folder), "--verify", "--jobs", "2")
    assert different.returncode == 3
    (line,) = [line for line in different.stdout.splitlines() if "DIFFERENT" in line]
    assert line.startswith("tests/forged: ")
    assert "ContextServed view_hash" in line
    assert jettison("replay", str(folder), "--jobs", "2").returncode == 0


def test_a_file_that_cannot_be_read_is_named_and_a_difference_says_more_than_it(folder: Path) -> None:
    torn = jettison("replay", str(folder), "--verify", "--jobs", "2")
    assert torn.returncode == 1
    assert "1 NOT read" in torn.stderr
    assert len(torn.stdout.splitlines()) == 5
    forged = bundled(talked("forged", forged=True), folder / "forged.tar")
    assert jettison("replay", str(forged), str(folder / "torn.tar"), "--verify").returncode == 3


@pytest.mark.parametrize(("what", "code"), [((), 2), (("--all", "talk"), 2), (("nowhere/at/all.tar",), 4)])
def test_what_names_nothing_is_refused_with_a_sentence(what: tuple[str, ...], code: int, tmp_path: Path) -> None:
    done = jettison("replay", *what, "--data", str(tmp_path))
    assert done.returncode == code
    assert ("jettison: " if code == 4 else "say what to replay: conversations, bundles") in done.stderr


def test_an_empty_folder_is_no_success(tmp_path: Path) -> None:
    done = jettison("replay", str(tmp_path), "--verify")
    assert done.returncode == 1
    assert "no bundle" in done.stderr


FEW = 60
"""Replays, whose lines together fill no buffer: a first line that comes before the end was not kept back."""


@contextmanager
def at_work(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Replay a folder again and again; yield the process once its own processes work, and have told of one replay."""
    command = [
        sys.executable,
        "-c",
        "from actors.cli import main; main()",
        "replay",
        *[str(folder)] * FEW,
        "--jobs",
        "2",
    ]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        start_new_session=True,
        # a shell that runs the tests in the background has them ignore Ctrl-C, which is inherited
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline(), "nothing was replayed"
        yield process
    finally:
        process.kill()
        process.communicate()


def children(process: subprocess.Popen[str]) -> list[Path]:
    """Return where the system shows the processes that *process* began."""
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [Path(f"/proc/{pid}/cmdline") for pid in listed]


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_whoever_ends_it_ends_its_processes_too(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    bundled(recorded(), tmp_path / "long.tar")
    with at_work(tmp_path) as process:
        began = children(process)
        assert began, "it works alone"
        os.kill(process.pid, sent)
        assert process.wait(timeout=180) == code
        ends = time.monotonic() + 180
        while any(path.exists() and path.read_bytes() for path in began):
            assert time.monotonic() < ends, "a process outlived the one that began it"
            time.sleep(0.05)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
