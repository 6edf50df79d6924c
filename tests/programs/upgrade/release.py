"""Releases: the wheel of an earlier commit of this repository, in an environment of its own."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from tests.stack import ROOT

LAST_RELEASE = "d778314e73cee74fa3a0a079577363234b17d63e"
"""The commit that stands for the last release, as none is published yet: the tag of one takes its place."""

MAIN = "from actors.cli import main; main()"


class NoHistory(Exception):
    """This clone does not have the commit."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release that can be run: its Python, and where this Python finds it."""

    name: str
    python: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        """Return the command `jettison` of this release with *arguments*."""
        return [str(self.python), "-c", MAIN, *arguments]


def todays() -> Release:
    """Return what is in this working tree."""
    return Release(name="new", python=Path(sys.executable), environment={"PYTHONPATH": str(ROOT)})


def built(commit: str, folder: Path) -> Release:
    """Build the wheel of *commit* and install it below *folder*, with the packages that are installed here.

    Raises `NoHistory` where the repository does not have it.
    """
    tree, wheels = folder / "tree", folder / "wheels"
    with tarfile.open(fileobj=BytesIO(_archive(commit))) as archive:
        # early releases of Python 3.11 know no filters
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tree)
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(wheels)]
    subprocess.run(command, cwd=tree, check=True, capture_output=True)
    shutil.rmtree(tree)
    (wheel,) = wheels.glob("jettison-*.whl")
    return installed(wheel, folder / "environment")


def installed(wheel: Path, folder: Path) -> Release:
    """Return the release of *wheel* in an environment of its own; what it needs is what is installed here."""
    venv.create(folder, with_pip=False, symlinks=True)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
    with ZipFile(wheel) as files:
        files.extractall(packages)
    # behind its own packages; a path that is added so brings no editable install of ours along
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    return Release(name="old", python=folder / "bin" / "python")


def rules_of(release: Release) -> str:
    """Return the newest version of the rules that *release* reads."""
    command = [str(release.python), "-c", "from protocol import codec; print(codec.RULES_VERSION)"]
    # not in this folder, whose own packages would be found first
    there = release.python.parent
    return subprocess.run(command, cwd=there, check=True, capture_output=True, text=True).stdout.strip()


def _archive(commit: str) -> bytes:
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(["git", "archive", commit], cwd=ROOT, env=environment, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoHistory(
            f"there is no commit {commit} here, from which the last release is built: this is no clone of the "
            "repository, or one without history (git fetch --unshallow); --wheel FILE takes a wheel instead"
        ) from error
    return done.stdout


def run_beside(
    parser: argparse.ArgumentParser, ran: Callable[[argparse.Namespace, Path], Coroutine[None, None, int]]
) -> int:
    """Read the command line of a program that needs the last release too, and run it; return the exit code."""
    parser.add_argument("--release", default=LAST_RELEASE, help="the commit or tag of the last release")
    parser.add_argument("--wheel", type=Path, help="the last release's wheel, where there is one")
    parser.add_argument("--data", type=Path, help="keep the servers' data and the logs here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="jettison-releases-") as folder:
        try:
            return asyncio.run(ran(options, options.data or Path(folder)))
        except NoHistory as error:
            print(error, file=sys.stderr)
            return 2
