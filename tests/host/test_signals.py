"""Signals: the first one lets a program finish, the second one ends it at once, and neither shows a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stack import ROOT


@contextmanager
def up(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run `jettison up` until its end, or the test's."""
    command = [sys.executable, "-c", "from actors.cli import main; main()", "up", "--data", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("ready"):
                break
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def servers(process: subprocess.Popen[str]) -> dict[str, int]:
    """Return the pids of the servers that *process* runs, by the names of their programs."""
    pids = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return {
        Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode().rpartition("/")[2]: int(pid) for pid in pids
    }


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_ends_a_program_that_cannot_finish(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    with up(tmp_path) as process:
        assert process.stderr is not None
        began = servers(process)
        os.kill(began["nats-server"], signal.SIGSTOP)  # whoever gives something back to it waits
        process.send_signal(sent)
        assert process.stderr.readline() == "jettison: stopping; once more stops at once\n"
        process.send_signal(sent)
        assert process.wait(timeout=180) == code
        told = process.stderr.read()
        assert "jettison: stopped at once; who takes over waits for what was under way here\n" in told
        assert "Traceback" not in told
        ends = time.monotonic() + 180
        while any(is_alive(pid) for pid in began.values()):
            assert time.monotonic() < ends, "a server outlived the program that began it"
            time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at the processes in /proc")
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_one_signal_lets_it_finish(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    with up(tmp_path) as process:
        assert process.stderr is not None
        process.send_signal(sent)
        assert process.wait(timeout=180) == code
        told = process.stderr.read()
        assert told.splitlines() == ["jettison: stopping; once more stops at once", "stopping …"]


LATE = """
import os, signal
from asyncio.selector_events import BaseSelectorEventLoop
from actors.cli.session import run
from actors.host.settings import Settings

close = BaseSelectorEventLoop.close

def closed(loop):
    close(loop)
    os.kill(os.getpid(), signal.SIGTERM)

async def main():
    return 0

BaseSelectorEventLoop.close = closed
raise SystemExit(run(main(), service="late", settings=Settings(), trace=False))
"""


def test_a_signal_that_comes_when_the_work_is_done_shows_no_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", LATE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.stderr == ""
    assert ended.returncode == 128 + signal.SIGTERM
