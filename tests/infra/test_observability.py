"""Alerts and the dashboard ask for metrics that are there, by labels that these have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache

import pytest
from ruamel.yaml import YAML

from tests.metrics_page import shown
from tests.stack import ROOT

FOLDER = ROOT / "infra" / "observability"
OF_THE_CLIENT = {"process_resident_memory_bytes", "process_cpu_seconds_total", "target_info"}
"""Of Prometheus' own client and OpenTelemetry's exporter."""
OF_PROMETHEUS = {"le", "instance", "job", "service_name"}
_SELECTED = re.compile(r"\b((?:jettison|gen_ai|process|target)_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\b(?:by|on|group_left)\s*\(([^)]*)\)")


@cache
def labels_of() -> dict[str, frozenset[str]]:
    """Return the labels of each series that Prometheus stores."""
    ours = {series: frozenset(one.labels) for one in shown() for series in one.series}
    return ours | dict.fromkeys(OF_THE_CLIENT, frozenset())


def wrong(query: str) -> list[str]:
    """Return the names in *query* that nothing has: metrics, and labels of none of its metrics."""
    grouped = [label.strip() for group in _GROUPED.findall(query) for label in group.split(",") if label.strip()]
    selected = _SELECTED.findall(_GROUPED.sub("", query))
    assert selected, query
    unknown = [name for name, _ in selected if name not in labels_of()]
    for name, matchers in selected:
        asked = re.findall(r"(\w+)\s*[!=]~?", matchers)
        unknown += [label for label in asked if label not in labels_of().get(name, ())]
    has = OF_PROMETHEUS.union(*(labels_of().get(name, frozenset()) for name, _ in selected))
    return unknown + [label for label in grouped if label not in has]


def queries() -> Iterator[tuple[str, str]]:
    """Yield every query by the name of its alert or panel."""
    for group in YAML(typ="safe").load(FOLDER / "alerts.yaml")["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in json.loads((FOLDER / "grafana.json").read_text())["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


def test_every_query_names_what_there_is() -> None:
    assert {name: found for name, query in queries() if (found := wrong(query))} == {}


def test_no_line_of_the_dashboard_shows_the_whole_range_at_each_of_its_points() -> None:
    panels = json.loads((FOLDER / "grafana.json").read_text())["panels"]
    lines = [target["expr"] for panel in panels if panel["type"] == "timeseries" for target in panel["targets"]]
    assert [query for query in lines if "$__range" in query] == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("max by (jettison_stage) (jettison_queue_ages)", ["jettison_queue_ages", "jettison_stage"]),
        ('jettison_queue_slots{jettison_stag="cut"}', ["jettison_stag"]),
        ("sum by (error_type) (jettison_queue_slots)", ["error_type"]),
    ],
)
def test_a_name_that_is_not_there_is_found(query: str, found: list[str]) -> None:
    assert wrong(query) == found


def test_every_metric_of_ours_is_on_the_dashboard_or_in_an_alert() -> None:
    asked = " ".join(query for _, query in queries())
    left = {one.name for one in shown() if not any(series in asked for series in one.series)}
    # how long providers take is theirs, and bytes are what tokens are
    assert left == {"gen_ai.client.operation.duration", "jettison.gateway.bytes"}
