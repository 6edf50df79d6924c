"""A wrapped client asks the gateway, and nothing of its own settings is changed."""

import json
import sys
from pathlib import Path

import pytest

from actors.cli.wrap import CLIENTS, command, ran
from protocol.errors import Rejected

URL = "http://127.0.0.1:1234/"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for client in CLIENTS:
        (tmp_path / client).write_text("#!/bin/sh\n")
        (tmp_path / client).chmod(0o755)
    own = tmp_path / "pi"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "own"))
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "auth.json").write_text("{}")
    (tmp_path / "own" / "models.json").write_text('{"providers": {"openai": {"apiKey": "K"}, "mine": {}}}')
    return own


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_pointed_to_the_gateway(client: str) -> None:
    with command(client, URL, ["-p", "x y"]) as (argv, environment):
        assert Path(argv[0]).name == client
        assert argv[-2:] == ["-p", "x y"]
        told = json.dumps([argv, environment])
        if "PI_CODING_AGENT_DIR" in environment:
            folder = Path(environment["PI_CODING_AGENT_DIR"])
            told = (folder / "models.json").read_text()
            assert json.loads(told)["providers"]["openai"] == {"apiKey": "K", "baseUrl": f"{URL}v1"}
            assert (folder / "auth.json").read_text() == "{}"
        assert "127.0.0.1:1234" in told


def test_a_client_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(Rejected, match="not installed"), command("claude", URL, []):
        pass


async def test_its_exit_code_is_ours() -> None:
    assert await ran([sys.executable, "-c", "import os; raise SystemExit(int(os.environ['CODE']))"], {"CODE": "7"}) == 7
