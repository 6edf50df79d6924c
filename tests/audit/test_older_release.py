"""What rests on the record is decided again by the release that wrote it, in its own environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from actors.audit.older_release import Release, decided_by, release_in
from actors.audit.replay import replay
from protocol import codec
from protocol.errors import Rejected
from storage.ports import Record
from tests.audit.faults import resealed
from tests.audit.test_older_rules import OLD, TALK, by_rules, digested, newer, softened
from tests.audit.test_replays import bundled
from tests.builders import Talk

__all__ = ["newer"]

ROOT = Path(__file__).parents[2]

CHANGED = """

_before = digest


def digest(state, *, count):
    return tuple(
        msgspec.structs.replace(one, before_tokens=one.before_tokens + 1) if isinstance(one, HistoryDigested) else one
        for one in _before(state, count=count)
    )


import msgspec
"""
"""What the rules of the newer release do otherwise."""


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the environment of an older release: today's, as it is."""
    folder = tmp_path_factory.mktemp("older") / "env"
    venv.create(folder, with_pip=False, symlinks=True)
    packages = sysconfig.get_path("purelib", vars={"base": str(folder)})
    (Path(packages) / "release.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    return folder


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a newer release: today's, with a rule changed and its version raised."""
    tree = tmp_path_factory.mktemp("newer")
    for name in ("actors", "protocol", "storage"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    file = tree / "actors" / "digest" / "decide.py"
    file.write_text(file.read_text() + CHANGED)
    versions = tree / "protocol" / "codec.py"
    text = versions.read_text()
    assert text.count("\nRULES_VERSION = RULES_VERSIONS[-1]") == 1
    text = text.replace("\nRULES_VERSION = RULES_VERSIONS[-1]", '\nRULES_VERSIONS += ("9",)\nRULES_VERSION = "9"')
    versions.write_text(text + '\nRULES_WRITTEN = ("9",)\n')
    return tree


def ran(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `jettison replay` of the release in *tree*."""
    command = [sys.executable, "-c", "from actors.cli import main; main()", "replay", *arguments]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=300, check=False)


def test_a_newer_release_takes_an_older_log_as_it_is_and_its_own_release_decides_it(
    later: Path, older: Path, tmp_path: Path
) -> None:
    file = str(bundled(TALK, tmp_path / "log.tar"))
    plain = ran(later, file, "--verify")
    assert plain.returncode == 0, plain.stdout + plain.stderr
    assert f"steps of older rules ({OLD}) rest on the record" in plain.stdout
    assert plain.stdout.endswith("\nnothing was decided again: what was folded came out the same\n")
    strict = ran(later, file, "--strict")
    assert strict.returncode == 3
    assert "verified" not in strict.stdout
    decided = ran(later, file, "--strict", "--with", str(older))
    assert decided.returncode == 0, decided.stdout + decided.stderr
    assert "steps of older rules decided again by their own release" in decided.stdout
    assert decided.stdout.endswith("\nreplay verified: all of these came out the same\n")
    assert "rest on the record (" not in decided.stdout


def test_what_its_own_release_decides_otherwise_is_a_difference(later: Path, older: Path, tmp_path: Path) -> None:
    forged = Talk(at=TALK.at)
    forged.records = resealed(TALK.records, digested(TALK.records), softened)
    file = str(bundled(forged, tmp_path / "forged.tar"))
    assert ran(later, file, "--verify").returncode == 0
    found = ran(later, file, "--verify", "--with", str(older))
    assert found.returncode == 3
    assert "HistoryDigested before_tokens" in found.stdout
    assert f"by the release with rules {OLD}" in found.stdout


def checked(release: Release, records: list[Record]) -> tuple[int, dict[str, int], bool]:
    """Return the steps that *release* decided, those that still rest, and whether all came out the same."""
    found = decided_by(release, TALK.at, records, replay(TALK.at, records))
    return found.decided_elsewhere, found.rests, found.divergence is None


@pytest.mark.usefixtures("newer")
def test_an_older_release_is_given_the_log_up_to_where_newer_rules_begin(older: Path) -> None:
    release = release_in(older)
    assert release.rules == OLD
    half = TALK.state.version // 2
    rested = replay(TALK.at, by_rules("9", first=half)).rests[OLD]
    assert checked(release, by_rules("9", first=half)) == (rested, {}, True)


@pytest.mark.usefixtures("newer")
def test_older_steps_behind_newer_ones_still_rest(older: Path) -> None:
    half = TALK.state.version // 2
    records = by_rules("9", first=half, last=half)
    decided, rests, same = checked(release_in(older), records)
    assert same
    assert decided > 0
    assert rests[OLD] > 0
    assert decided + rests[OLD] == replay(TALK.at, records).rests[OLD]


@pytest.mark.usefixtures("newer")
def test_a_log_without_older_steps_needs_no_older_release(older: Path) -> None:
    decided, rests, same = checked(release_in(older), by_rules("9"))
    assert (decided, rests, same) == (0, {}, True)


def test_what_holds_no_older_release_is_refused(older: Path, tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="is no virtual environment"):
        release_in(tmp_path)
    with pytest.raises(Rejected, match=f"decides by rules {codec.RULES_VERSION}; older ones are"):
        release_in(older)
    venv.create(tmp_path / "empty", with_pip=False, symlinks=True)
    with pytest.raises(Rejected, match="holds no release of Jettison: ModuleNotFoundError"):
        release_in(tmp_path / "empty")
