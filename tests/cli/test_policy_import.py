"""Policy import: the settings of Digitorn, DocsGPT and HolmesGPT become a layer of ours, or a sentence says why not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from actors.cli.policy import _one
from actors.cli.policy_import import from_digitorn, from_docsgpt, from_holmes, system_of
from protocol.errors import BadPolicy
from protocol.hooks import Compact, Inject, ModelCalls, Note, Pressure
from protocol.policy import resolve
from tests.stack import jettison_command

DIGITORN = """
agents:
- id: assistant
  brain:
    provider: deepseek
    context:
      max_tokens: 64000
      output_reserved: 2048
      strategy: summarize
      keep_recent: 6
      compression_trigger: 0.15
      summary_max_tokens: 512
      summary_brain: {provider: ollama, model: "qwen2.5:3b"}
- id: second
  brain: {provider: openai}
execution:
  context: {max_tokens: 0, strategy: truncate, keep_recent: 10, compression_trigger: 0.6}
  hooks:
  - {id: pressure log, on: turn_start, condition: {type: always}, action: {type: log, message: "Turn {turn}"}}
  - {id: five, condition: {type: turn_count, count: 5}, action: {type: inject_message, message: "Five."}, cooldown: 30}
  - {id: off, enabled: false, action: {type: log}}
