"""Metrics of the gateway: requests by what was done with them, what that added, and what it saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import msgspec
from opentelemetry import metrics

from protocol import semconv

from .setup import SECONDS_BOUNDARIES


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """One request, as it is counted. *api*, *how*, *provider* and the hundreds of *status* are each one of few."""

    api: str
    how: str
    provider: str
    model: str
    """As the agent wrote it; a provider has few, and what it refused is not counted by it."""
    status: int
    seconds: float
    added_seconds: float
    first_seconds: float
    received_bytes: int
    sent_bytes: int
    returned_bytes: int
    saved_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def record_request(one: Counted) -> None:
    """Count one request."""
    instruments = _instruments()
    labels = {semconv.GATEWAY_API: one.api, semconv.GATEWAY_HOW: one.how}
    status = f"{one.status // 100}xx" if one.status else "none"
    instruments.requests.add(1, {**labels, semconv.GATEWAY_STATUS: status})
    instruments.added.record(one.added_seconds, labels)
    if one.status:
        instruments.first.record(one.first_seconds, labels)
    ways = (("received", one.received_bytes), ("sent", one.sent_bytes), ("returned", one.returned_bytes))
    for direction, size in ways:
        instruments.bytes.add(size, {semconv.GATEWAY_API: one.api, semconv.GATEWAY_DIRECTION: direction})
    if one.saved_tokens:
        instruments.saved.add(one.saved_tokens, labels)
    if one.status != 200:
        return
    call = {semconv.GEN_AI_OPERATION_NAME: "chat", semconv.GEN_AI_PROVIDER_NAME: one.provider}
    call |= {semconv.GEN_AI_REQUEST_MODEL: one.model} if one.model else {}
    instruments.duration.record(one.seconds, call)
    for kind, tokens in (("input", one.input_tokens), ("output", one.output_tokens)):
        if tokens:
            instruments.tokens.record(tokens, {**call, semconv.GEN_AI_TOKEN_TYPE: kind})


@dataclass(frozen=True, kw_only=True)
class _Instruments:
    requests: metrics.Counter
    added: metrics.Histogram
    first: metrics.Histogram
    bytes: metrics.Counter
    saved: metrics.Counter
    duration: metrics.Histogram
    tokens: metrics.Histogram


@cache
def _instruments() -> _Instruments:
    meter = metrics.get_meter(semconv.SCOPE)
    return _Instruments(
        requests=meter.create_counter(semconv.GATEWAY_REQUESTS, unit="{request}", description="Requests of agents"),
        added=meter.create_histogram(
            semconv.GATEWAY_ADDED,
            unit="s",
            description="Time from a request to the question to its provider",
            explicit_bucket_boundaries_advisory=SECONDS_BOUNDARIES,
        ),
        first=meter.create_histogram(
            semconv.GATEWAY_FIRST,
            unit="s",
            description="Time from a request to the first byte of its answer",
            explicit_bucket_boundaries_advisory=SECONDS_BOUNDARIES,
        ),
        bytes=meter.create_counter(
            semconv.GATEWAY_BYTES,
            unit="By",
            description="Requests as agents sent them and as providers got them, and answers as agents got them",
        ),
        duration=meter.create_histogram(
            semconv.GEN_AI_CLIENT_OPERATION_DURATION,
            unit="s",
            description="Time from a request to the end of its answer",
            explicit_bucket_boundaries_advisory=SECONDS_BOUNDARIES,
        ),
        saved=meter.create_counter(
            semconv.GATEWAY_SAVED,
            unit="{token}",
            description="About what agents had sent and providers were not",
        ),
        tokens=meter.create_histogram(
            semconv.GEN_AI_CLIENT_TOKEN_USAGE, unit="{token}", description="Tokens that providers counted"
        ),
    )
