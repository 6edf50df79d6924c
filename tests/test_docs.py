"""Documents that repeat the code are compared with it; `.venv/bin/python -m tests.test_docs` writes them anew."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.cli.policy_keys import MORE, described, docstrings
from actors.host import settings
from protocol import policy as policies
from tests.cli_page import commands, settings_page
from tests.flow_page import mermaid
from tests.http_page import addresses
from tests.metrics_page import SPANS, metric_names, metrics_table, shown, spans_in_code, spans_table
from tests.policy_page import EXAMPLES, answers_page, keys, policy_page
from tests.walkthrough import walkthrough

ROOT = Path(__file__).parents[1]
_DEFAULT = re.compile(r"`([a-z_]+)\.([a-z_]+)` \((\d[\d.]*)\)")
_ROW = re.compile(r"^\| (`[^|]+) \| ([^|]*) \|", re.MULTILINE)
_QUOTED = re.compile(r"`([a-z_.]+)`")
WRITTEN: dict[str, tuple[str, Callable[[], str]]] = {
    "flow": ("infra/docs/architecture.md", lambda: f"```mermaid\n{mermaid()}\n```"),
    "walkthrough": ("infra/docs/architecture.md", walkthrough),
    "policy": ("infra/docs/policy.md", policy_page),
    "answers": ("infra/docs/policy.md", answers_page),
    "metrics": ("infra/docs/metrics.md", metrics_table),
    "spans": ("infra/docs/metrics.md", spans_table),
    "commands": ("infra/docs/cli.md", commands),
    "settings": ("infra/docs/cli.md", settings_page),
    "http": ("infra/docs/http.md", addresses),
}
"""By name: the document, and what stands in it between the comments of that name."""


def anew(text: str, name: str, wanted: str) -> str:
    """Return a document with what the code says today."""
    opens = f"<!-- {name}: written by `.venv/bin/python -m tests.test_docs`, compared by a test -->"
    closes = f"<!-- /{name} -->"
    before, found, rest = text.partition(opens)
    _, ended, after = rest.partition(closes)
    assert found, f"the comment {opens} is gone"
    assert ended, f"the comment {closes} is gone"
    return f"{before}{opens}\n{wanted}\n{closes}{after}"


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_document_repeats_is_what_the_code_says(name: str) -> None:
    file, wanted = WRITTEN[name]
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text == anew(text, name, wanted()), "run `.venv/bin/python -m tests.test_docs`"


def told_path(page: Path) -> list[Path]:
    """Return the files that a *page* names of one tool result's way."""
    told = page.read_text(encoding="utf-8").partition("One tool result, from its wake-up to the log:")[2]
    names = re.findall(r"`([a-z_/]+\.py)`", told.partition("\n\n")[0])
    return [next(file for top in ("", "actors") if (file := ROOT / top / name).exists()) for name in names]


def test_one_tool_result_is_followed_from_readme_to_the_log_in_few_lines() -> None:
    """At most 8 files and 870 lines, README among them: what a newcomer reads to see one event through."""
    readme = ROOT / "README.md"
    files = told_path(readme)
    assert files == told_path(ROOT / "infra/docs/architecture.md")
    assert files[-1].parent.name == "storage"
    assert len({readme, *files}) <= 8
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (readme, *files)) <= 870


def test_the_index_of_decisions_names_every_group_in_its_order() -> None:
    text = (ROOT / "infra/docs/decisions.md").read_text(encoding="utf-8")
    groups = re.findall(r"^# (.+)$", text, re.MULTILINE)[1:]
    assert re.findall(r"^- \[(.+)\]\(#.+\): ", text, re.MULTILINE) == groups
    links = [re.sub(r"[^a-z -]", "", group.lower()).replace(" ", "-") for group in groups]
    assert re.findall(r"^- \[.+\]\(#(.+)\): ", text, re.MULTILINE) == links


def test_the_glossary_says_of_each_word_what_it_means_and_how_others_call_it() -> None:
    rows = re.findall(r"^\| (.+) \|$", (ROOT / "infra/docs/glossary.md").read_text(encoding="utf-8"), re.MULTILINE)
    cells = [[cell.strip() for cell in re.split(r" \| ?", row)] for row in rows]
    assert [row[0] for row in cells if len(row) != 3 or not all(row)] == []


def test_every_metric_and_every_span_is_in_the_document() -> None:
    assert {one.name for one in shown()} == metric_names()
    assert spans_in_code().keys() == SPANS.keys()


def test_every_key_of_the_policy_says_what_it_does_and_every_section_has_an_example() -> None:
    found = list(keys())
    assert [key.path for key in found if not key.about] == []
    unknown = MORE.keys() - {f"{key.owner}.{key.path.rpartition('.')[2].partition('[')[0]}" for key in found}
    assert unknown == set(), "these keys are gone, or have a line of their own in the code"
    assert docstrings().keys().isdisjoint(MORE)
    for section, line in EXAMPLES.items():
        assert section in policies.resolve([tomllib.loads(line)]).__struct_fields__
    assert EXAMPLES.keys() | {"preset"} == {*policies.Policy.__struct_fields__}


def test_a_default_that_a_document_names_is_the_default() -> None:
    """As `trigger.ratio` (0.98): of the preset that holds where none is named, or of the settings."""
    policy, all_settings, found = policies.resolve([]), settings.Settings(), 0
    for page in (*(ROOT / "infra/docs").glob("*.md"), ROOT / "README.md"):
        for section, key, number in _DEFAULT.findall(page.read_text(encoding="utf-8")):
            holders = [getattr(one, section) for one in (policy, all_settings) if hasattr(one, section)]
            for holder in holders:
                found += 1
                assert getattr(holder, key) == float(number), f"{page.name}: {section}.{key}"
    assert found


@pytest.mark.parametrize("section", ["gateway", "mcp"])
def test_the_defaults_in_the_table_of_a_section_are_the_defaults(section: str) -> None:
    text = (ROOT / f"infra/docs/{section}.md").read_text(encoding="utf-8")
    rows = _ROW.findall(text.partition("\n| key")[2].partition("\n\n")[0])
    told = {
        key: value
        for keys, values in rows
        for key, value in zip(_QUOTED.findall(keys), values.split(", "), strict=False)
    }
    holder = getattr(settings.Settings(), section)
    wanted = {key: as_told(getattr(holder, key)) for key in told if as_told(getattr(holder, key, None))}
    assert len(wanted) > 2
    assert {key: told[key] for key in wanted} == wanted


def as_told(value: object) -> str:
    """Return a default as such a table has it; empty where words stand for it."""
    match value:
        case bool():
            return str(value).lower()
        case int() if value and value % 2**20 == 0:
            return f"{value // 2**20} MiB"
        case int() | float():
            return str(value)
        case str() if value:
            return f"`{value}`"
        case _:
            return ""


def test_the_schema_says_what_every_key_does() -> None:
    spill = described()["$defs"]["Spill"]["properties"]
    assert spill["batch"]["description"] == "Share that the results of one batch of parallel calls may have together."
    assert all("description" in about for about in spill.values())


if __name__ == "__main__":
    for name, (file, wanted) in WRITTEN.items():
        path = ROOT / file
        path.write_text(anew(path.read_text(encoding="utf-8"), name, wanted()), encoding="utf-8")
