"""What a process says of itself by HTTP: that it lives, that it can work, and its metrics; and its log as JSON."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider

from actors.cli.gateway import _needs
from actors.cli.probes import needs_of, probed, probes
from actors.gateway.plan import Planner
from actors.host.bootstrap import Runtime
from actors.host.embedded import EmbeddedStack
from actors.host.readiness import Need, Readiness
from actors.host.settings import GatewaySection, ProbeSection, Settings, load
from actors.runtime.worked import Worked
from actors.telemetry.log_lines import LogLines
from protocol.errors import LogUnavailable
from tests.promises.harness import environment
from tests.stack import ROOT, free_port


@asynccontextmanager
async def asked(readiness: Readiness) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=probes(readiness))
    async with httpx.AsyncClient(transport=transport, base_url="http://probe") as client:
        yield client


async def absent() -> None:
    raise LogUnavailable("NATS does not answer")


async def there() -> None:
    return


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have real servers asked for as long as it takes: on a busy machine more than a probe waits."""
    monkeypatch.setattr("actors.host.readiness.ASK_SECONDS", 180.0)


async def test_a_process_is_ready_while_what_it_needs_is_there() -> None:
    readiness = Readiness()
    async with asked(readiness) as client:
        assert (await client.get("/healthz")).status_code == 200
        before = await client.get("/readyz")
        assert (before.status_code, before.json()["ready"]) == (503, False)
        with readiness.needs({"nats": Need(ask=there), "queues": Need(ask=absent, is_required=False)}):
            ready = await client.get("/readyz")
        with readiness.needs({"nats": Need(ask=absent), "s3": Need(ask=there)}):
            without = await client.get("/readyz")
        after = await client.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"ready": True, "nats": "ok", "queues": "NATS does not answer"})
    assert (without.status_code, without.json()["nats"], without.json()["s3"]) == (503, "NATS does not answer", "ok")
    assert after.status_code == 503


async def test_what_hangs_is_asked_once_and_told_within_a_second() -> None:
    begun = []

    async def hangs() -> None:
        begun.append(True)
        await asyncio.Event().wait()

    readiness = Readiness()
    with readiness.needs({"s3": Need(ask=hangs)}):
        first, second = await readiness.told(), await readiness.told()
    assert first == second == (False, {"s3": "no answer in 1 s"})
    assert len(begun) == 1


async def test_an_answer_is_kept_for_the_probes_that_follow_it() -> None:
    begun = []

    async def counts() -> None:
        begun.append(True)

    readiness = Readiness()
    with readiness.needs({"nats": Need(ask=counts)}):
        assert [(await readiness.told())[0] for _ in range(5)] == [True] * 5
    assert len(begun) == 1


@pytest.mark.usefixtures("patient")
async def test_real_servers_are_asked_and_say_how_the_queues_are(running: Runtime) -> None:
    readiness = Readiness()
    with readiness.needs(needs_of(running, store=True, watches=True, anchors=True)):
        assert await readiness.told() == (True, dict.fromkeys(("nats", "s3", "queues", "storage", "anchors"), "ok"))


@pytest.mark.usefixtures("patient")
async def test_a_service_beside_a_sweeper_of_its_own_says_how_old_the_anchors_are(running: Runtime) -> None:
    readiness = Readiness()
    with readiness.needs(needs_of(running, store=True, anchors=True)):
        assert await readiness.told() == (True, dict.fromkeys(("nats", "s3", "anchors"), "ok"))


async def test_a_gateway_that_forwards_without_nats_is_ready_without_it() -> None:
    planner = Planner(deadline_seconds=1.0)
    for on_failure, ready in (("forward", True), ("refuse", False)):
        readiness = Readiness()
        section = GatewaySection(on_failure=on_failure)  # type: ignore[arg-type]
        with readiness.needs(_needs(section, planner)):
            assert await readiness.told() == (ready, {"nats": "NATS has not answered yet"})


