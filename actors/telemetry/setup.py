"""Telemetry of a process: where spans and metrics go, and the spans of LLM calls.

`OTEL_EXPORTER_OTLP_ENDPOINT` (or the one for traces) wins; without it spans go to a local file as OTLP/JSON, which
`jettison trace` draws. `OTEL_SDK_DISABLED=true` turns all of it off. Telemetry never stops the work.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from opentelemetry import metrics, trace

from protocol import semconv
from protocol.tracing import span

from .exposition import prometheus_reader
from .span_json import otlp_json

if TYPE_CHECKING:  # the SDK takes a tenth of a second to import, and many commands record nothing
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

log = logging.getLogger("jettison.telemetry")

FILE_BYTES_MAX = 64 * 2**20
FILE_DELAY_MILLISECONDS = 200.0
"""Short, because a person who runs `jettison trace` expects to see what just happened."""

SHUTDOWN_SECONDS = 5.0
"""How long the end of a process waits for a collector that does not answer."""

# The SDK's own boundaries suit milliseconds.
SECONDS_BOUNDARIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
BYTES_BOUNDARIES = tuple(float(4**power) for power in range(4, 14))  # 256 B to 64 MiB

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
METRICS_ENDPOINT = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"


@dataclass(frozen=True, kw_only=True)
class Telemetry:
    """What `configure` started."""

    stops: tuple[Callable[[], object], ...] = ()

    def shutdown(self) -> None:
        """Send what is still here, waiting `SHUTDOWN_SECONDS` at most."""
        threads = [threading.Thread(target=stop, daemon=True) for stop in self.stops]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + SHUTDOWN_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))


def configure(*, service: str, trace_dir: Path | None, scraped: bool = False) -> Telemetry:
    """Start to record this process as *service*; the caller shuts it down. *scraped*: `exposition` shows its metrics.

    Without an OTLP endpoint spans go to `{trace_dir}/{service}-{pid}.jsonl`, or nowhere if that is None. If
    somebody set up OpenTelemetry before us, theirs stays and nothing is started. A second call in one process
    adds its own destination for spans; the resource (`service.name`) remains that of the first.
    """
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", service), service
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return Telemetry()
    file = trace_dir / f"{service}-{os.getpid()}.jsonl" if trace_dir else None
    stops = (_start_spans(service, file), _start_metrics(service, scraped=scraped))
    return Telemetry(stops=tuple(stop for stop in stops if stop))


def _start_spans(service: str, file: Path | None) -> Callable[[], object] | None:
    """Send spans where they belong; return what stops it."""
    is_collected = _is_set(ENDPOINT, TRACES_ENDPOINT)
    if file is None and not is_collected:
        return None
    provider = _our_provider(service)
    if provider is None:
        log.info("OpenTelemetry is set up already; spans go where that sends them")
        return None
    processor = _processor(None if is_collected else file)
    provider.add_span_processor(processor)
    return processor.shutdown


def _our_provider(service: str) -> TracerProvider | None:
    """Return the process's provider if it is ours, or can be."""
    from opentelemetry.sdk.trace import TracerProvider

    current = trace.get_tracer_provider()
    if isinstance(current, trace.ProxyTracerProvider):
        current = TracerProvider(resource=_resource(service))
        trace.set_tracer_provider(current)
    if isinstance(current, TracerProvider) and current.resource.attributes.get(semconv.DISTRO_NAME) == semconv.SCOPE:
        return current
    return None


def _processor(file: Path | None) -> SpanProcessor:
    """Return the exporter of spans: to *file*, or else to the collector."""
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    if file is not None:
        exporter = cast("SpanExporter", SpanFile(file))
        return BatchSpanProcessor(exporter, schedule_delay_millis=FILE_DELAY_MILLISECONDS)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return BatchSpanProcessor(OTLPSpanExporter())


def _start_metrics(service: str, *, scraped: bool) -> Callable[[], object] | None:
    """Export metrics if a collector takes them or somebody scrapes; return what stops it."""
    readers: list[MetricReader] = [reader] if scraped and (reader := prometheus_reader()) else []
    # An endpoint for traces alone does not count: the exporter would try a collector on this machine.
    if _is_set(ENDPOINT, METRICS_ENDPOINT):
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if not readers:
        return None
    from opentelemetry.sdk.metrics import MeterProvider

    if isinstance(metrics.get_meter_provider(), MeterProvider):
        return None
    provider = MeterProvider(metric_readers=readers, resource=_resource(service))
    metrics.set_meter_provider(provider)
    return provider.shutdown


def _resource(service: str) -> Resource:
    from opentelemetry.sdk.resources import Resource

    named = os.environ.get("OTEL_SERVICE_NAME") or service
    return Resource.create({semconv.SERVICE_NAME: named, semconv.DISTRO_NAME: semconv.SCOPE})


