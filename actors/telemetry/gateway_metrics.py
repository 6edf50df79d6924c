"""Metrics of the gateway: requests by what was done with them, what that added, and what it saved."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from opentelemetry import metrics

from protocol import semconv

from .setup import SECONDS_BOUNDARIES


def record_request(
    api: str,
    how: str,
    *,
    status: int,
    added_seconds: float,
    first_seconds: float,
    saved_tokens: int,
    input_tokens: int,
    output_tokens: int,
) -> None:
    """Count one request; *api*, *how* and the hundreds of *status* are labels, each one of few."""
    instruments = _instruments()
    labels = {semconv.GATEWAY_API: api, semconv.GATEWAY_HOW: how}
    instruments.requests.add(1, {**labels, semconv.GATEWAY_STATUS: f"{status // 100}xx" if status else "none"})
    instruments.added.record(added_seconds, labels)
    instruments.first.record(first_seconds, labels)
    if saved_tokens:
        instruments.saved.add(saved_tokens, labels)
    for kind, tokens in (("input", input_tokens), ("output", output_tokens)):
        if tokens:
            instruments.tokens.record(tokens, {semconv.GEN_AI_OPERATION_NAME: "chat", semconv.GEN_AI_TOKEN_TYPE: kind})


@dataclass(frozen=True, kw_only=True)
class _Instruments:
    requests: metrics.Counter
    added: metrics.Histogram
    first: metrics.Histogram
    saved: metrics.Counter
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
        saved=meter.create_counter(
            semconv.GATEWAY_SAVED,
            unit="{token}",
            description="About what agents had sent and providers were not",
        ),
        tokens=meter.create_histogram(
            semconv.GEN_AI_CLIENT_TOKEN_USAGE, unit="{token}", description="Tokens that providers counted"
        ),
    )
