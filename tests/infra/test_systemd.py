"""The units of `infra/systemd`: as systemd itself reads them, and as our own settings do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from actors.host.settings import load
from tests import cli_page
from tests.stack import ROOT

FOLDER = ROOT / "infra" / "systemd"
PROGRAM = "/opt/jettison/bin/jettison"
INSTANCE = "spill"
UNITS = sorted(file.name for file in FOLDER.iterdir())
SERVICES = [name for name in UNITS if name.endswith(".service")]


def verified(folder: Path, name: str) -> str:
    """Return what systemd says of the unit *name* in *folder*; nothing, if all is well."""
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(folder / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    return done.stdout + done.stderr + ("" if done.returncode == 0 else f"code {done.returncode}")


def installed(folder: Path) -> None:
    """Write the units into *folder*, for a program that this machine has."""
    for name in UNITS:
        text = (FOLDER / name).read_text().replace(PROGRAM, sys.executable)
        (folder / name.replace("@", f"@{INSTANCE}")).write_text(text)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_has_nothing_to_say_of_a_unit_and_finds_a_key_that_it_does_not_know(tmp_path: Path) -> None:
    installed(tmp_path)
    assert {name: verified(tmp_path, name.replace("@", f"@{INSTANCE}")) for name in UNITS} == dict.fromkeys(UNITS, "")
    gateway = tmp_path / "jettison-gateway.service"
    gateway.write_text(gateway.read_text().replace("NoNewPrivileges=", "NoNewPrivilege="))
    assert "NoNewPrivilege" in verified(tmp_path, gateway.name)


@pytest.mark.parametrize("name", SERVICES)
def test_every_unit_runs_a_command_of_ours_with_settings_of_ours(name: str, tmp_path: Path) -> None:
    text = (FOLDER / name).read_text()
    (command,) = re.findall(rf"^ExecStart={PROGRAM} (\w+)(?: %i)?$", text, re.MULTILINE)
    assert command in cli_page.names()
    credentials = dict(re.findall(r"^LoadCredential=(\w+):(\S+)$", text, re.MULTILINE))
    for credential in credentials:
        (tmp_path / credential).write_text(f"secret {credential}\n")
    pairs = [pair for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE) for pair in line.split()]
    environment = dict(pair.split("=", 1) for pair in pairs)
    filled = {key: value.replace("%d", str(tmp_path)).replace("%i", INSTANCE) for key, value in environment.items()}
    settings = load(environment=filled)
    assert settings.nats.password == "secret nats"
    user = environment["JETTISON_NATS__USER"]
    assert credentials["nats"] == f"/etc/jettison/secrets/{user}"
    assert settings.s3.secret_key == ("" if user == "gateway" else "secret s3_secret_key")
