"""The commands that explain, as a user meets them: separate processes, real servers, exit codes, clean streams."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from actors.audit.diff import diff
from actors.audit.versions import versions
from actors.audit.where import where
from actors.audit.why import why
from actors.cli.audit_output import print_diff, version_text, where_text, why_text
from actors.cli.inspect import drawn
from actors.cli.terminal_text import counted, one_line, plain
from protocol import semconv
from tests.audit.recorded import recorded, small
from tests.builders import Talk, assistant, user
from tests.cli.test_cli import SAMPLE, jettison
from tests.stack import jettison_up

HOSTILE = "\x1b]0;owned\x07\x1b[31mred\x1b[0m \u202egnp.exe [bold]markup[/bold] \ud800 \x9b2J"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What a terminal would act upon; our own colours are taken out before."""


@pytest.fixture(scope="module")
def conversation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Play the sample turn by turn through `jettison up`; yield its address and the folder."""
    data = tmp_path_factory.mktemp("audited")
    with jettison_up(data):
        done = jettison("compact", str(SAMPLE), "--budget", "8000", "--by-turn", "--data", str(data), "--json")
        assert done.returncode == 0, done.stderr
        yield json.loads(done.stdout)["address"], data


def asked(conversation: tuple[str, Path], command: str, *arguments: str, at: str = "") -> Any:
    """Return what a command prints as JSON about the conversation (one document for each line)."""
    done = jettison(command, f"{conversation[0]}{at}", *arguments, "--data", str(conversation[1]), "--json")
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return found if command == "versions" else found[0]


def test_the_trace_says_what_a_compaction_lost_and_which_views_were_compacted(conversation: tuple[str, Path]) -> None:
    digested = {row["version"]: row for row in asked(conversation, "versions") if "HistoryAccounted" in row["facts"]}
    name = conversation[0].rpartition("/")[2]
    done = jettison("trace", name, "--last", "10000", "--data", str(conversation[1]), "--json")
    spans = [json.loads(line) for line in done.stdout.splitlines()]
    said = [span["attributes"] for span in spans if span["name"] == "compact digest"]
    # one whose confirmation was slow finds its commit in the log, and is another step's span
    steps = {one[semconv.SNAPSHOT_VERSION]: one for one in said if one.get(semconv.SNAPSHOT_VERSION) in digested}
    assert steps
    for version, step in steps.items():
        tallies = digested[version]["loss"]["categories"].values()
        for attribute, field in (
            (semconv.VALUES_RETAINED, "retained"),
            (semconv.VALUES_RECOVERABLE, "recoverable"),
            (semconv.VALUES_LOST, "lost"),
        ):
            assert step[attribute] == sum(tally[field] for tally in tallies)
    for name in ("ask context", "serve context"):
        calls = sorted((span for span in spans if span["name"] == name), key=lambda span: span["start_unix_nano"])
        told = [span["attributes"].get(semconv.GEN_AI_CONVERSATION_COMPACTED) for span in calls]
        # set from the first compaction on, and never to false
        assert set(told) == {None, True}
        assert told == [None] * told.count(None) + [True] * told.count(True)


def test_versions_are_listed_without_those_that_only_served(conversation: tuple[str, Path]) -> None:
    rows = asked(conversation, "versions")
    changes = [row for row in rows if row["facts"].keys() != {"ContextServed"}]
    assert asked(conversation, "versions", "--changes") == changes
    assert 0 < len(changes) < len(rows)
    assert all(row["served_tokens"] for row in rows if row not in changes)


def test_versions_diff_why_and_where_agree_about_a_digest(conversation: tuple[str, Path]) -> None:
    rows = asked(conversation, "versions", "--loss")
    assert [row["version"] for row in rows] == list(range(1, len(rows) + 1))
    assert all(re.fullmatch("[0-9a-f]{32}", row["trace_id"]) for row in rows)
    assert all(row["time"].startswith("20") for row in rows)
    gone: list[int] = []
    # the first compactions may only shorten in place
    for digested in (row for row in rows if "HistoryAccounted" in row["facts"]):
        version = digested["version"]
        assert digested["loss"]["categories"]
        found = asked(conversation, "diff", f"@{version}", at=f"@{version - 1}")
        gone = [row["number"] for row in found["rows"] if row["did"] == "digested" and row["number"]]
        if gone:
            break
    told = asked(conversation, "why", str(gone[0]))
    assert (told["now"], told["history"][-1]["version"]) == ("not in the view", version)
    assert told["history"][-1]["trace_id"] == digested["trace_id"]
    assert asked(conversation, "where", told["text"])["places"][0]["message"] == gone[0]


def test_a_served_context_comes_out_byte_for_byte(conversation: tuple[str, Path]) -> None:
    served = [row["version"] for row in asked(conversation, "versions") if row["stage"] == "serve"]
    for version in (served[0], served[-1]):
        told = asked(conversation, "show", "--served", at=f"@{version}")
        assert told["same"] is True
        done = jettison("show", f"{conversation[0]}@{version}", "--served", "--data", str(conversation[1]))
        assert done.returncode == 0, done.stderr
        assert hashlib.sha256(done.stdout.encode()).hexdigest() == told["served"]["view_hash"]
        assert json.loads(done.stdout) == told["messages"]


@pytest.mark.parametrize("profile", ["openai-chat", "openai-responses", "anthropic-messages"])
def test_any_version_is_shown_for_any_provider(conversation: tuple[str, Path], profile: str) -> None:
    last = asked(conversation, "versions")[-1]
    shown = asked(conversation, "show", "--profile", profile, at=f"@{last['version']}")
    assert shown["tokens"] <= 8000
    told = jettison(
        "show", f"{conversation[0]}@{last['version']}", "--profile", profile, "--data", str(conversation[1])
    )
    assert (told.returncode, told.stdout.count("--- user ---") > 0) == (0, True), told.stderr


def test_a_bundle_answers_like_the_log_that_it_was_made_of(conversation: tuple[str, Path], tmp_path: Path) -> None:
    address, data = conversation
    file = tmp_path / "talk.tar"
    assert jettison("export", address, "--out", str(file), "--data", str(data)).returncode == 0
    for arguments in (("versions", "{}"), ("why", "{}@30", "7"), ("diff", "{}@9", "@30"), ("show", "{}", "--served")):
        asked_for = [[one.format(source) for one in arguments] for source in (address, file)]
        live = jettison(*asked_for[0], "--data", str(data))
        bundled = jettison(*asked_for[1])
        assert (bundled.returncode, bundled.stdout) == (live.returncode, live.stdout) == (0, live.stdout)
        assert live.stdout


def test_a_bundle_that_was_cut_off_is_a_difference(conversation: tuple[str, Path], tmp_path: Path) -> None:
    file = tmp_path / "talk.tar"
    assert jettison("export", conversation[0], "--out", str(file), "--data", str(conversation[1])).returncode == 0
    fine = jettison("verify", str(file))
    assert (fine.returncode, fine.stderr) == (0, "")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    cut = jettison("verify", str(file))
    assert (cut.returncode, cut.stdout) == (3, "")
    assert f"{file}: DIFFERENT: the bundle is damaged at byte" in cut.stderr


def test_stats_add_up_what_was_served_and_how_long_steps_took(conversation: tuple[str, Path]) -> None:
    done = jettison("stats", "--price-as", "gpt-4o", "--data", str(conversation[1]), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    served = [row for row in asked(conversation, "versions") if row["stage"] == "serve"]
    assert found["total"]["calls"] == len(served)
    assert found["total"]["saved_dollars"] > 0
    assert 0 < found["total"]["same_prefix_tokens"] < found["total"]["served_tokens"]
    assert found["slowest"][0]["seconds"] == max(step["seconds"] for step in found["slowest"]) > 0
    for arguments in ((), ("default/",), (conversation[0],)):
        told = jettison("stats", *arguments, "--data", str(conversation[1]))
        assert (told.returncode, told.stderr) == (0, "")
        assert f"{len(served)} served contexts" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("versions", "nobody"), 1, "there is no conversation default/nobody"),
        (("versions", "a" * 300), 1, "there is no conversation"),
        (("show", "{conv}@0"), 1, "has no version 0; versions count from 1"),
        (("show", "{conv}@99999"), 1, "has no version 99999; it has 1 to"),
        (("show", "{conv}@1", "--served"), 1, "no context was served at version 1"),
        (("show", "{conv}@" + "9" * 5000), 1, "digits"),
        (("show", "{conv}", "--profile", "telex"), 2, "a profile is one of"),
        (("diff", "{conv}@1", "nobody@2"), 2, "two versions of one conversation"),
        (("diff", "{conv}", "{conv}@2"), 2, "diff needs two versions"),
        (("why", "{conv}", "100000"), 1, "has no message 100000; it has 1 to 156"),
        (("why", "{conv}", "first"), 2, "valid integer"),
        (("where", "{conv}", ""), 2, "the text is empty"),
        (("where", "../../{conv}>*", "x"), 1, "no such file or conversation: ../../default/"),
        (("stats", "nobody/"), 1, "no conversation of the tenant nobody"),
        (("stats", "@3"), 1, "there is no conversation"),
    ],
)
def test_a_wrong_question_gets_a_sentence_and_an_exit_code(
    conversation: tuple[str, Path], arguments: tuple[str, ...], code: int, says: str
) -> None:
    asked_for = [one.replace("{conv}", conversation[0]) for one in arguments]
    done = jettison(*asked_for, "--data", str(conversation[1]))
    assert (done.returncode, done.stdout) == (code, "")
    assert says in re.sub(r"[\s│]+", " ", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_text_that_is_nowhere_exits_1_and_is_said_to_be_absent(conversation: tuple[str, Path]) -> None:
    done = jettison("where", conversation[0], "no such words", "--data", str(conversation[1]))
    assert (done.returncode, done.stderr) == (1, "")
    assert "absent" in done.stdout


def test_hostile_text_is_shown_and_never_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    talk = Talk(small())
    talk.play(user(f"{HOSTILE} first"), assistant(HOSTILE), user(f"{HOSTILE} last"))
    print_diff(diff(talk.at, talk.records, older=1, newer=talk.state.version), full=True)
    shown = [
        capsys.readouterr().out,
        why_text(why(talk.at, talk.records, number=1), full=True),
        where_text(where(talk.at, talk.records, text=HOSTILE, uploads={})),
        drawn([{"role": "user", "content": HOSTILE}], chars=400),
        *map(version_text, versions(talk.at, talk.records)),
        plain(HOSTILE),
        one_line(HOSTILE, chars=50),
    ]
    for text in shown:
        assert not OBEYED.search(text), text
        assert text.encode()
    assert "[bold]markup[/bold]" in shown[1]


def test_one_thing_is_not_called_several() -> None:
    assert [counted(number, "anchor") for number in (0, 1, 2000)] == ["0 anchors", "1 anchor", "2,000 anchors"]


def test_a_diff_for_a_person_names_every_change(capsys: pytest.CaptureFixture[str]) -> None:
    talk = recorded()
    version = next(row.version for row in versions(talk.at, talk.records) if row.stage == "digest")
    print_diff(diff(talk.at, talk.records, older=version - 1, newer=talk.state.version), full=False)
    shown = capsys.readouterr().out
    assert shown.startswith(f"{talk.at}: version {version - 1} -> {talk.state.version}\n")
    for word in ("by digest", "by said", "digested    the digest", "kept", "new "):
        assert word in shown
