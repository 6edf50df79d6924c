"""Wrong usage: told before anything is looked for or started, with the usage, and with exit code 2."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from actors.cli import run
from actors.cli.app import app
from actors.cli.command_groups import GROUPS

SAMPLE = str(Path(__file__).parents[1] / "data" / "sample.json")


def told(*arguments: str) -> int:
    """Run a command here, with no stack anywhere; return its exit code."""
    return run(lambda standalone_mode: app(list(arguments), standalone_mode=standalone_mode))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("diff", "a", "a"), "diff needs two versions: CONV@A CONV@B"),
        (("diff", "a@1", "@x"), "diff needs two versions"),
        (("diff", "a@1", "b@2"), "two versions of one conversation, not default/a with default/b"),
        (("ls", "--sort", "foo"), "--sort is one of active, tokens, saved, name, not 'foo'"),
        (("compact", SAMPLE, "--budget", "9", "--format", "foo"), "--format is one of openai, anthropic, "),
        (("compact", SAMPLE, "--budget", "1000000000000000"), "--budget"),
        (("gateway", "--wrap", "nosuch"), "--wrap starts claude, codex, opencode, aider, pi, not 'nosuch'"),
        (("gateway", "claude"), "arguments are for the client of --wrap"),
        (("policy", "set", "a"), "KEY=VALUE"),
        (("policy", "set", "a", "budget.window"), "say KEY=VALUE, not 'budget.window'"),
        (("policy", "show", "--preset", "nope"), "preset must be one of jettison, "),
        (("policy", "import", "x.env", "--from", "foo"), "--from is one of digitorn, docsgpt, holmes, not 'foo'"),
        (("expand", "a"), "say what to expand: --messages such as 4-9 or #4, or --artifact and its key"),
        (("expand", "a", "--messages", "4", "--artifact", "abcdef01"), "say what to expand"),
        (("expand", "a", "--messages", "foo"), "a range is written 20-80, not 'foo'"),
        (("expand", "a", "--messages", "0-3"), "a range counts from 1"),
        (("where", "a", ""), "the text is empty"),
        (("rewind", "a", "--to", "0"), "--to"),
        (("fork", "a", ""), "a fork needs a name"),
        (("worker", "foo"), "there is no actor 'foo'; choose from spill, digest, squeeze, cut, "),
        (("erase", "a"), "nothing brings default/a back; say --yes"),
        (("show", "a", "--profile", "foo"), "a profile is one of openai-chat, "),
        (("show", "a", "--budget", "-1"), "--budget"),
        (("dlq", "show", "a", "--actor", "foo"), "there is no actor 'foo'; choose from spill, digest, squeeze, cut"),
        (("dlq", "retry"), "name one conversation, or say --all"),
        (("verify", "a", "--all"), "a conversation, a bundle's file, or --all"),
        (("replay",), "conversations, bundles' files or folders of them, or --all"),
    ],
)
def test_wrong_usage_exits_with_2_and_shows_the_usage(
    arguments: tuple[str, ...],
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # no stack: who looked for one first would end with 4
    monkeypatch.setenv("JETTISON_DATA", str(tmp_path))
    code = told(*arguments)
    shown = capsys.readouterr()
    assert (code, shown.out) == (2, "")
    assert says in re.sub(r"[\s│]+", " ", shown.err)
    assert "Usage: " in shown.err


@pytest.mark.parametrize("conv", ["", "@3", "tenant/"])
def test_what_can_name_no_conversation_is_wrong_usage_too(conv: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told("show", conv) == 2
    assert re.search("id must be|names no conversation", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("import", "/no/file.tar"), 1, "jettison: /no/file.tar: No such file or directory"),
        (("doctor", "--config", "/no/file"), 1, "settings file /no/file: No such file or directory"),
        (("policy", "import", "/no/file.env"), 1, "jettison: /no/file.env: No such file or directory"),
        (("repair", "a", "--from", "/no/file"), 1, "jettison: /no/file: No such file or directory"),
        (("restore", "/no"), 1, "/no holds no backup (/no/backup.json: No such file or directory)"),
        (("compact", SAMPLE, "--budget", "9", "--policy", "/no/file"), 1, "policy file /no/file: No such file"),
        (("verify", "nofile.tar"), 4, "there is no file nofile.tar; for a conversation of that name: no NATS given"),
        (("why", "nofile.tar@3", "1"), 4, "there is no file nofile.tar@3; for a conversation of that name: "),
    ],
)
def test_a_file_that_is_not_there_is_said_in_words(
    arguments: tuple[str, ...],
    code: int,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JETTISON_DATA", str(tmp_path))
    assert told(*arguments) == code
    shown = capsys.readouterr()
    assert (shown.out, "Errno" in shown.err) == ("", False)
    assert says in shown.err


def test_help_lists_every_command_once_below_what_it_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("--help") == 0
    shown = capsys.readouterr().out
    every = [name for names in GROUPS.values() for name in names]
    assert sorted(every) == sorted(get_command(app).commands)  # type: ignore[attr-defined]
    for title, names in GROUPS.items():
        below = shown.partition(f"{title}:")[2].split("\n\n")[0]
        assert re.findall(r"^  ([a-z]+) ", below, re.MULTILINE) == list(names)
    assert "..." not in shown.partition("Start and use:")[2], "no sentence is cut"