"""


def digitorn(**context: Any) -> dict[str, Any]:
    return from_digitorn({"agents": [{"id": "a", "brain": {"context": context}}]}).layer


def test_digitorns_example_becomes_a_policy(tmp_path: Path) -> None:
    file = tmp_path / "app.yaml"
    file.write_text(DIGITORN, encoding="utf-8")
    done = run("policy", "import", str(file))
    assert done.returncode == 0, done.stderr
    policy = resolve([json.loads(done.stdout)])
    assert policy.preset == "digitorn"
    assert (policy.budget.window, policy.budget.reserve) == (64_000, 2_048)
    assert (policy.trigger.ratio, policy.trigger.comparator, policy.target.low_water) == (0.15, "at_least", 0.0)
    assert (policy.digest.keep_messages, policy.emergency.keep_messages) == (6, 4)
    assert (policy.squeeze.mode, policy.squeeze.model, policy.squeeze.cap_tokens) == ("summarize", "qwen2.5:3b", 512)
    log, five = policy.hooks
    assert (log.id, log.on, log.do) == ("pressure-log", "call_start", Note(text="Turn {turn}", fill=True))
    assert (five.when, five.do, five.most, five.cooldown_seconds) == (
        ModelCalls(at_least=5),
        Inject(text="Five.", fill=True),
        1,
        30.0,
    )
    assert "hooks[2]: is not enabled" in done.stderr


def test_another_agent_takes_the_executions_context() -> None:

    policy = resolve([from_digitorn(YAML(typ="safe", pure=True).load(DIGITORN), agent="second").layer])
    assert (policy.preset, policy.trigger.ratio, policy.digest.keep_messages) == ("digitorn-truncate", 0.6, 10)
    assert policy.budget.window == 128_000


def test_an_explicit_compact_hook_takes_the_place_of_the_automatic_one() -> None:
    hook = {
        "id": "c",
        "condition": {"type": "context_pressure", "threshold": 0.6},
        "action": {"type": "compact_context"},
    }
    policy = resolve([from_digitorn({"execution": {"hooks": [hook]}}).layer])
    assert policy.trigger.ratio == 1.0
    assert [(one.when, one.do) for one in policy.hooks] == [(Pressure(at_least=0.6), Compact())]


@pytest.mark.parametrize(
    ("context", "key"),
    [
        ({"strategy": "forget"}, "context.strategy"),
        ({"compression_trigger": 0}, "context.compression_trigger"),
        ({"compression_trigger": "high"}, "context.compression_trigger"),
        ({"keep_recent": -1}, "context.keep_recent"),
        ({"keep_recent": 2.5}, "context.keep_recent"),
        ({"auto_compact": "perhaps"}, "context.auto_compact"),
        ({"summary_brain": "qwen"}, "context.summary_brain"),
    ],
)
def test_a_mistake_in_digitorns_settings_is_named(context: dict[str, Any], key: str) -> None:
    with pytest.raises(BadPolicy) as refused:
        digitorn(**context)
    assert refused.value.fields["key"] == key


def test_docsgpts_environment_becomes_a_policy() -> None:
    imported = from_docsgpt(
        {
            "COMPRESSION_THRESHOLD_PERCENTAGE": "0.7",
            "COMPRESSION_MODEL_OVERRIDE": "gpt-4o-mini",
            "TOOL_RESULT_MAX_TOKENS": "0",
            "DEFAULT_LLM_TOKEN_LIMIT": "100000",
            "COMPRESSION_MAX_HISTORY_POINTS": "3",
            "SOMETHING_ELSE": "1",
        }
    )
    policy = resolve([imported.layer])
    assert (policy.preset, policy.trigger.ratio, policy.squeeze.model) == ("docsgpt", 0.7, "gpt-4o-mini")
    assert (policy.budget.window, policy.spill.tokens) == (100_000, 2**40)
    assert any("COMPRESSION_MAX_HISTORY_POINTS" in note for note in imported.notes)


def test_docsgpts_switch_leaves_only_the_cut() -> None:
    policy = resolve([from_docsgpt({"ENABLE_CONVERSATION_COMPRESSION": "False"}).layer])
    assert (policy.squeeze.mode, policy.digest.mode, policy.trigger.ratio, policy.cut.mode) == ("off", "off", 1.0, "on")


@pytest.mark.parametrize(("percent", "share"), [("15", 0.15), ("100", 1.0), ("0", 1.0), ("101", 1.0), ("-3", 1.0)])
def test_holmes_share_outside_its_range_leaves_the_absolute_cap(percent: str, share: float) -> None:
    policy = resolve([from_holmes({"TOOL_MAX_ALLOCATED_CONTEXT_WINDOW_PCT": percent}).layer])
    assert policy.spill.share == share


def test_holmes_environment_becomes_a_policy(tmp_path: Path) -> None:
    file = tmp_path / "holmes.env"
    file.write_text(
        "# a comment\nCONTEXT_WINDOW_COMPACTION_THRESHOLD_PCT=90\nexport OVERRIDE_MAX_CONTENT_SIZE='32000'\n"
        "OVERRIDE_MAX_OUTPUT_TOKEN=4000\nHOLMES_TOOL_RESULT_STORAGE_ENABLED=false\n",
        encoding="utf-8",
    )
    done = run("policy", "import", str(file))
    assert done.returncode == 0, done.stderr
    policy = resolve([json.loads(done.stdout)])
    assert (policy.preset, policy.trigger.ratio) == ("holmes", 0.9)
    assert (policy.budget.window, policy.budget.reserve) == (32_000, 4_000)
    assert "results are always stored" in done.stderr


@pytest.mark.parametrize("text", ["", "A=1\n", "- 1\n- 2\n"])
def test_settings_of_nobody_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "unknown.env"
    file.write_text(text, encoding="utf-8")
    done = run("policy", "import", str(file))
    assert (done.returncode, done.stdout) == (1, "")
    assert "say --from" in done.stderr


def test_the_systems_are_told_apart_by_their_keys() -> None:
    assert system_of({"execution": {}}) == "digitorn"
    assert system_of({"COMPRESSION_THRESHOLD_PERCENTAGE": "0.8"}) == "docsgpt"
    assert system_of({"CONTEXT_WINDOW_COMPACTION_THRESHOLD_PCT": "95"}) == "holmes"


def test_a_policy_is_shown_with_every_key_and_its_schema_takes_it(tmp_path: Path) -> None:
    layer = tmp_path / "layer.yaml"
    layer.write_text("preset: llm4s\nspill: {per_tool: {grep*: {tokens: 500}}}\n", encoding="utf-8")
    shown = run("policy", "show", str(layer), "--window", "32000", "--json")
    assert shown.returncode == 0, shown.stderr
    answer = json.loads(shown.stdout)
    assert answer["policy"]["digest"]["keep_blocks"] == 5
    assert answer["policy"]["spill"]["per_tool"]["grep*"]["tokens"] == 500
    assert answer["usable_tokens"] == int((32_000 - 4_096) * 0.92)
    schema = json.loads(run("policy", "schema").stdout)
    sections = schema["$defs"]["Policy"]["properties"]
    assert sections.keys() == answer["policy"].keys()
    assert schema["$defs"]["Policy"]["additionalProperties"] is False


def test_none_is_set_as_the_page_writes_it_where_the_key_takes_it() -> None:
    assert _one("digest.keep_blocks", "none") == {"digest": {"keep_blocks": None}}
    assert _one("cut.window", "none") == {"cut": {"window": None}}
    assert _one("squeeze.model", "none") == {"squeeze": {"model": "none"}}
    assert _one("budget.window", "64000") == {"budget": {"window": 64000}}


def test_a_policy_is_shown_from_toml_too(tmp_path: Path) -> None:
    layer = tmp_path / "layer.toml"
    layer.write_text('preset = "llm4s"\n[spill.per_tool."grep*"]\ntokens = 500\n', encoding="utf-8")
    shown = run("policy", "show", str(layer), "--json")
    assert json.loads(shown.stdout)["policy"]["spill"]["per_tool"]["grep*"]["tokens"] == 500


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("show", "holmes"), "there is no file holmes; the preset is shown by --preset holmes"),
        (("show", "{folder}/bytes.toml"), "bytes.toml is not TOML: "),
        (("show", "{folder}/half.toml"), "half.toml is not TOML: "),
        (("import", "{folder}/bytes.env"), "bytes.env is not a file of settings: "),
        (("import", "{folder}/nowhere.env"), "nowhere.env"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, str], says: str
) -> None:
    for name in ("bytes.toml", "bytes.env"):
        (tmp_path / name).write_bytes(bytes(range(256)))
    (tmp_path / "half.toml").write_text("preset = ")
    command, file = arguments
    done = run("policy", command, file.format(folder=tmp_path))
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert says in done.stderr


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*jettison_command(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
