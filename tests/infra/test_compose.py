"""`infra/compose`: every command, setting, port and path in it is one that there is, and NATS reads its files.

Whether all of it runs together only an engine tells: `infra/docs/operations.md` says what has been tried.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from actors.host.bootstrap import ROLES
from actors.host.settings import PREFIX, load
from protocol.subjects import ACTORS
from tests import cli_page
from tests.stack import ROOT, program

FOLDER = ROOT / "infra" / "compose"
SERVICES: dict[str, dict[str, Any]] = YAML(typ="safe").load(FOLDER / "compose.yaml")["services"]
OURS = sorted(name for name, one in SERVICES.items() if "JETTISON_IMAGE" in one["image"])
SERVERS = ("n1", "n2", "n3")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return what `prepare.py` makes, twice over: the second time changes no secret."""
    folder = tmp_path_factory.mktemp("compose")
    (folder / "keys").mkdir()
    (folder / "keys" / "default.key").write_text("a" * 64)
    for _ in range(2):
        subprocess.run([sys.executable, str(FOLDER / "prepare.py"), str(folder)], check=True)
    assert (folder / "keys" / "default.key").read_text() == "a" * 64
    return folder


def mounts(name: str, made: Path) -> dict[str, Path]:
    """Return where on this machine each path of a container is."""
    pairs = [volume.split(":")[:2] for volume in SERVICES[name]["volumes"]]
    return {inside: made / out[7:] if out.startswith("./made/") else FOLDER / out for out, inside in pairs}


@pytest.mark.parametrize("name", SERVICES)
def test_everything_that_is_mounted_is_there(name: str, made: Path) -> None:
    assert [str(path) for path in mounts(name, made).values() if not path.exists()] == []
    assert [file for file in SERVICES[name].get("env_file", ()) if not (made / Path(file).name).exists()] == []


@pytest.mark.parametrize("name", OURS)
def test_every_service_of_ours_runs_a_command_with_settings_and_secrets_of_ours(name: str, made: Path) -> None:
    command, *arguments = SERVICES[name]["command"]
    assert command in cli_page.names()
    assert command != "worker" or arguments[0] in ROLES
    given = {key: value for key, value in SERVICES[name]["environment"].items() if key.startswith(PREFIX)}
    there = mounts(name, made)
    settings = load(
        environment={key: str(there.get(value, value)) for key, value in given.items() if "${" not in value}
    )
    assert settings.nats.password == (made / "secrets" / settings.nats.user).read_text().strip()
    if command == "worker":
        assert settings.nats.user == (name if name in ACTORS else "cut")
    assert settings.keys.folder == str(made / "keys")
    assert bool(settings.s3.secret_key) == (name != "gateway")
    assert settings.probe.listen == "127.0.0.1"


def test_each_actor_has_a_service_and_a_password(made: Path) -> None:
    assert set(ACTORS) - SERVICES.keys() == set()
    assert set(ACTORS) - {file.name for file in (made / "secrets").iterdir()} == set()


def test_every_port_is_taken_once_and_prometheus_asks_each_of_ours() -> None:
    probes = [
        one["environment"]["JETTISON_PROBE__PORT"] for one in SERVICES.values() if "JETTISON_PROBE__PORT" in str(one)
    ]
    text = (FOLDER / "compose.yaml").read_text()
    listened = re.findall(r'(?:LISTEN|MONITOR|CLUSTER): "127\.0\.0\.1:(\d+)"', text) + probes + ["8333", "4318", "9090"]
    assert [port for port, count in Counter(listened).items() if count > 1] == []
    (job,) = YAML(typ="safe").load(FOLDER / "prometheus.yaml")["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"127.0.0.1:{port}" for port in probes]


def read_by_nats(config: Path, environment: dict[str, str]) -> None:
    command = [program("nats-server"), "-t", "-c", str(config)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", SERVERS)
def test_nats_reads_its_files(name: str, made: Path) -> None:
    there, service = mounts(name, made), SERVICES[name]
    passwords = dict(line.split("=", 1) for line in (made / "nats.env").read_text().splitlines())
    environment = {**os.environ, **passwords, **service["environment"], "NATS_STORE_MAX": "20GB"}
    config = service["command"][-1]
    folder, file = there[str(Path(config).parent)], Path(config).name
    read_by_nats(folder / file, environment)
    assert "GATEWAY {" in (folder / "gateway.conf").read_text()


def test_nats_reads_the_file_of_a_single_server(made: Path) -> None:
    passwords = dict(line.split("=", 1) for line in (made / "nats.env").read_text().splitlines())
    values = {"NATS_LISTEN": "127.0.0.1:4222", "NATS_MONITOR": "127.0.0.1:8222", "NATS_STORE": "/data"}
    environment = {**os.environ, **passwords, **values, "NATS_STORE_MAX": "20GB"}
    file = ROOT / "infra" / "nats" / "one.conf"
    read_by_nats(file, environment)


def test_the_store_knows_its_options() -> None:
    command, *options = SERVICES["s3"]["command"]
    help_text = subprocess.run([program("weed"), command, "-h"], capture_output=True, text=True).stderr
    known = set(re.findall(r"^\s+-([\w.]+)", help_text, re.MULTILINE))
    assert {option[1:].split("=")[0] for option in options} - known == set()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")
def test_prometheus_reads_its_file(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "prometheus.yaml", tmp_path)
    shutil.copy(ROOT / "infra" / "observability" / "alerts.yaml", tmp_path)
    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yaml")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_server_for_each_copy_of_a_stream() -> None:
    assert {SERVICES[name]["environment"]["JETTISON_NATS__REPLICAS"] for name in OURS} == {str(len(SERVERS))}
