"""Spans as OTLP/JSON: one request of the OTLP specification, enums as numbers, ids in hex, 64-bit numbers as text.

Written from the spans themselves: through the exporter's protobuf messages and protobuf's own JSON a span costs
0.27 ms, more than making it and a quarter of a worker's turn. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:  # the SDK takes a tenth of a second to import, and many commands record nothing
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.trace import Link, SpanContext

Json = dict[str, Any]

_KNOWS_REMOTE, _IS_REMOTE = 0x100, 0x200
"""Bits of `flags` (opentelemetry-proto, `SpanFlags`)."""


def otlp_json(spans: Sequence[ReadableSpan]) -> bytes:
    """Return *spans* as one request, grouped by their resource and scope."""
    # by identity: a resource writes all of itself as JSON to be hashed
    kept: dict[int, Any] = {id(one): one for span in spans for one in (span.resource, span.instrumentation_scope)}
    resources: dict[int, dict[int, list[Json]]] = {}
    for span in spans:
        scopes = resources.setdefault(id(span.resource), {})
        scopes.setdefault(id(span.instrumentation_scope), []).append(_span(span))
    request = {
        "resourceSpans": [
            _told(
                resource=_told(attributes=_attributes(kept[resource].attributes)),
                scopeSpans=[
                    _told(scope=_scope(kept[scope]), spans=told, schemaUrl=getattr(kept[scope], "schema_url", ""))
                    for scope, told in scopes.items()
                ],
                schemaUrl=kept[resource].schema_url,
            )
            for resource, scopes in resources.items()
        ]
    }
    return msgspec.json.encode(request)


def _span(span: ReadableSpan) -> Json:
    context = span.get_span_context()
    assert context is not None, "a span that is recorded has a context"
    return _told(
        **_ids(context),
        traceState=",".join(f"{key}={value}" for key, value in context.trace_state.items()),
        parentSpanId=f"{span.parent.span_id:016x}" if span.parent else "",
        flags=_flags(span.parent),
        name=_text(span.name),
        kind=span.kind.value + 1,
        startTimeUnixNano=str(span.start_time or 0),
        endTimeUnixNano=str(span.end_time or 0),
        attributes=_attributes(span.attributes),
        droppedAttributesCount=span.dropped_attributes,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links,
    ) | {"status": _told(message=_text(span.status.description or ""), code=span.status.status_code.value)}


def _event(event: Event) -> Json:
    return _told(
        timeUnixNano=str(event.timestamp),
        name=_text(event.name),
        attributes=_attributes(event.attributes),
        droppedAttributesCount=event.dropped_attributes,
    )


def _link(link: Link) -> Json:
    return _told(
        **_ids(link.context),
        attributes=_attributes(link.attributes),
        droppedAttributesCount=link.dropped_attributes,
        flags=_flags(link.context),
    )


def _scope(scope: Any) -> Json:
    if scope is None:
        return {}
    return _told(name=scope.name, version=scope.version, attributes=_attributes(scope.attributes))


def _ids(context: SpanContext) -> Json:
    return {"traceId": f"{context.trace_id:032x}", "spanId": f"{context.span_id:016x}"}


def _flags(parent: SpanContext | None) -> int:
    return _KNOWS_REMOTE | (_IS_REMOTE if parent is not None and parent.is_remote else 0)


def _attributes(attributes: Mapping[str, Any] | None) -> list[Json]:
    return [{"key": key, "value": _value(value)} for key, value in (attributes or {}).items()]


def _value(value: Any) -> Json:
    if isinstance(value, str):
        return {"stringValue": _text(value)}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return {"arrayValue": _told(values=[_value(one) for one in value])}
    return {"stringValue": _text(str(value))}


def _text(text: str) -> str:
    # a lone surrogate would cost the whole batch
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _told(**fields: Any) -> Json:
    """Return the fields that say something: protobuf's JSON leaves out what is empty or zero."""
    return {name: value for name, value in fields.items() if value or name in ("resource", "scope")}
