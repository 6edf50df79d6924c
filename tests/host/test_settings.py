"""Settings: layers, unknown keys, secrets."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from actors.host.bootstrap import Runtime
from actors.host.settings import load
from protocol import codec
from protocol.errors import BadPolicy


def test_flags_win_over_environment_and_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "jettison.toml"
    file.write_text('[nats]\nurl = "nats://file"\nuser = "from-file"\n[s3]\nbucket = "from-file"\n')
    environment = {"JETTISON_NATS__URL": "nats://environment", "JETTISON_S3__BUCKET": "from-environment"}
    found = load(file=file, environment=environment, flags={"nats": {"url": "nats://flag"}})
    assert (found.nats.url, found.nats.user, found.s3.bucket) == ("nats://flag", "from-file", "from-environment")


def test_a_flag_that_was_not_given_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "jettison.toml"
    file.write_text('[nats]\nurl = "nats://file"\n')
    assert load(file=file, environment={}, flags={"nats": {"url": None}}).nats.url == "nats://file"


def test_numbers_from_the_environment_reach_the_policy() -> None:
    found = load(environment={"JETTISON_POLICY__BUDGET__WINDOW": "8000"})
    assert found.policy == {"budget": {"window": "8000"}}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[nats]\nurll = "x"\n', "nats.urll"),
        ("[policy.spill]\npct = 3\n", "spill.pct"),
        ("nonsense = 1\n", "nonsense"),
    ],
)
def test_an_unknown_key_is_an_error_that_says_where(tmp_path: Path, text: str, key: str) -> None:
    file = tmp_path / "jettison.toml"
    file.write_text(text)
    with pytest.raises(BadPolicy, match="unknown field") as caught:
        load(file=file, environment={})
    assert caught.value.fields["key"] == key


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("JETTISON_FOO", "x", "foo"),
        ("JETTISON_NATS__URLL", "x", "nats.urll"),
        ("JETTISON_NATS__REPLICAS", "many", "nats.replicas"),
        ("JETTISON_LLM", "x", "llm"),
        ("JETTISON_POLICY__SQUEEZE__MODE", "sometimes", "squeeze.mode"),
    ],
)
def test_a_mistake_in_the_environment_is_told_with_its_variable(name: str, value: str, key: str) -> None:
    with pytest.raises(BadPolicy, match=rf"; correct or unset {name} in the environment$") as caught:
        load(environment={name: value, "JETTISON_NATS__URL": "nats://fine"})
    assert caught.value.fields["key"] == key


def test_a_mistake_in_the_file_is_told_with_its_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[policy.spill]\npct = 3\n")
    with pytest.raises(BadPolicy, match=rf"; correct {file}$"):
        load(file=file, environment={"JETTISON_NATS__URL": "nats://fine"})


def test_what_kubernetes_sets_for_a_service_of_this_name_is_no_setting() -> None:
    injected = {
        "JETTISON_SERVICE_HOST": "10.0.0.1",
        "JETTISON_SERVICE_PORT": "4222",
        "JETTISON_SERVICE_PORT_CLIENT": "4222",
        "JETTISON_PORT": "tcp://10.0.0.1:4222",
        "JETTISON_PORT_4222_TCP": "tcp://10.0.0.1:4222",
        "JETTISON_PORT_4222_TCP_PROTO": "tcp",
        "JETTISON_PORT_4222_TCP_PORT": "4222",
        "JETTISON_PORT_4222_TCP_ADDR": "10.0.0.1",
    }
    assert load(environment=injected) == load(environment={})
    with pytest.raises(BadPolicy, match="JETTISON_SERVICE"):
        load(environment={**injected, "JETTISON_SERVICE": "x"})


def test_a_secret_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "jettison.toml"
    file.write_text('[s3]\nsecret_key = "hidden"\n')
    with pytest.raises(BadPolicy, match="JETTISON_S3__SECRET_KEY") as caught:
        load(file=file, environment={})
    assert "hidden" not in str(caught.value)


def test_a_secret_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden\n")
    assert load(environment={"JETTISON_S3__SECRET_KEY_FILE": str(secret)}).s3.secret_key == "hidden"


def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text("[nats\n")
    with pytest.raises(BadPolicy, match=r"broken\.toml"):
        load(file=file, environment={})


def test_the_names_of_the_openai_package_are_understood() -> None:
    environment = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://llm"}
    found = load(environment=environment)
    assert (found.llm.api_key, found.llm.base_url) == ("k", "http://llm")


def test_rules_that_this_release_cannot_decide_by_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "RULES_WRITTEN", ("8", "9"))
    monkeypatch.setattr(codec, "RULES_VERSION", "9")
    assert load(environment={}).rules_written == "9"
    assert load(environment={"JETTISON_RULES__WRITE": "8"}).rules_written == "8"
    with pytest.raises(BadPolicy, match="one of 8, 9, not 7; correct or unset JETTISON_RULES__WRITE") as refused:
        load(environment={"JETTISON_RULES__WRITE": "7"})
    assert refused.value.fields["key"] == "rules.write"


async def test_what_a_command_writes_down_names_its_user_of_nats(running: Runtime) -> None:
    assert running.by == running.name
    nats = msgspec.structs.replace(running.settings.nats, url="nats://alice:secret@127.0.0.1:4222")
    as_alice = dataclasses.replace(running, settings=msgspec.structs.replace(running.settings, nats=nats))
    assert as_alice.by == f"user alice, {running.name}"
