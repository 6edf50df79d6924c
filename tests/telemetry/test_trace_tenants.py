"""Traces of tenants: a name that two of them use is two conversations."""

from __future__ import annotations

import json
from pathlib import Path

from actors.telemetry.trace_view import find_spans
from protocol import semconv


def test_a_conversation_of_the_same_name_of_another_tenant_is_another(tmp_path: Path) -> None:
    def span(number: int, *attributes: tuple[str, str]) -> dict[str, object]:
        named = [{"key": key, "value": {"stringValue": value}} for key, value in attributes]
        ids = {"traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": f"span {number}"}
        return {**ids, "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": named}

    name = (semconv.GEN_AI_CONVERSATION_ID, "c1")
    spans = [span(1, name, (semconv.TENANT, "acme")), span(2, name, (semconv.TENANT, "other")), span(3, name)]
    lines = [json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [one]}]}]}) for one in spans]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    # of an earlier release nobody knows whose it is
    assert [row.name for row in find_spans(tmp_path, "c1", "acme").rows] == ["span 1", "span 3"]
