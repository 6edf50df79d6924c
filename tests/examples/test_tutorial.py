"""The tutorial runs as it stands: its files are written, its commands run, and they print what the page says."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.stack import LOOPBACK, ROOT, free_port, jettison_command

PAGE = ROOT / "infra" / "docs" / "tutorial.md"
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]*)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
SECONDS = 120


def as_printed(line: str) -> re.Pattern[str]:
    """Return what a line of the page means; `…` is anything."""
    return re.compile("^" + ".*".join(map(re.escape, line.split("…"))), re.MULTILINE)


@contextmanager
def left_running(command: str, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run what the page leaves in a terminal, from where it is ready to the end."""
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        assert any(line.startswith("ready") for line in process.stderr)
        yield
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=180) in (0, 130)
        process.stderr.close()


@pytest.mark.slow
def test_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "jettison_client").symlink_to(ROOT / "protocol")  # as the wheel has it
    outer = {name: value for name, value in os.environ.items() if not name.startswith("JETTISON_")}
    (tmp_path / "bin").mkdir()
    ours = tmp_path / "bin" / "jettison"  # forked, which saves a second of imports each time
    ours.write_text(f'#!/bin/sh\nexec {shlex.join(jettison_command())} "$@"\n', encoding="utf-8")
    ours.chmod(0o755)
    path = os.pathsep.join([str(ours.parent), sysconfig.get_path("scripts"), os.environ["PATH"]])
    environment = {**outer, "PATH": path, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    text = PAGE.read_text(encoding="utf-8").replace("4222", str(free_port()))
    blocks = {(kind, title): body for kind, title, body in BLOCK.findall(text)}
    assert LOOPBACK in text
    with left_running(blocks["sh", "a first terminal"], tmp_path, environment):
        printed = ""
        for kind, title, body in BLOCK.findall(text):
            if kind == "python":
                (tmp_path / title).write_text(body, encoding="utf-8")
            elif kind == "sh" and not title:
                ran = subprocess.run(
                    ["bash", "-e", "-c", body],
                    cwd=tmp_path,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=SECONDS,
                )
                assert ran.returncode == 0, ran.stdout + ran.stderr
                printed = ran.stdout
            elif kind == "text":
                for line in body.splitlines():
                    assert as_printed(line).search(printed), f"{line!r} is not in:\n{printed}"
