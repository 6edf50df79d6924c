"""The command line as a user meets it: separate processes, real servers, exit codes, clean streams."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.audit.verify import mentioned
from actors.cli.doctor_store import Finding, artifacts_found, store_found
from actors.cli.session import located
from actors.host.bootstrap import Runtime, runtime
from actors.host.settings import Settings
from protocol.ids import written_address
from tests.conftest import spilling
from tests.stack import free_port, jettison_command, jettison_up, listened_on, nats_server

SAMPLE = Path(__file__).parents[1] / "data" / "sample.json"
ROOT = Path(__file__).parents[2]
DIRTY = [
    {"role": "user", "content": "caf\u00e9 \u4f60\u597d"},
    {"role": "tool", "tool_call_id": "nobody", "content": "a result without a call"},
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "x", "type": "function", "function": {"name": "run", "arguments": "{}"}},
        {"id": "x", "type": "function", "function": {"name": "run", "arguments": "{not json"}},
    ]},
    {"role": "tool", "tool_call_id": "x", "content": "first"},
    {"role": "user", "content": "the second call was aborted"},
]  # fmt: skip


def jettison(*arguments: str, timeout: float = 180, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run one command in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JETTISON_", "OTEL_"))}
    command = [*jettison_command(), *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout, check=False, input=given
    )


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run `jettison up` on a folder, with the sample compacted there; yield the folder."""
    data = tmp_path_factory.mktemp("up")
    with jettison_up(data):
        yield data


