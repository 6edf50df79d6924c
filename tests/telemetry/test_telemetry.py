"""Telemetry end to end: a process records, a file or a collector has it, a person sees it as a tree.

OpenTelemetry's provider can be set once per process, so what records runs in processes of its own.
"""

import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExportResult
from rich.console import Console
from rich.tree import Tree

from actors.telemetry.setup import SpanFile
from actors.telemetry.trace_view import SpanRow, as_json, find_spans, newest, read_spans, trace_tree

ROOT = Path(__file__).resolve().parents[2]
SECRET = "sk-planted-51f0c9"
TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

IMPORTS = """
import asyncio, sys
from pathlib import Path
from opentelemetry import metrics, trace
from actors.telemetry.setup import configure, llm_span, record_artifact, record_step
from protocol import semconv
from protocol.tracing import extract, link_to, s3_span, span, traced

folder = Path(sys.argv[1])
"""
START = 'running = configure(service="worker-spill", trace_dir=folder)'

# An agent publishes; spill steps, stores and asks a model; the wake-up is delivered a second time.
STORY = """
with span(semconv.PUBLISH_SAID, kind="producer", attributes={semconv.GEN_AI_CONVERSATION_ID: "c1"}):
    headers = traced()
with span(f"process {semconv.wake_template('spill')}", kind="consumer", parent=extract(headers)):
    with span(semconv.compact("spill"), attributes={semconv.BEFORE_TOKENS: 12000, semconv.AFTER_TOKENS: 900}) as step:
        with s3_span("PutObject", bucket="jettison", key="t1/abc"):
            pass
        with llm_span("smollm2") as call:
            call.answered(input_tokens=70, output_tokens=7, finish_reason="stop")
        step.set_attribute(semconv.OUTCOME, "applied")
with span("process again", kind="consumer", links=link_to(headers)):
    pass
"""


def ran(code: str, folder: Path, /, *, start: str = START, **environment: str) -> str:
    """Run *code* in its own process, after `configure` and before `shutdown`; return its standard output."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    program = "\n".join((IMPORTS, textwrap.dedent(start), textwrap.dedent(code), "running.shutdown()"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, str(folder)],
        cwd=ROOT,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that holds the story's trace file."""
    folder = tmp_path_factory.mktemp("traces")
    ran(STORY, folder)
    return folder


