"""What an operator sees of a gateway that he starts: a line for each request, and what is in the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.provider import BODY
from tests.stack import ROOT, jettison_command

TRACE = "ab" * 16
NOWHERE = {"JETTISON_GATEWAY__UPSTREAM__OPENAI": "http://user:secret@127.0.0.1:1/folder"}


def environment(**more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("JETTISON_", "OTEL_"))}
    return {**kept, **more}


def refused(*arguments: str, **more: str) -> tuple[int, str]:
    """Run a command that cannot start; return its exit code and its last line."""
    command = [*jettison_command(), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(**more), capture_output=True, text=True, check=False, timeout=180
    )
    return done.returncode, done.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("command", [("up", "--gateway"), ("gateway", "--nats", "nats://127.0.0.1:1")])
def test_both_ways_to_run_a_gateway_log_a_line_for_each_request(command: tuple[str, ...], tmp_path: Path) -> None:
    named = environment(JETTISON_GATEWAY__PORT="0", **NOWHERE)
    argv = [*jettison_command(), *command, "--data", str(tmp_path)]
    process = subprocess.Popen(argv, cwd=ROOT, env=named, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if line.startswith("ready"):
                break
        url = next(word for line in said for word in line.split() if word.startswith("OPENAI_BASE_URL="))
        given = {"traceparent": f"00-{TRACE}-{'cd' * 8}-01"}
        request = urllib.request.Request(f"{url.removeprefix('OPENAI_BASE_URL=')}/chat/completions", BODY, given)
        with pytest.raises(urllib.error.HTTPError, match="502"):
            urllib.request.urlopen(request, timeout=180)
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.stderr.read()
        assert process.wait(timeout=180) == 0
        process.stderr.close()
    assert "jettison.gateway.requests: chat " in rest
    # one trace, from the agent's request over the log; what its provider gets of it is seen where that is there
    found = {span["name"]: span for span in spans_of(tmp_path) if span["traceId"] == TRACE}
    assert found["gateway chat"]["parentSpanId"] == "cd" * 8
    said_in_it = found.get("publish ctx.v1.log.{tenant}.{conversation}.said")
    assert (said_in_it is not None) == (command[0] == "up")
    assert said_in_it is None or said_in_it["parentSpanId"] == found["gateway chat"]["spanId"]


def spans_of(data: Path) -> list[Any]:
    """Return all spans in the trace files below *data*."""
    lines = [line for file in (data / "traces").glob("*.jsonl") for line in file.read_text().splitlines()]
    groups = [group for line in lines for group in json.loads(line)["resourceSpans"]]
    return [span for group in groups for scope in group["scopeSpans"] for span in scope["spans"]]


def test_a_taken_port_names_its_setting_and_ends_with_4_whoever_listens(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        where = f"jettison: port {port} of 127.0.0.1: Address already in use"
        mode = {"JETTISON_GATEWAY__MODE": "pass"}
        assert refused("gateway", *data, JETTISON_GATEWAY__PORT=str(port), **mode) == (
            4,
            f"{where}; set JETTISON_GATEWAY__PORT to another one",
        )
        assert refused("gateway", *data, "--port", str(port), **mode) == (4, f"{where}; give another --port")
        assert refused("gateway", *data, JETTISON_PROBE__PORT=str(port), JETTISON_GATEWAY__PORT="0", **mode) == (
            4,
            f"{where}; set JETTISON_PROBE__PORT to another one",
        )
        assert refused("up", *data, "--nats-port", str(port)) == (
            4,
            f"jettison: port {port} on 127.0.0.1 is taken, or this user may not listen there; "
            "give another --nats-port, or leave it out for a free one",
        )


@pytest.mark.slow
def test_up_with_the_gateways_port_taken_names_the_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("up", "--gateway", "--data", str(tmp_path), JETTISON_GATEWAY__PORT=str(port))
    assert (code, said.partition("; ")[2]) == (4, "set JETTISON_GATEWAY__PORT to another one")


@pytest.mark.parametrize("listen", ["nowhere.invalid", "192.0.2.1"])
def test_what_is_no_address_here_names_the_setting_too(listen: str, tmp_path: Path) -> None:
    given = {"JETTISON_GATEWAY__LISTEN": listen, "JETTISON_GATEWAY__MODE": "pass", "JETTISON_GATEWAY__PORT": "0"}
    code, said = refused("gateway", "--data", str(tmp_path), **given)
    assert (code, said.endswith("correct JETTISON_GATEWAY__LISTEN")) == (1, True), said