@pytest.fixture(scope="module")
def compacted(running: Path) -> dict[str, object]:
    """Compact the sample to 8,000 tokens; return what `--json` printed."""
    policy = ("--policy", str(spilling(running)))
    done = jettison("compact", str(SAMPLE), "--budget", "8000", *policy, "--data", str(running), "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_compact_prints_a_legal_view_within_the_budget(compacted: dict[str, object]) -> None:
    assert compacted["flaws"] == []
    assert compacted["over_budget"] is False
    assert int(str(compacted["after_tokens"])) <= 8000 < int(str(compacted["before_tokens"]))


def test_compact_without_json_prints_the_messages_alone(running: Path, tmp_path: Path) -> None:
    talk = tmp_path / "talk.json"
    talk.write_text(json.dumps({"messages": DIRTY}))
    done = jettison("compact", str(talk), "--budget", "4000", "--data", str(running))
    assert done.returncode == 0, done.stderr
    view = json.loads(done.stdout)
    assert [message["role"] for message in view] == ["user", "user", "assistant", "tool", "tool", "user"]
    assert "repairs" in done.stderr


def test_every_reading_command_answers_about_the_conversation(running: Path, compacted: dict[str, object]) -> None:
    where = ("--data", str(running))
    address = str(compacted["address"])
    listed = [json.loads(line) for line in jettison("ls", *where, "--json").stdout.splitlines()]
    assert address in {row["address"] for row in listed}
    facts = [json.loads(line) for line in jettison("log", address, *where, "--json").stdout.splitlines()]
    assert {"PolicyAdopted", "ToolOutputSpilled", "HistoryAccounted", "ContextServed"} <= {row["fact"] for row in facts}
    shown = json.loads(jettison("show", address, *where, "--json").stdout)
    assert shown["hash"] == compacted["hash"]
    earlier = json.loads(jettison("show", f"{address}@3", *where, "--json").stdout)
    assert earlier["version"] == 3
    spilled = next(row for row in facts if row["fact"] == "ToolOutputSpilled")
    bytes_found = jettison("artifact", spilled["sha256"][:16], *where).stdout.encode()
    assert len(bytes_found) == spilled["bytes"]
    name = address.partition("/")[2]
    every, one = (
        [json.loads(line) for line in jettison("trace", name, *where, "--json", "--last", last).stdout.splitlines()]
        for last in ("10000", "1")
    )
    assert {"compact spill", "compact digest", "S3.PutObject"} <= {span["name"] for span in every}
    assert {span["trace_id"] for span in one} == {every[-1]["trace_id"]} < {span["trace_id"] for span in every}


def test_replay_verifies_and_gives_the_same_view(running: Path, compacted: dict[str, object]) -> None:
    done = jettison("replay", str(compacted["address"]), "--verify", "--data", str(running), "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["divergence"] is None
    assert found["view_hash"] == compacted["hash"]


def test_doctor_finds_nothing_wrong(running: Path) -> None:
    done = jettison("doctor", "--data", str(running), "--json")
    assert done.returncode == 0, done.stdout
    findings = {found["what"]: found for found in map(json.loads, done.stdout.splitlines())}
    assert all(found["ok"] for found in findings.values())
    # the embedded server's own monitoring port is asked, unnamed
    assert "1 worker on this server read" in findings["rules"]["detail"]
    assert "each write synced" in findings["durability"]["detail"]
    assert "of spill, digest, squeeze, cut take wake-ups" in findings["workers"]["detail"]
    assert "probe was written and read back" in findings["s3"]["detail"]


async def looked_at(there: Runtime) -> Finding:
    """Return what doctor says of artifacts, once the store of a busy machine answers within its time."""
    async with asyncio.timeout(180):
        while (found := await artifacts_found(there)).warns:
            pass
    return found


async def test_doctor_misses_what_the_log_names_in_a_store_that_takes_its_probe(
    running: Path, compacted: dict[str, object]
) -> None:
    at = written_address(str(compacted["address"]))
    async with runtime(located(Settings(data=str(running))), role="test") as there:
        assert "that the log names last: in the bucket" in (await looked_at(there)).detail
        gone = list(mentioned(at, await there.log.read(at, after=0)))[-1]
        body = await there.artifacts.get(at.tenant, gone)
        await there.artifacts.delete(at.tenant, gone)
        lost = await looked_at(there)
        assert (lost.ok, (await store_found(there.settings)).ok) == (False, True)
        assert f"not in the bucket: {gone[:16]} of {at}" in lost.detail
        assert "restore FOLDER --objects" in lost.fix
        await there.artifacts.put(at.tenant, body)


async def test_an_artifact_that_the_store_lost_is_said_with_the_log_that_names_it(
    running: Path, compacted: dict[str, object]
) -> None:
    at = written_address(str(compacted["address"]))
    async with runtime(located(Settings(data=str(running))), role="test") as there:
        gone = next(iter(mentioned(at, await there.log.read(at, after=0))))
        body = await there.artifacts.get(at.tenant, gone)
        await there.artifacts.delete(at.tenant, gone)
        try:
            for key in (gone, gone[:16]):
                done = jettison("artifact", key, "--data", str(running))
                assert (done.returncode, done.stdout) == (1, "")
                assert f"the log of {at} names the artifact {key}, and the store has it no more" in done.stderr
                assert "jettison restore FOLDER --objects" in done.stderr
        finally:
            await there.artifacts.put(at.tenant, body)


def test_what_a_command_shows_or_replaces_is_said(running: Path, compacted: dict[str, object], tmp_path: Path) -> None:
    conv, where, file = str(compacted["address"]), ("--data", str(running)), str(tmp_path / "x.tar")
    shown = jettison("show", conv, *where)
    assert re.search(
        r"^as it stands behind version \d+, .* it shows messages 1,.*156 of 156$", shown.stderr, re.MULTILINE
    )
    assert re.search(r"^--- (assistant|tool) \(bash\) ---$", shown.stdout, re.MULTILINE)
    assert "version 3, " in jettison("show", f"{conv}@3", *where).stderr
    assert "note: told from the older to the newer one, @2 to @3" in jettison("diff", f"{conv}@3", "@2", *where).stderr
    assert [("is replaced" in jettison("export", conv, "--out", file, *where).stderr) for _ in "12"] == [False, True]
    assert re.search(
        r"page 99 is empty: \d+ conversations are on 1 page", jettison("ls", "--page", "99", *where).stderr
    )
    assert (
        "there is no message 999; the last one is 156" in jettison("expand", conv, "--messages", "999", *where).stderr
    )
    assert "at least 8 digits" in jettison("expand", conv, "--artifact", "abc", *where).stderr


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("log", "nobody"), 1, "no conversation"),
        (("show", "nobody@example.com"), 1, "no conversation default/nobody@example.com"),
        (("export", "né/pas ici", "--out", "no/such/folder/x.tar"), 1, "no folder no/such/folder to write x.tar into"),
        (("verify", "no/such/file.jettison.tar"), 1, "no such file or conversation: no/such/file.jettison.tar"),
        (("versions", "no file.tar@3"), 1, "no such file or conversation: no file.tar"),
        (("replay", "nofile.tar.gz"), 1, "no such file or conversation: nofile.tar.gz"),
        (("verify",), 2, "a conversation, a bundle's file, or --all"),
        (("replay",), 2, "bundles' files or folders of them, or --all"),
        (("provision", "--replicas", "0"), 2, "--replicas"),
        (("compact", str(SAMPLE), "--budget", "10", "--out", "no/such/o"), 1, "no folder no/such to write o into"),
        (("show", "nobody@3"), 1, "no conversation"),
        (("show", "nobody@abc"), 1, "no conversation default/nobody@abc; a version is a number: CONV@3"),
        (("show", str(SAMPLE)), 1, "sample.json is a file, and no conversation of this stack"),
        (("log", "nofile.tar"), 1, "no such file or conversation: nofile.tar"),
        (("artifact", "../etc"), 1, "not an artifact's key"),
        (("artifact", "abcdef0123"), 1, "no artifact"),
        (("nonsense",), 2, "No such command"),
        (("compact", "missing.json", "--budget", "10"), 1, "missing.json"),
    ],
)
def test_a_wrong_question_gets_a_sentence_and_an_exit_code(
    running: Path, arguments: tuple[str, ...], code: int, says: str
) -> None:
    done = jettison(*arguments, *(() if arguments == ("nonsense",) else ("--data", str(running))))
    assert (done.returncode, done.stdout) == (code, "")
    assert says in re.sub(r"[\s│]+", " ", done.stderr)
    assert "Traceback" not in done.stderr