def written(folder: Path) -> list[dict[str, Any]]:
    """Return every span of the folder as OTLP/JSON has it."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]
    groups = [group for line in lines for group in msgspec.json.decode(line)["resourceSpans"]]
    return [one for group in groups for scope in group["scopeSpans"] for one in scope["spans"]]


def drawn(tree: Tree) -> str:
    console = Console(width=200, color_system=None)
    with console.capture() as captured:
        console.print(tree)
    return captured.get()


def row(span_id: str, parent_id: str = "", /, **more: Any) -> SpanRow:
    usual: dict[str, Any] = {"trace_id": "t", "name": span_id, "service": "s", "start_unix_nano": 0, "duration_ms": 1.0}
    return SpanRow(span_id=span_id, parent_id=parent_id, **(usual | more))


def ended_span() -> ReadableSpan:
    with TracerProvider(shutdown_on_exit=False).get_tracer("test").start_as_current_span("one") as one:
        assert isinstance(one, ReadableSpan)
    return one


def test_spans_land_in_the_file_as_otlp_json(told: Path) -> None:
    (path,) = told.iterdir()
    assert re.fullmatch(r"worker-spill-\d+\.jsonl", path.name)
    line = msgspec.json.decode(path.read_bytes().splitlines()[0])
    resource = {item["key"]: item["value"] for item in line["resourceSpans"][0]["resource"]["attributes"]}
    assert resource["service.name"] == {"stringValue": "worker-spill"}
    (step,) = (one for one in written(told) if one["name"] == "compact spill")
    assert re.fullmatch(r"[0-9a-f]{32}", step["traceId"])
    assert re.fullmatch(r"[0-9a-f]{16}", step["spanId"])
    assert re.fullmatch(r"[0-9a-f]{16}", step["parentSpanId"])
    assert (step["kind"], step["startTimeUnixNano"].isdigit()) == (1, True)
    assert {"key": "jettison.before_tokens", "value": {"intValue": "12000"}} in step["attributes"]


def test_a_trace_goes_on_over_headers(told: Path) -> None:
    spans = {one["name"]: one for one in written(told)}
    published = spans["publish ctx.v1.log.{tenant}.{conversation}.said"]
    processed = spans["process ctx.v1.wake.spill.{tenant}.{conversation}"]
    assert processed["traceId"] == published["traceId"]
    assert processed["parentSpanId"] == published["spanId"]
    assert "parentSpanId" not in published


def test_redelivery_is_linked_in_its_own_trace(told: Path) -> None:
    published, again = (one for one in written(told) if one["name"].endswith((".said", "again")))
    assert again["traceId"] != published["traceId"]
    assert [(one["traceId"], one["spanId"]) for one in again["links"]] == [(published["traceId"], published["spanId"])]


def test_calls_of_models_and_s3_follow_the_conventions(told: Path) -> None:
    rows = {one.name: one for one in read_spans(told, "c1", "t")}
    assert rows["chat smollm2"].attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "smollm2",
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    stored = {"rpc.service": "S3", "rpc.method": "PutObject", "aws.s3.bucket": "jettison", "aws.s3.key": "t1/abc"}
    assert rows["S3.PutObject"].attributes == stored | {"rpc.system": "aws-api"}


def test_headers_carry_the_trace_and_nothing_else(tmp_path: Path) -> None:
    """Without an SDK in the process, what came in still goes out; other clients may spell headers differently."""
    code = f"""
    assert traced() == {{}}
    assert (link_to({{"Nats-Msg-Id": "1"}}), link_to(None), link_to({{"traceparent": "nonsense"}})) == ((), (), ())
    headers = {{"Traceparent": "{TRACEPARENT}", "tracestate": "v=1", "baggage": "a=b"}}
    with span("process", parent=extract(headers)):
        print(sorted(traced().items()))
    """
    printed = ran(code, tmp_path, start='running = configure(service="doctor", trace_dir=None)')
    assert printed == f"[('traceparent', '{TRACEPARENT}'), ('tracestate', 'v=1')]\n"


def test_baggage_of_the_agent_stays_out_of_headers(tmp_path: Path) -> None:
    code = f"""
    from opentelemetry import baggage, context
    context.attach(baggage.set_baggage("user", "{SECRET}"))
    with span("publish"):
        print(sorted(traced()))
    """
    assert ran(code, tmp_path) == "['traceparent']\n"


def test_nothing_that_an_exception_says_is_recorded(tmp_path: Path) -> None:
    code = f"""
    calls = (span("compact cut"), llm_span("m"), s3_span("GetObject", bucket="b", key="k"))
    for call in calls:
        try:
            with span("outer"), call:
                raise ValueError("the conversation said {SECRET}") from KeyError("{SECRET}")
        except ValueError:
            pass

    async def too_slow():
        with span("slow"):
            await asyncio.sleep(9)

    try:
        asyncio.run(asyncio.wait_for(too_slow(), 0.01))
    except TimeoutError:
        pass
    """
    ran(code, tmp_path)
    spans = written(tmp_path)
    assert len(spans) == 7
    assert SECRET not in "".join(path.read_text() for path in tmp_path.iterdir())
    for one in spans:
        name = "CancelledError" if one["name"] == "slow" else "ValueError"
        assert one["status"] == {"code": 2, "message": name}
        assert {"key": "error.type", "value": {"stringValue": name}} in one["attributes"]
        assert "events" not in one


def test_a_disabled_sdk_records_nothing(tmp_path: Path) -> None:
    code = STORY + "print(type(trace.get_tracer_provider()).__name__)"
    disabled = ran(code, tmp_path, OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")
    assert disabled == "ProxyTracerProvider\n"
    assert list(tmp_path.iterdir()) == []


def test_without_a_destination_nothing_is_started(tmp_path: Path) -> None:
    code = 'print(type(trace.get_tracer_provider()).__name__, "opentelemetry.sdk" in sys.modules)'
    printed = ran(code, tmp_path, start='running = configure(service="doctor", trace_dir=None)')
    assert printed == "ProxyTracerProvider False\n"


def test_another_setup_of_opentelemetry_is_left_alone(tmp_path: Path) -> None:
    start = f"""
    from opentelemetry.sdk.trace import TracerProvider
    theirs = TracerProvider()
    trace.set_tracer_provider(theirs)
    {START}
    """
    ran(STORY + "assert trace.get_tracer_provider() is theirs", tmp_path, start=start)
    assert list(tmp_path.iterdir()) == []


def test_a_process_may_configure_again(tmp_path: Path) -> None:
    code = """
    with span("first"):
        pass
    running.shutdown()
    running = configure(service="again", trace_dir=folder / "more")
    with span("second"):
        pass
    """
    ran(code, tmp_path)
    assert [one["name"] for one in written(tmp_path)] == ["first"]
    assert [one["name"] for one in written(tmp_path / "more")] == ["second"]


def test_a_file_is_rotated_once_and_repairs_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "up-1.jsonl"
    one = ended_span()
    file = SpanFile(path, bytes_max=2_000)
    assert file.export([one]) is SpanExportResult.SUCCESS
    line = path.read_bytes()
    path.write_bytes(line + b'{"resourceSp')
    file.export([one])
    assert path.read_bytes() == line + b'{"resourceSp\n' + line
    for _ in range(12):
        file.export([one])
    older = path.with_name("up-1.1.jsonl")
    assert sorted(path.parent.iterdir()) == [older, path]
    assert all(0 < each.stat().st_size <= 2_000 for each in (older, path))


def test_a_place_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("not a folder")
    file = SpanFile(tmp_path / "file" / "up-1.jsonl")
    assert [file.export([ended_span()]) for _ in range(3)] == [SpanExportResult.FAILURE] * 3
    assert len([one for one in caplog.records if one.name.startswith("jettison")]) == 1


@contextmanager
def collector() -> Iterator[tuple[str, dict[str, list[bytes]]]]:
    """Serve OTLP/HTTP on loopback; yield its address and what was sent to which path."""
    sent: dict[str, list[bytes]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.headers["Content-Type"] == "application/x-protobuf"
            sent.setdefault(self.path, []).append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Stay quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", sent
        server.shutdown()
        thread.join()


def test_spans_and_metrics_reach_a_collector_and_no_file(tmp_path: Path) -> None:
    steps = """
    record_step("spill", "applied", seconds=0.02, tokens_removed=11100)
    record_step("cut", "noop", seconds=0.001, tokens_removed=0)
    record_artifact("tool_result", size_bytes=4096)
    """
    with collector() as (address, sent):
        ran(STORY + textwrap.dedent(steps), tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address)
    assert list(tmp_path.iterdir()) == []
    # protobuf messages are merged by putting their bytes one after the other
    traced = ExportTraceServiceRequest.FromString(b"".join(sent["/v1/traces"]))
    spans = [one for group in traced.resource_spans for scope in group.scope_spans for one in scope.spans]
    assert len(spans) == 6
    ids = {one.name: (one.span_id, one.parent_span_id) for one in spans}
    assert ids["chat smollm2"][1] == ids["compact spill"][0]
    measured = ExportMetricsServiceRequest.FromString(b"".join(sent["/v1/metrics"]))
    kinds = [one for group in measured.resource_metrics for scope in group.scope_metrics for one in scope.metrics]
    points = [(one.name, point) for one in kinds for point in (*one.histogram.data_points, *one.sum.data_points)]
    # No conversation and no tenant: labels must stay few.
    assert {(name, *sorted(label.key for label in point.attributes)) for name, point in points} == {
        ("jettison.compaction.duration", "jettison.outcome", "jettison.stage"),
        ("jettison.tokens.removed", "jettison.stage"),
        ("jettison.artifact.size", "jettison.artifact.kind"),
    }


def test_a_collector_for_traces_alone_gets_no_metrics(tmp_path: Path) -> None:
    with collector() as (address, sent):
        code = STORY + "print(type(metrics.get_meter_provider()).__name__)"
        printed = ran(code, tmp_path, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=f"{address}/custom")
    assert printed == "_ProxyMeterProvider\n"
    assert list(sent) == ["/custom"]


@pytest.mark.slow
def test_a_collector_that_never_answers_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        address = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        # who waits for an answer does so for an hour, and `ran` does not
        ran(STORY, tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_TIMEOUT="3600")


def test_the_tree_shows_who_called_whom(told: Path) -> None:
    tree = drawn(trace_tree(read_spans(told, "c1", "t")))
    shape = [re.sub(r" +\d+\.\d ms", "", line).rstrip() for line in tree.splitlines()]
    assert re.fullmatch(r"trace [0-9a-f]{32}  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, 5 spans", shape[0])
    assert shape[1:] == [
        "└── publish ctx.v1.log.{tenant}.{conversation}.said  [worker-spill]",
        "    └── process ctx.v1.wake.spill.{tenant}.{conversation}  [worker-spill]",
        "        └── compact spill  applied  12,000 → 900 tokens  [worker-spill]",
        "            ├── S3.PutObject  [worker-spill]",
        "            └── chat smollm2  [worker-spill]",
    ]


def test_only_traces_of_the_conversation_are_read(told: Path) -> None:
    assert {one.name for one in read_spans(told, "c1", "t")} & {"process again"} == set()
    assert read_spans(told, "c", "t") == []
    assert read_spans(told / "missing", "c1", "t") == []


def test_damaged_lines_are_skipped_and_counted(told: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = next(told.iterdir()).read_bytes()
    damaged = [b"\xff\xfe c1", b"[]", b'{"resourceSpans":[{"scopeSpans":7}]} c1', b'{"resourceSpans":[]} trailing']
    (tmp_path / "a.jsonl").write_bytes(b"\n".join([*damaged, whole, b"", whole.splitlines()[0][:-90]]))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    found = find_spans(tmp_path, "c1")
    assert (list(found.rows), found.damaged_lines) == (read_spans(told, "c1", "t"), 5)
    read_spans(tmp_path, "c1", "t")
    assert "5 damaged lines" in caplog.text


def test_the_tree_hides_nothing_and_says_what_failed() -> None:
    rows = [
        row("child", "lost", start_unix_nano=2, outcome="failed", error="Contended"),
        row("grandchild", "child", start_unix_nano=3),
        row("circle-a", "circle-b", start_unix_nano=3),
        row("circle-b", "circle-a", start_unix_nano=4),
        row("root", start_unix_nano=1, name="\x1b[31mred\n[bold]", links=("t/x",)),
    ]
    assert [line[:60].rstrip() for line in drawn(trace_tree(rows)).splitlines()[1:]] == [
        "├── �[31mred�[bold]  1.0 ms  ↪ 1 linked  [s]",
        "├── child  1.0 ms  failed  Contended  [s]",
        "│   └── grandchild  1.0 ms  [s]",
        "├── circle-a  1.0 ms  [s]",
        "└── circle-b  1.0 ms  [s]",
    ]


def test_the_last_traces_are_the_newest_and_may_be_deep() -> None:
    deep = [row(f"s{depth}", f"s{depth - 1}", trace_id="new", start_unix_nano=10 + depth) for depth in range(3_000)]
    rows = [*deep, row("old", trace_id="old", start_unix_nano=1)]
    assert [str(branch.label).split()[1] for branch in trace_tree(newest(rows, 1)).children] == ["new"]
    assert [str(branch.label).split()[1] for branch in trace_tree(newest(rows, 5)).children] == ["old", "new"]


def test_json_rows_have_stable_keys(told: Path) -> None:
    (step,) = (one for one in as_json(read_spans(told, "c1", "t")) if one["name"] == "compact spill")
    keys = "trace_id span_id parent_id name service start_unix_nano duration_ms outcome before_tokens after_tokens"
    assert set(step) == {*keys.split(), "error", "links", "attributes"}
    assert (step["outcome"], step["before_tokens"], step["after_tokens"]) == ("applied", 12_000, 900)
