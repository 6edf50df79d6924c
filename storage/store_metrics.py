"""Metrics of the artifact store. Without an SDK in the process nothing is counted."""

from __future__ import annotations

from functools import cache

from opentelemetry import metrics

from protocol import semconv


def record_failure(method: str) -> None:
    """Count one call of the store that failed; *method* is spelled as in S3's own API."""
    _failures().add(1, {semconv.STORE_METHOD: method})


@cache
def _failures() -> metrics.Counter:
    meter = metrics.get_meter(semconv.SCOPE)
    about = "Calls of the artifact store without a usable answer"
    return meter.create_counter(semconv.STORE_FAILURES, unit="{call}", description=about)