def test_a_mistake_in_a_file_with_a_policy_names_the_file_and_what_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"squeeze": {"mode": "sometimes"}}')
    for command in (("policy", "show", str(file)), ("compact", str(SAMPLE), "--budget", "9", "--policy", str(file))):
        done = jettison(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"{file}: policy: " in done.stderr
        assert "`$.squeeze.mode`; allowed: auto, off, select, squeeze, summarize\n" in done.stderr


def test_a_model_that_nobody_can_ask_is_said(running: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.json"
    file.write_text(json.dumps([{"role": "user", "content": "fine"}]))
    told = [
        jettison("compact", str(file), "--budget", "100", "--data", str(running), *more).stderr.count("no LLM endpoint")
        for more in ((), ("--model", "gpt-4o"))
    ]
    assert told == [0, 1]


def test_a_file_that_is_no_transcript_is_refused_with_its_line(running: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"role": "user", "content": "fine"}\n{"role": "user", \n')
    done = jettison("compact", str(broken), "--budget", "100", "--data", str(running))
    assert (done.returncode, done.stdout) == (1, "")
    assert "line 2" in done.stderr


def test_a_message_that_is_none_is_refused_with_its_number(running: Path, tmp_path: Path) -> None:
    file = tmp_path / "third.json"
    fine = {"role": "user", "content": "fine"}
    file.write_text(json.dumps([fine, fine, {"role": "human", "content": "no role"}]))
    done = jettison("compact", str(file), "--budget", "100", "--data", str(running))
    assert (done.returncode, done.stdout) == (1, "")
    assert "message 3 of third-0: role must be one of" in done.stderr
    assert "third-0" not in jettison("ls", "--data", str(running)).stdout, "it leaves no conversation"


def test_a_request_from_standard_input_comes_back_for_its_own_api(running: Path) -> None:
    request = {"system": "Never guess.", "messages": [{"role": "user", "content": "Why?"}], "tools": [{"name": "look"}]}
    done = jettison("compact", "-", "--budget", "800", "--data", str(running), "--json", given=json.dumps(request))
    assert done.returncode == 0, done.stderr
    assert "-: read as anthropic; 1 tool definitions count as tokens" in done.stderr
    found = json.loads(done.stdout)
    assert (found["system"], found["messages"]) == ("Never guess.", request["messages"])


def test_a_name_that_its_address_cannot_say_is_listed_beside_it(running: Path, tmp_path: Path) -> None:
    file = tmp_path / "会话.json"
    file.write_text(json.dumps([{"role": "user", "content": "fine"}]))
    assert jettison("compact", str(file), "--budget", "100", "--data", str(running)).returncode == 0
    listed = jettison("ls", "会话", "--data", str(running)).stdout
    assert re.search(
        r"^\S+ \S+  default/e--\S+  v\d+  1 messages  \d+ of 100 tokens  ready  会话-0-", listed, re.MULTILINE
    )


def test_an_unreachable_server_is_said_without_patience(tmp_path: Path) -> None:
    done = jettison("log", "x", "--nats", "nats://127.0.0.1:9", "--data", str(tmp_path))
    assert done.returncode == 4
    # who is patient instead is told what it waited for
    assert "does not answer (ConnectionRefusedError); is it running?" in done.stderr


def test_without_a_stack_the_way_out_is_named(tmp_path: Path) -> None:
    done = jettison("ls", "--data", str(tmp_path))
    assert done.returncode == 4
    assert "jettison up" in done.stderr
    assert "--data DIR" in done.stderr


def test_a_worker_waits_for_a_server_and_says_so(tmp_path: Path) -> None:
    command = [*jettison_command(), "worker", "spill"]
    worker = subprocess.Popen(
        [*command, "--nats", "nats://127.0.0.1:9", "--data", str(tmp_path)],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert worker.stderr is not None
    try:
        told = worker.stderr.readline().replace("nats://", "")  # nothing comes before it, such as a log of the wait
        assert told.startswith("spill waits: NATS at 127.0.0.1:9 does not answer")
        assert worker.poll() is None
    finally:
        worker.terminate()
        assert worker.wait(timeout=180) == 0
        worker.stderr.close()


def test_a_worker_on_a_server_without_streams_names_the_command(tmp_path: Path) -> None:
    port = free_port()
    options = ("-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(tmp_path / "store"))
    with nats_server(*options, log=tmp_path / "server.log"):
        listened_on(port)
        done = jettison("worker", "digest", "--nats", f"nats://127.0.0.1:{port}", "--data", str(tmp_path))
        assert done.returncode == 1
        assert "jettison provision" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_second_stack_on_the_same_folder_is_refused_in_a_sentence(running: Path) -> None:
    done = jettison("up", "--data", str(running))
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_an_empty_file_and_an_empty_conversation_are_refused(running: Path, tmp_path: Path) -> None:
    for text in ("", "[]", '{"messages": []}'):
        talk = tmp_path / "empty.json"
        talk.write_text(text)
        done = jettison("compact", str(talk), "--budget", "100", "--data", str(running))
        assert (done.returncode, done.stdout) == (1, ""), text
        assert "empty" in done.stderr


def test_json_goes_into_the_file_that_was_asked_for(running: Path, tmp_path: Path) -> None:
    talk, out = tmp_path / "talk.json", tmp_path / "out.json"
    talk.write_text(json.dumps(DIRTY))
    done = jettison("compact", str(talk), "--budget", "4000", "--data", str(running), "--json", "--out", str(out))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert json.loads(out.read_text())["flaws"] == []
    assert list(tmp_path.glob("*.partial")) == []
