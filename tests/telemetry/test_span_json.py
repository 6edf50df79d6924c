"""Spans as OTLP/JSON: what we write by hand is what the exporter and protobuf write."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
from google.protobuf import json_format  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
)
from opentelemetry.trace import set_span_in_context as within

from actors.telemetry.span_json import otlp_json

FAR = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "1")]))


def recorded() -> list[ReadableSpan]:
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "one"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("scope", "1.2", schema_url="https://example.org/schema", attributes={"x": 1})
    parent = within(NonRecordingSpan(FAR))
    with (
        tracer.start_as_current_span("outer", context=parent, kind=SpanKind.CONSUMER, links=[Link(FAR, {"l": 1})]),
        tracer.start_as_current_span("innér", kind=SpanKind.CLIENT) as inner,
    ):
        inner.set_attributes({"text": "é", "yes": True, "no": False, "big": 2**60, "zero": 0, "share": 0.5})
        inner.set_attributes({"none": (), "many": ("a", "b"), "counts": (1, 2), "empty": ""})
        inner.add_event("seen", {"at": 3})
        inner.set_status(Status(StatusCode.ERROR, "KeyError"))
    with provider.get_tracer("other").start_as_current_span("alone"):
        pass
    return list(kept.get_finished_spans())


def by_the_exporter(spans: list[ReadableSpan]) -> Any:
    request = json_format.MessageToDict(encode_spans(spans), use_integers_for_enums=True)

    def in_hex(value: Any) -> Any:
        if isinstance(value, list):
            return [in_hex(one) for one in value]
        if not isinstance(value, dict):
            return value
        ids = ("traceId", "spanId", "parentSpanId")
        return {key: base64.b64decode(one).hex() if key in ids else in_hex(one) for key, one in value.items()}

    return in_hex(request)


def test_a_request_is_what_the_exporter_writes() -> None:
    spans = recorded()
    assert msgspec.json.decode(otlp_json(spans)) == by_the_exporter(spans)


def test_a_lone_surrogate_costs_no_batch() -> None:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    with provider.get_tracer("scope").start_as_current_span("one") as span:
        span.set_attribute("name", "a\ud800")
    assert b'{"stringValue":"a?"}' in otlp_json(kept.get_finished_spans())
