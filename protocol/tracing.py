"""Spans, and the trace's way through NATS headers.

Depends on OpenTelemetry's API alone: without an SDK in the process every span is a no-op, and a trace that comes in
still goes out. Nothing that an exception says is recorded, since its message may quote the conversation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, Literal

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from . import semconv

Kind = Literal["internal", "client", "server", "producer", "consumer"]

# OpenTelemetry would send `baggage` too. It holds whatever the agent's program put there, perhaps text of users,
# and headers stay in the stream.
CARRIED = ("traceparent", "tracestate")


def traced() -> dict[str, str]:
    """Return headers that carry the current trace; none if there is none."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {name: carrier[name] for name in CARRIED if name in carrier}


def extract(headers: Mapping[str, str] | None) -> Context:
    """Return the trace that *headers* carry as a parent for `span`; an empty one if they carry none."""
    found = {name.lower(): value for name, value in (headers or {}).items()}
    return propagate.extract({name: found[name] for name in CARRIED if name in found}, context=Context())


def link_to(headers: Mapping[str, str] | None) -> tuple[Link, ...]:
    """Return the link to what *headers* came from, for work that must not be its child: redelivery, fan-in."""
    came_from = trace.get_current_span(extract(headers)).get_span_context()
    return (Link(came_from),) if came_from.is_valid else ()


@contextmanager
def span(
    name: str,
    *,
    kind: Kind = "internal",
    attributes: Mapping[str, Any] | None = None,  # not object: a dict of text and numbers is inferred as that
    parent: Context | None = None,
    links: Sequence[Link] = (),
) -> Iterator[Span]:
    """Record what happens inside as one span; its parent is *parent*, or else the current span.

    What is raised marks the span as failed with the class name alone, and goes on. Cancellation counts:
    a call that a deadline ended is seen here as `CancelledError`.
    """
    with _tracer().start_as_current_span(
        name,
        context=parent,
        kind=SpanKind[kind.upper()],
        attributes=attributes,
        links=links,
        record_exception=False,
        set_status_on_exception=False,
    ) as current:
        try:
            yield current
        except GeneratorExit:  # the end of a generator, not an error
            raise
        except BaseException as error:
            _failed(current, error)
            raise


def s3_span(method: str, *, bucket: str, key: str) -> AbstractContextManager[Span]:
    """Record one call of the S3 store; *method* is spelled as in S3's own API, such as `PutObject`."""
    attributes = {
        semconv.RPC_SYSTEM: "aws-api",
        semconv.RPC_SERVICE: "S3",
        semconv.RPC_METHOD: method,
        semconv.AWS_S3_BUCKET: bucket,
        semconv.AWS_S3_KEY: key,
    }
    return span(semconv.s3(method), kind="client", attributes=attributes)


def _failed(current: Span, error: BaseException) -> None:
    if current.is_recording():
        name = type(error).__name__
        current.set_attribute(semconv.ERROR_TYPE, name)
        current.set_status(Status(StatusCode.ERROR, name))


@cache
def _tracer() -> Tracer:
    # Made once, as making one costs as much as a span. Before an SDK is set it is a proxy that finds the SDK later.
    return trace.get_tracer(semconv.SCOPE)