async def test_nothing_listens_unless_a_port_is_set() -> None:
    assert load(environment={}).probe == ProbeSection(port=0, listen="127.0.0.1")
    port = free_port()
    async with probed(ProbeSection()):
        pass
    async with probed(ProbeSection(port=port)):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: probe\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


def test_an_entry_of_the_log_is_a_line_of_json_with_its_trace() -> None:
    form = LogLines(service="worker-spill")
    record = logging.LogRecord("jettison.worker", logging.WARNING, "f", 1, "%s\nwaits \udcff", ("spill",), None)
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("one") as span:
        line = form.format(record)
    entry = json.loads(line)
    assert "\n" not in line
    assert entry.pop("time").endswith("+00:00")
    assert int(entry.pop("trace_id"), 16) == span.get_span_context().trace_id
    assert int(entry.pop("span_id"), 16) == span.get_span_context().span_id
    told = {"level": "WARNING", "logger": "jettison.worker", "message": "spill\nwaits \\udcff"}
    assert entry == {**told, "service": "worker-spill"}


def test_a_worker_says_what_it_did_in_a_line_for_each_actor_and_begins_anew() -> None:
    worked = Worked()
    for outcome, removed in (("applied", 900), ("applied", 300), ("declined", 0)):
        worked.add("digest", outcome, seconds=0.25, removed=removed)  # type: ignore[arg-type]
    worked.add("spill", "failed", seconds=2.0, removed=0)
    assert worked.drained() == [
        "spill: 1 steps (1 failed), the slowest 2.0 s",
        "digest: 3 steps (2 applied, 1 declined), the slowest 0.2 s; 1,200 tokens left views",
    ]
    assert worked.drained() == []


@pytest.mark.parametrize("format", ["json", "text"])
def test_why_a_command_failed_is_an_entry_of_the_log_where_that_is_json(format: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from actors.cli import main; main()", "ls", "--nats", "nats://127.0.0.1:9"]
    named = {**os.environ, "JETTISON_LOG__FORMAT": format, "JETTISON_DATA": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=named, capture_output=True, text=True, check=False)
    last = done.stderr.splitlines()[-1]
    assert done.returncode == 4
    told = json.loads(last)["message"] if format == "json" else last.removeprefix("jettison: ")
    assert told.startswith("NATS at nats://127.0.0.1:9 does not answer")


@contextmanager
def worker(settings: Settings, role: str, port: int, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker with its probes at *port*, and its log in *log*."""
    named = environment(settings, JETTISON_PROBE__PORT=str(port), JETTISON_LOG__FORMAT="json", OTEL_SDK_DISABLED="")
    # a process that OpenTelemetry's provider can be set in, so no fork of one
    command = [sys.executable, "-c", "from actors.cli import main; main()", "worker", role]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=named, stderr=out)
        try:
            yield process
        finally:
            process.terminate()
            assert process.wait(timeout=180) == 0


def got(port: int, path: str) -> tuple[int, str]:
    """Return status and text of an answer; 0 while nobody listens."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.slow
async def test_a_worker_answers_its_probes_and_logs_json(
    settings: Settings, stack: EmbeddedStack, tmp_path: Path
) -> None:
    port, log = free_port(), tmp_path / "log"
    with worker(settings, "sweeper", port, log):
        ends = time.monotonic() + 180
        while (status := (await asyncio.to_thread(got, port, "/readyz"))[0]) != 200:
            assert time.monotonic() < ends, (status, log.read_text())
            await asyncio.sleep(0.05)
        assert got(port, "/healthz")[0] == 200
        metrics = got(port, "/metrics")[1]
    assert metrics.endswith("# EOF\n")
    for actor in ("spill", "digest", "squeeze", "cut"):
        assert f'jettison_queue_age_seconds{{jettison_lane="normal",jettison_stage="{actor}"}}' in metrics
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    assert f"sweeper works on {settings.nats.url}" in [entry["message"] for entry in entries]
    assert {entry["service"] for entry in entries} == {"worker-sweeper"}
