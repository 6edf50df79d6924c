"""Metrics of the gateway: requests by what was done with them, what that added, and what it saved."""

from __future__ import annotations

import msgspec

from protocol import semconv

from .setup import histogram, metric_counter

OTHER = "other"
"""The api of a route that no conversation goes through."""


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
    cached_tokens: int = 0


def record_request(one: Counted) -> None:
    """Count one request."""
    labels = {semconv.GATEWAY_API: one.api, semconv.GATEWAY_HOW: one.how}
    status = f"{one.status // 100}xx" if one.status else "none"
    requests = metric_counter(semconv.GATEWAY_REQUESTS, "{request}", "Requests of agents")
    requests.add(1, {**labels, semconv.GATEWAY_STATUS: status})
    added = histogram(semconv.GATEWAY_ADDED, "s", "Time from a request to the question to its provider")
    added.record(one.added_seconds, labels)
    if one.status:
        first = histogram(semconv.GATEWAY_FIRST, "s", "Time from a request to the first byte of its answer")
        first.record(one.first_seconds, labels)
    about = "Requests as agents sent them and as providers got them, and answers as agents got them"
    sizes = metric_counter(semconv.GATEWAY_BYTES, "By", about)
    ways = (("received", one.received_bytes), ("sent", one.sent_bytes), ("returned", one.returned_bytes))
    for direction, size in ways:
        sizes.add(size, {semconv.GATEWAY_API: one.api, semconv.GATEWAY_DIRECTION: direction})
    if one.saved_tokens:
        saved = metric_counter(semconv.GATEWAY_SAVED, "{token}", "About what agents had sent and providers were not")
        saved.add(one.saved_tokens, labels)
    if one.status == 200 and one.sent_bytes and one.api != OTHER:
        _record_answer(one)


def _record_answer(one: Counted) -> None:
    """Record how long an answer took and what its provider counted, as OpenTelemetry calls it of any model."""
    call = {semconv.GEN_AI_OPERATION_NAME: "chat", semconv.GEN_AI_PROVIDER_NAME: one.provider}
    call |= {semconv.GEN_AI_REQUEST_MODEL: one.model} if one.model else {}
    took = histogram(semconv.GEN_AI_CLIENT_OPERATION_DURATION, "s", "Time from a request to the end of its answer")
    took.record(one.seconds, call)
    counted = histogram(semconv.GEN_AI_CLIENT_TOKEN_USAGE, "{token}", "Tokens that providers counted")
    for kind, tokens in (("input", one.input_tokens), ("output", one.output_tokens)):
        if tokens:
            counted.record(tokens, {**call, semconv.GEN_AI_TOKEN_TYPE: kind})
    prompt = metric_counter(semconv.GATEWAY_PROMPT, "{token}", "Tokens of prompts, by whether the provider had them")
    hit = min(one.cached_tokens, one.input_tokens)
    for cache, tokens in (("hit", hit), ("miss", one.input_tokens - hit)):
        prompt.add(tokens, {semconv.GATEWAY_CACHE: cache})
