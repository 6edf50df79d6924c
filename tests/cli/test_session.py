"""Which servers a command means, and which files it writes to."""

from __future__ import annotations

import dataclasses
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from actors.cli.options import StackOptions
from actors.cli.session import ENDPOINTS_FILE, RunningStack, located, settings_of, writable
from actors.host.embedded import Endpoints
from protocol.errors import Rejected

SET = "nats://127.0.0.1:4999"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder on which a stack runs, while another server is set for all commands."""
    monkeypatch.setenv("JETTISON_NATS__URL", SET)
    monkeypatch.chdir(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"nats://127.0.0.1:{listening.getsockname()[1]}"
        there = Endpoints(nats_url=url, s3_endpoint="s3", s3_access_key="a", s3_secret_key="b")
        running = RunningStack(pid=os.getpid(), owner="up", endpoints=there)
        (tmp_path / ENDPOINTS_FILE).write_bytes(msgspec.json.encode(running))
        yield tmp_path


def test_who_names_a_folder_means_the_stack_that_runs_on_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = located(settings_of(StackOptions(data=folder)))
    assert (found.nats.url != SET, found.s3.endpoint) == (True, "s3")
    assert f"and not the NATS that is set, {SET}" in capsys.readouterr().err


def test_a_stack_that_was_killed_is_none_though_its_number_is_taken(folder: Path) -> None:
    found = msgspec.json.decode((folder / ENDPOINTS_FILE).read_bytes(), type=RunningStack)
    nobody = dataclasses.replace(found.endpoints, nats_url="nats://127.0.0.1:1")
    (folder / ENDPOINTS_FILE).write_bytes(msgspec.json.encode(msgspec.structs.replace(found, endpoints=nobody)))
    assert settings_of(StackOptions(data=folder)).nats.url == SET


def test_without_a_folder_and_where_nothing_runs_the_server_that_is_set_is_used(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert settings_of(StackOptions()).nats.url == SET
    assert capsys.readouterr().err == ""
    assert settings_of(StackOptions(data=folder / "none")).nats.url == SET
    assert "no stack runs on" in capsys.readouterr().err
    assert settings_of(StackOptions(data=folder, nats="nats://127.0.0.1:4222")).nats.url == "nats://127.0.0.1:4222"


def test_only_files_are_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for out in (tmp_path / "pipe", Path("/dev/null"), tmp_path, Path("-")):
        with pytest.raises(Rejected, match="is no file, and is not replaced"):
            writable(out)
    assert writable(tmp_path / "link") == (tmp_path / "file").resolve()
    assert writable(tmp_path / "new") == tmp_path / "new"


def test_whoever_closed_stdout_gets_no_trace_of_a_program() -> None:
    program = "from actors.cli import main; main()"
    command = ["bash", "-c", 'exec "$@" >&-', "jettison", sys.executable, "-c", program, "policy", "schema"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (0, "")
