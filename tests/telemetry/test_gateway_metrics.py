"""What the gateway counts of a request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from actors.telemetry.gateway_metrics import Counted, record_request
from actors.telemetry.setup import histogram, metric_counter
from tests.gateway.conftest import session as session
from tests.gateway.provider import BODY, Answer, in_front_of, provider, without_nats


def _forget() -> None:
    metric_counter.cache_clear()
    histogram.cache_clear()


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    """Yield what reads all that is counted within."""
    reader = InMemoryMetricReader()
    meters = MeterProvider(metric_readers=[reader])
    monkeypatch.setattr(metrics, "get_meter", meters.get_meter)
    _forget()
    try:
        yield reader
    finally:
        _forget()


def test_requests_bypasses_bytes_time_and_tokens_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    with counted(monkeypatch) as reader:
        given: Any = {"api": "chat", "provider": "openai", "model": "m", "received_bytes": 900, "sent_bytes": 300}
        given |= {"returned_bytes": 70, "seconds": 2.0, "added_seconds": 0.01, "first_seconds": 0.5}
        record_request(Counted(how="view", status=200, saved_tokens=150, input_tokens=70, output_tokens=7, **given))
        record_request(Counted(how="bypass", status=429, **given))
    found = _points(reader)
    assert found["jettison.gateway.requests"] == {("chat", "view", "2xx"): 1, ("chat", "bypass", "4xx"): 1}
    assert found["jettison.gateway.bytes"] == {
        ("chat", "received"): 1800,
        ("chat", "sent"): 600,
        ("chat", "returned"): 140,
    }
    assert found["jettison.gateway.added"] == {("chat", "view"): 0.01, ("chat", "bypass"): 0.01}
    assert found["jettison.gateway.first_byte"] == {("chat", "view"): 0.5, ("chat", "bypass"): 0.5}
    assert found["jettison.gateway.tokens.saved"] == {("chat", "view"): 150}
    assert found["gen_ai.client.operation.duration"] == {("chat", "openai", "m"): 2.0}
    assert found["gen_ai.client.token.usage"] == {
        ("chat", "openai", "m", "input"): 70,
        ("chat", "openai", "m", "output"): 7,
    }


async def test_an_answer_is_counted_as_its_agent_got_it(
    monkeypatch: pytest.MonkeyPatch, session: aiohttp.ClientSession
) -> None:
    answer = Answer(headers={"content-type": "text/event-stream"}, pieces=(b"data: 1\n\n", 0.01, b"data: 2\n\n"))
    with counted(monkeypatch) as reader:
        async with provider(lambda _: answer) as there, in_front_of(there, without_nats(), mode="manage") as url:
            got = await (await session.post(f"{url}/v1/chat/completions", data=BODY)).read()
    sizes = {("chat", "received"): len(BODY), ("chat", "sent"): len(BODY), ("chat", "returned"): len(got)}
    assert _points(reader)["jettison.gateway.bytes"] == sizes


async def test_what_is_passed_on_or_refused_unseen_is_told_and_counted(
    monkeypatch: pytest.MonkeyPatch, session: aiohttp.ClientSession, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "jettison.gateway.requests")
    answer = Answer(pieces=(b"bytes",))
    with counted(monkeypatch) as reader:
        async with provider(lambda _: answer) as there, in_front_of(there, body_bytes_max=100) as url:
            for path in ("/v1/chat/completions", "/v1/files/file-of-somebody", "/v1/files"):
                await (await session.post(f"{url}{path}", data=b"x" * (300 if path == "/v1/files" else 7))).read()
            async with session.get(f"{url}/v1/responses", headers={"upgrade": "websocket"}) as got:
                refused = len(await got.read())
    found = _points(reader)
    passed = {("chat", "pass", "2xx"): 1, ("other", "pass", "2xx"): 2}
    assert found["jettison.gateway.requests"] == {**passed, ("other", "refused", "4xx"): 1}
    assert found["jettison.gateway.bytes"] == {
        **{("chat", "received"): 7, ("chat", "sent"): 7, ("chat", "returned"): 5},
        **{("other", "received"): 307, ("other", "sent"): 307, ("other", "returned"): 10 + refused},
    }
    assert set(found["gen_ai.client.operation.duration"]) == {("chat", "openai")}
    told = [one for one in caplog.records if one.name == "jettison.gateway.requests"]
    lines = [one.getMessage().partition(" bytes in")[0] for one in told]
    assert lines == [
        "openai pass 200 POST /v1/chat/completions: 7",
        "openai pass 200 POST /v1/files: 7",
        "openai pass 200 POST /v1/files: 300",
        "openai refused 426 GET /v1/responses: 0",
    ]


def _points(reader: InMemoryMetricReader) -> dict[str, dict[tuple[Any, ...], Any]]:
    """Return the sums by metric and the values of their labels."""
    data: Any = reader.get_metrics_data()
    found = [one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics]
    return {
        one.name: {
            tuple(point.attributes.values()): getattr(point, "sum", getattr(point, "value", None))
            for point in one.data.data_points
        }
        for one in found
    }
