"""What the commands say of keys: which there are, which is missing, and how an old one is thrown away."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from actors.host.adapters import tenant_keys
from actors.host.settings import Settings
from protocol.client import Client
from protocol.ids import fresh_id
from protocol.keys import FolderKeys
from tests.audit.test_erasing import of_stack
from tests.builders import user
from tests.cli.test_cli import jettison
from tests.stack import jettison_up


@pytest.fixture
async def spoken(data: Path) -> tuple[Settings, str]:
    """Return where the stack is, and a conversation in which something was said and answered."""
    settings = of_stack(data)
    async with Client.connect(settings.nats.url, keys=tenant_keys(settings)) as client:
        talk = await client.open(f"keys-{fresh_id()[:8]}")
        await talk.append([user("hello")])
        await talk.context()
    return settings, str(talk.at)


@pytest.mark.parametrize("command", ["log", "verify", "replay", "versions", "export", "show", "erase"])
async def test_a_command_without_the_tenants_key_says_what_to_set(
    spoken: tuple[Settings, str], data: Path, tmp_path: Path, command: str
) -> None:
    _, talk = spoken
    config = tmp_path / "jettison.toml"
    config.write_text(f'[keys]\nfolder = "{tmp_path}"\n')
    more = {"export": ("--out", str(tmp_path / "x.tar")), "erase": ("--yes",)}.get(command, ())
    done = jettison(command, talk, *more, "--config", str(config), "--data", str(data))
    assert (done.returncode, done.stdout) == (4, "")
    assert f"tenant default has no key in {tmp_path}: put default.key there; the first one" in done.stderr
    assert not (tmp_path / "x.tar").exists()


async def test_a_command_without_any_keys_says_how_to_name_them(spoken: tuple[Settings, str], tmp_path: Path) -> None:
    settings, talk = spoken
    done = jettison("log", talk, "--nats", settings.nats.url, "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (4, "")
    assert "is encrypted with a key of its tenant; set keys.folder (JETTISON_KEYS__FOLDER)" in done.stderr


async def test_another_key_of_the_tenant_is_told_from_the_right_one(
    spoken: tuple[Settings, str], data: Path, tmp_path: Path
) -> None:
    _, talk = spoken
    (tmp_path / "default.key").write_text(os.urandom(32).hex())
    config = tmp_path / "jettison.toml"
    config.write_text(f'[keys]\nfolder = "{tmp_path}"\n')
    done = jettison("log", talk, "--config", str(config), "--data", str(data))
    assert done.returncode == 4
    assert "was wrapped by key" in done.stderr


async def test_an_auditor_makes_no_key(spoken: tuple[Settings, str], data: Path, tmp_path: Path) -> None:
    config = tmp_path / "jettison.toml"
    config.write_text(f'[keys]\nfolder = "{tmp_path / "empty"}"\nmake = true\n')
    assert jettison("log", "nobody/never-spoke", "--config", str(config), "--data", str(data)).returncode == 1
    assert jettison("log", spoken[1], "--config", str(config), "--data", str(data)).returncode == 4
    assert not (tmp_path / "empty").exists()


async def test_the_doctor_names_the_keys(data: Path, tmp_path: Path, spoken: tuple[Settings, str]) -> None:
    def found(*more: str) -> tuple[int, dict[str, object]]:
        done = jettison("doctor", "--json", *more)
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        return done.returncode, next(row for row in rows if row["what"] == "keys")

    code, row = found("--data", str(data))
    assert (code, row["ok"], row["fix"]) == (0, True, "")
    assert f"of 1 tenant in {data / 'keys'}" in str(row["detail"])
    copy = tmp_path / "copy"
    shutil.copytree(data / "keys", copy)
    (copy / "default.key").chmod(0o644)
    config = tmp_path / "jettison.toml"
    config.write_text(f'[keys]\nfolder = "{copy}"\n')
    code, row = found("--data", str(data), "--config", str(config))
    assert (code, row["ok"], row["fix"]) == (4, False, f"chmod 600 {copy}/*.key")
    (copy / "default.key").chmod(0o600)
    (copy / "default.key").write_text("")
    code, row = found("--data", str(data), "--config", str(config))
    assert (code, row["ok"], row["fix"]) == (4, False, "put the copy of default.key back")
    (copy / "default.key").write_text(os.urandom(32).hex())
    code, row = found("--data", str(data), "--config", str(config))
    assert (code, row["ok"]) == (4, False)
    assert "was wrapped by key" in str(row["detail"])
    assert str(row["fix"]).startswith("put the lines of the copy of default.key above those")
    _, row = found("--nats", spoken[0].nats.url, "--data", str(tmp_path))
    assert row["ok"] is True
    assert "the log is encrypted, and no keys folder is set here" in str(row["detail"])
    assert "JETTISON_KEYS__FOLDER" in str(row["fix"])


async def test_an_old_key_can_be_thrown_away_once_everything_is_wrapped_anew(
    spoken: tuple[Settings, str], data: Path
) -> None:
    _, talk = spoken
    file = data / "keys" / "default.key"
    file.write_text(file.read_text() + os.urandom(32).hex() + "\n")
    done = jettison("rewrap", "--data", str(data), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["keys"] >= 1
    file.write_text(file.read_text().splitlines()[-1] + "\n")
    assert jettison("log", talk, "--data", str(data)).returncode == 0
    assert json.loads(jettison("doctor", "--data", str(data), "--json").stdout.splitlines()[1])["ok"] is True


async def test_a_mistyped_tenant_throws_no_key_away(spoken: tuple[Settings, str], data: Path) -> None:
    done = jettison("rewrap", "defualt", "--data", str(data))
    assert (done.returncode, done.stdout) == (0, "")
    assert "there is no key of this tenant; nothing was wrapped anew, and nothing may be thrown away" in done.stderr


async def test_a_conversation_whose_key_is_missing_hides_no_other(
    spoken: tuple[Settings, str], data: Path, tmp_path: Path
) -> None:
    settings, talk = spoken
    (tmp_path / "locked.key").write_text(os.urandom(32).hex())
    async with Client.connect(settings.nats.url, keys=FolderKeys(folder=tmp_path)) as client:
        locked = await client.open("ours-alone", tenant="locked")
    # the log has it before any worker looks at it, and none can
    for command, shown in (("ls", talk), ("stats", '"conversations"'), ("verify", talk)):
        more = ("--all",) if command == "verify" else ()
        done = jettison(command, *more, "--json", "--data", str(data))
        assert done.returncode == 4, done.stderr
        assert shown in done.stdout
        assert "tenant locked has no key" in done.stderr
    assert str(locked.at) not in jettison("ls", "--json", "--data", str(data)).stdout
    done = jettison("doctor", "--data", str(data))
    assert done.returncode == 4
    assert "BAD  keys: tenant locked has no key" in done.stdout
    assert "fix: put the copy of locked.key back" in done.stdout


async def test_a_stack_whose_tenants_key_is_lost_makes_no_other_and_starts_once_it_is_back(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "default.key"
    with jettison_up(tmp_path):
        url = of_stack(tmp_path).nats.url
        async with Client.connect(url, keys=FolderKeys(folder=str(tmp_path / "keys"))) as client:
            await (await client.open("before")).append([user("hello")])
    file.rename(tmp_path / "copy")
    done = jettison("up", "--data", str(tmp_path))
    assert (done.returncode, file.exists()) == (4, False)
    assert "the key of tenant default is lost" in done.stderr
    assert "put default.key back from its copy" in done.stderr
    (tmp_path / "copy").rename(file)
    with jettison_up(tmp_path):
        assert jettison("log", "before", "--data", str(tmp_path)).returncode == 0


async def test_a_new_stack_says_that_it_is_empty_and_its_first_agent_finds_a_key(tmp_path: Path) -> None:
    with jettison_up(tmp_path):
        for command, told in ((("ls",), "no conversations yet\n"), (("dlq", "list"), "no dead letters\n")):
            done = jettison(*command, "--data", str(tmp_path))
            assert (done.returncode, done.stdout, done.stderr) == (0, "", told)
        url = of_stack(tmp_path).nats.url
        async with Client.connect(url, keys=FolderKeys(folder=tmp_path / "keys")) as client:
            talk = await client.open("first")
            await talk.append([user("hello")])
            assert (await talk.context(patience=180)).messages == [user("hello")]