def _is_set(*names: str) -> bool:
    return any(os.environ.get(name) for name in names)


class SpanFile:
    """Append spans to a file as OTLP/JSON, one request per line; at *bytes_max* it becomes the one older file.

    It is a `SpanExporter` by shape, since inheriting would import the SDK with this module. The file is opened
    for every batch, so nothing is held open, and a folder that was removed comes back.
    """

    def __init__(self, path: Path, *, bytes_max: int = FILE_BYTES_MAX) -> None:
        assert bytes_max > 0
        self._path = path
        self._bytes_max = bytes_max
        self._is_failing = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Write one line. A full disk is logged once and costs these spans, nothing else."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            self._append(otlp_json(spans) + b"\n")
        except OSError as error:
            if not self._is_failing:
                log.warning("spans are not written to %s: %s", self._path, error.strerror)
            self._is_failing = True
            return SpanExportResult.FAILURE
        self._is_failing = False
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Do nothing: every line was flushed when it was written."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Say that nothing waits here."""
        return True

    def _append(self, line: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size + len(line) > self._bytes_max:
            self._path.replace(self._path.with_suffix(".1.jsonl"))
        with self._path.open("a+b") as file:
            # A process with our id may have died in the middle of a line; ours must not be damaged with it.
            if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                file.write(b"\n")
            file.write(line)


@dataclass(frozen=True, kw_only=True)
class LlmCall:
    """The span of one question to a model."""

    span: trace.Span
    model: str

    def answered(
        self, *, input_tokens: int, output_tokens: int, finish_reason: str, cost_microdollars: int = 0
    ) -> None:
        """Record what the answer cost and why it ended; zero or empty means that the endpoint did not say."""
        if input_tokens:
            self.span.set_attribute(semconv.GEN_AI_USAGE_INPUT_TOKENS, input_tokens)
        if output_tokens:
            self.span.set_attribute(semconv.GEN_AI_USAGE_OUTPUT_TOKENS, output_tokens)
        if finish_reason:
            self.span.set_attribute(semconv.GEN_AI_RESPONSE_FINISH_REASONS, (finish_reason,))
        if cost_microdollars:
            self.span.set_attribute(semconv.COST_MICRODOLLARS, cost_microdollars)
            paid = metric_counter(semconv.LLM_COST, "{microdollar}", "What models were paid, by the table of prices")
            paid.add(cost_microdollars, {semconv.GEN_AI_REQUEST_MODEL: self.model})


@contextmanager
def llm_span(model: str) -> Iterator[LlmCall]:
    """Record one question to *model*, never its text.

    Not through `opentelemetry-util-genai`: its spans carry the exception's message as their status.
    """
    attributes = {
        semconv.GEN_AI_OPERATION_NAME: "chat",
        semconv.GEN_AI_PROVIDER_NAME: "openai",
        semconv.GEN_AI_REQUEST_MODEL: model,
    }
    with span(semconv.chat(model), kind="client", attributes=attributes) as current:
        yield LlmCall(span=current, model=model)


def record_step(stage: str, outcome: semconv.Outcome, *, seconds: float, tokens_removed: int) -> None:
    """Count one step of *stage* in the metrics."""
    took = histogram(semconv.COMPACTION_DURATION, "s", "Time of one step of an actor")
    took.record(seconds, {semconv.STAGE: stage, semconv.OUTCOME: outcome})
    if tokens_removed > 0:
        removed = metric_counter(semconv.TOKENS_REMOVED, "{token}", "Tokens that steps took out of contexts")
        removed.add(tokens_removed, {semconv.STAGE: stage})


def record_artifact(kind: str, *, size_bytes: int) -> None:
    """Count one stored artifact; *kind* is a label, so it must be one of few."""
    sizes = histogram(semconv.ARTIFACT_SIZE, "By", "Bytes moved out of contexts, per artifact")
    sizes.record(size_bytes, {semconv.ARTIFACT_KIND: kind})


@cache
def metric_counter(name: str, unit: str, description: str) -> metrics.Counter:
    """Return the counter called *name*; it finds a provider that is set after it was made."""
    return metrics.get_meter(semconv.SCOPE).create_counter(name, unit=unit, description=description)


@cache
def histogram(name: str, unit: str, description: str) -> metrics.Histogram:
    """Return the histogram called *name*, with boundaries for its unit."""
    boundaries = {"s": SECONDS_BOUNDARIES, "By": BYTES_BOUNDARIES}.get(unit)
    return metrics.get_meter(semconv.SCOPE).create_histogram(
        name, unit=unit, description=description, explicit_bucket_boundaries_advisory=boundaries
    )


@cache
def gauge(name: str, unit: str, description: str) -> metrics._Gauge:
    """Return the gauge called *name*."""
    return metrics.get_meter(semconv.SCOPE).create_gauge(name, unit=unit, description=description)
