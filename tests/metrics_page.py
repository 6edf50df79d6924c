"""The page of metrics and spans (`infra/docs/metrics.md`): what is shown when all was recorded once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import msgspec
from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric as Family

from actors.telemetry import setup
from actors.telemetry.gateway_metrics import Counted, record_request
from actors.telemetry.service_metrics import (
    record_anchors,
    record_letter,
    record_log,
    record_overdue,
    record_queue,
    record_retained,
    record_round,
    record_served,
    record_storage,
)
from actors.telemetry.setup import llm_span, record_artifact, record_step
from protocol import semconv
from storage import store_metrics
from storage.store_metrics import record_failure

ROOT = Path(__file__).parents[1]

CACHES = (setup.metric_counter, setup.histogram, setup.gauge, store_metrics._failures)


class Shown(NamedTuple):
    """One metric, by both names."""

    name: str
    shown: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    about: str
    series: frozenset[str]
    """The names that Prometheus stores, such as those that end in `_bucket`."""


def record_everything() -> None:
    """Record each metric with all the labels that it may have."""
    record_step("spill", "applied", seconds=0.1, tokens_removed=1)
    record_artifact("text", size_bytes=1)
    with llm_span("m") as call:
        call.answered(input_tokens=1, output_tokens=1, finish_reason="stop", cost_microdollars=1)
    record_served("context", seconds=0.1, error="NotReady")
    record_letter("spill", "fault")
    record_queue("spill", "normal", slots=1, age_seconds=1.0)
    record_log(size_bytes=1, replicas_behind=0)
    record_storage(used_bytes=1, limit_bytes=1)
    record_anchors(age_seconds=1.0)
    record_retained("archived")
    record_overdue(age_seconds=1.0)
    record_round(failed=True)
    record_failure("PutObject")
    sample = {str: "x", int: 1, float: 1.0}
    one = {field.name: sample[field.type] for field in msgspec.structs.fields(Counted)}
    record_request(Counted(**one | {"status": 200}))  # type: ignore[arg-type]


@contextmanager
def recording(provider: MeterProvider) -> Iterator[None]:
    """Have all that is recorded meanwhile go to *provider*."""
    for cached in CACHES:
        cached.cache_clear()
    try:
        with patch.object(metrics, "get_meter", provider.get_meter):
            yield
    finally:
        for cached in CACHES:
            cached.cache_clear()


def shown() -> list[Shown]:
    """Return every metric as OpenTelemetry has it and as Prometheus reads it."""
    registry, memory = CollectorRegistry(), InMemoryMetricReader()
    exporter = PrometheusMetricReader(scope_info_enabled=False, disable_target_info=True, registry=registry)
    provider = MeterProvider(metric_readers=[memory, exporter], shutdown_on_exit=False)
    with recording(provider):
        record_everything()
    data = memory.get_metrics_data()
    assert data is not None
    known = [one for group in data.resource_metrics for scope in group.scope_metrics for one in scope.metrics]
    families = {_plain(family.name): family for family in registry.collect()}
    return sorted(_shown(one.name, one.unit or "", _family(one.name, families)) for one in known)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name)


def _family(name: str, families: dict[str, Family]) -> Family:
    # the exporter puts the unit behind the name, and nothing else
    found = [family for plain, family in families.items() if plain.startswith(_plain(name))]
    return min(found, key=lambda family: len(family.name))


def _shown(name: str, unit: str, family: Family) -> Shown:
    labels = {label for sample in family.samples for label in sample.labels} - {"le"}
    series = frozenset(sample.name for sample in family.samples)
    name_shown = f"{family.name}_total" if family.type == "counter" else family.name
    return Shown(name, name_shown, family.type, unit, tuple(sorted(labels)), family.documentation, series)


def metrics_table() -> str:
    """Return the table of metrics."""
    head = "| metric | as Prometheus shows it | kind | unit | labels | |\n|---|---|---|---|---|---|"
    rows = [
        f"| `{one.name}` | `{one.shown}` | {one.kind} | {one.unit} | {', '.join(f'`{label}`' for label in one.labels)} "
        f"| {one.about} |"
        for one in shown()
    ]
    return "\n".join([head, *rows])


class SpanRow(NamedTuple):
    """A span as people know it."""

    name: str
    about: str


SPANS = {
    "semconv.PUBLISH_SAID": SpanRow("publish ctx.v1.log.{tenant}.{conversation}.said", "an agent says something"),
    "f'ask {verb}'": SpanRow("ask VERB", "an agent asks the context service"),
    "f'serve {verb}'": SpanRow("serve VERB", "the context service answers"),
    "f'process {semconv.wake_template(actor)}'": SpanRow(
        "process ctx.v1.wake.ACTOR.{tenant}.{conversation}", "a worker has a slot, from its delivery until it is free"
    ),
    "semconv.compact(actor)": SpanRow("compact ACTOR", "one step of an actor"),
    "semconv.chat(model)": SpanRow("chat MODEL", "one question to a model that retells"),
    "semconv.s3(method)": SpanRow("S3.METHOD", "one call of the artifact store"),
    "f'gateway {api.name}'": SpanRow("gateway API", "one managed request of an agent"),
}
"""By what stands in the code."""


def spans_in_code() -> dict[str, str]:
    """Return the kind of each span that the code opens, by the expression of its name."""
    return {ast.unparse(call.args[0]): _kind(call) for call in _span_calls()}


def _span_calls() -> Iterator[ast.Call]:
    for folder in ("actors", "protocol", "storage"):
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "tracing import" not in text and file.name != "tracing.py":
                continue
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and ast.unparse(node.func) == "span":
                    yield node


def _kind(call: ast.Call) -> str:
    named = {one.arg: one.value for one in call.keywords}
    return ast.unparse(named["kind"]).strip("'") if "kind" in named else "internal"


def spans_table() -> str:
    """Return the table of spans, and that of their attributes."""
    kinds = spans_in_code()
    rows = [f"| `{SPANS[code].name}` | {kinds[code]} | {SPANS[code].about} |" for code in SPANS]
    attributes = [f"| `{name}` | {about} |" for name, about in _attributes()]
    return "\n".join(
        ["| span | kind | |", "|---|---|---|", *rows, "", "| attribute or label | |", "|---|---|", *attributes]
    )


def _attributes() -> Iterator[tuple[str, str]]:
    """Yield our own attributes with what their comment says; those of OpenTelemetry are described there."""
    text = (ROOT / "protocol" / "semconv.py").read_text(encoding="utf-8")
    ours = text.partition("# --- our own attributes")[2].partition("# --- conventions")[0]
    for line in ours.splitlines():
        if found := re.match(r' *(?:[A-Z_]+ =|"\w+":) "(jettison\.[\w.]+)",?(?:  # (.*))?', line):
            yield found[1], found[2] or ""


def metric_names() -> frozenset[str]:
    """Return every name of a metric that `semconv` has."""
    text = (ROOT / "protocol" / "semconv.py").read_text(encoding="utf-8").partition("# --- metrics ---")[2]
    found = re.findall(r"^([A-Z_]+) = \"[\w.]+\"", text, re.MULTILINE)
    return frozenset(getattr(semconv, name) for name in found) - {semconv.GATEWAY_DIRECTION, semconv.GATEWAY_CACHE}
