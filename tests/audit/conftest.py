"""A stack as a user starts it, for the tests of commands that change a conversation."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.test_cli import ROOT


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run `jettison up` on a folder; yield the folder."""
    folder = tmp_path_factory.mktemp("undone")
    command = [sys.executable, "-c", "from actors.cli import main; main()", "up", "--data", str(folder)]
    up = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert up.stderr is not None
    try:
        for line in up.stderr:
            if line.startswith("ready"):
                break
        yield folder
    finally:
        up.send_signal(signal.SIGTERM)
        assert up.wait(timeout=30) == 0
        up.stderr.close()
