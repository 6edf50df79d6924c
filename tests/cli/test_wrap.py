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


def test_what_pi_writes_at_its_first_run_is_its_users(tmp_path: Path) -> None:
    """Sessions, a login, a token that is renewed by putting another file in its place: all but where its models are."""
    own = tmp_path / "own"
    before = (own / "models.json").read_text()
    with command("pi", URL, []) as (_, environment):
        folder = Path(environment["PI_CODING_AGENT_DIR"])
        (folder / "sessions" / "of-a-folder").mkdir(parents=True)
        (folder / "sessions" / "of-a-folder" / "one.jsonl").write_text("said")
        # also for whom pi is killed
        assert (own / "sessions" / "of-a-folder" / "one.jsonl").read_text() == "said"
        (folder / "settings.json").write_text("{}")
        (folder / "new").write_text('{"token": 2}')
        (folder / "new").replace(folder / "auth.json")
    assert (own / "auth.json").read_text() == '{"token": 2}'
    assert (own / "settings.json").read_text() == "{}"
    assert (own / "models.json").read_text() == before


def test_settings_with_comments_are_read_as_their_clients_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = '{"mine": "http://a, // b",  // "c": 1\n /* of\n mine */ "providers": {"other": [1, ],}, \n}'
    (tmp_path / "own" / "models.json").write_text(text)
    with command("pi", URL, []) as (_, environment):
        told = json.loads((Path(environment["PI_CODING_AGENT_DIR"]) / "models.json").read_text())
    assert (told["mine"], told["providers"]["other"]) == ("http://a, // b", [1])
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", text)
    with command("opencode", URL, []) as (_, environment):
        assert json.loads(environment["OPENCODE_CONFIG_CONTENT"])["mine"] == "http://a, // b"


def test_what_a_user_set_of_opencodes_providers_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = {"openai": {"models": {"m": {}}, "options": {"apiKey": "K", "baseURL": "https://a.example"}}, "other": {}}
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", json.dumps({"provider": mine}))
    with command("opencode", URL, []) as (_, environment):
        found = json.loads(environment["OPENCODE_CONFIG_CONTENT"])["provider"]
    openai = {"models": {"m": {}}, "options": {"apiKey": "K", "baseURL": f"{URL}v1"}}
    assert found == {"openai": openai, "other": {}, "anthropic": {"options": {"baseURL": f"{URL}v1"}}}


@pytest.mark.parametrize("text", ['{"providers": {}', '["mine"]'])
def test_settings_that_cannot_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    (tmp_path / "own" / "models.json").write_text(text)
    with pytest.raises(Rejected, match=r"models\.json"), command("pi", URL, []):
        pass
    monkeypatch.setenv("OPENCODE_CONFIG_CONTENT", text)
    with pytest.raises(Rejected, match="OPENCODE_CONFIG_CONTENT"), command("opencode", URL, []):
        pass


async def test_its_exit_code_is_ours() -> None:
    assert await ran([sys.executable, "-c", "import os; raise SystemExit(int(os.environ['CODE']))"], {"CODE": "7"}) == 7
