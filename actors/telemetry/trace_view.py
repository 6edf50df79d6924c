"""Trace view: read the local trace files of a folder and draw what happened as trees.

The files are OTLP/JSON lines of many processes, perhaps still growing; what cannot be read is skipped and counted.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.text import Text
from rich.tree import Tree

from protocol import semconv
from protocol.errors import UNREADABLE

log = logging.getLogger("jettison.trace_view")

OVERTAKEN, REFUSED = "another record came first: decided again", "the model's answer was refused"
"""Why a step was rejected: one that was overtaken has no state behind it."""

STYLES = {"applied": "green", "noop": "dim", "declined": "yellow", "rejected": "magenta", "failed": "bold red"}
STATUS_ERROR = 2

T = TypeVar("T")


class SpanRow(msgspec.Struct, frozen=True, kw_only=True):
    """One span, as a person or a program wants to read it."""

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    service: str
    start_unix_nano: int
    duration_ms: float
    outcome: str = ""
    before_tokens: int | None = None
    after_tokens: int | None = None
    error: str = ""
    """Class name of what was raised."""
    links: tuple[str, ...] = ()
    """Spans that this one came from without being their child, as `trace/span`."""
    attributes: dict[str, Any] = {}


class TracesFound(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder holds about a conversation."""

    rows: tuple[SpanRow, ...]
    damaged_lines: int


class _Wire(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of OTLP/JSON; what is not named is ignored."""


class _Values(_Wire, frozen=True, kw_only=True):
    values: tuple[_Value, ...] = ()


class _Value(_Wire, frozen=True, kw_only=True):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | None = None
    double_value: float | None = None
    array_value: _Values | None = None


class _Attribute(_Wire, frozen=True, kw_only=True):
    key: str
    value: _Value = _Value()


class _Link(_Wire, frozen=True, kw_only=True):
    trace_id: str
    span_id: str


class _Status(_Wire, frozen=True, kw_only=True):
    code: int = 0
    message: str = ""


class _Span(_Wire, frozen=True, kw_only=True):
    trace_id: str
    span_id: str
    parent_span_id: str = ""
    name: str
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: tuple[_Attribute, ...] = ()
    links: tuple[_Link, ...] = ()
    status: _Status = _Status()


class _ScopeSpans(_Wire, frozen=True, kw_only=True):
    spans: tuple[_Span, ...] = ()


class _Resource(_Wire, frozen=True, kw_only=True):
    attributes: tuple[_Attribute, ...] = ()


class _ResourceSpans(_Wire, frozen=True, kw_only=True):
    resource: _Resource = _Resource()
    scope_spans: tuple[_ScopeSpans, ...] = ()


class _Request(_Wire, frozen=True, kw_only=True):
    resource_spans: tuple[_ResourceSpans, ...]


# Not strict, because OTLP/JSON writes 64-bit numbers as text.
_DECODER = msgspec.json.Decoder(_Request, strict=False)


def read_spans(folder: Path, conversation: str, tenant: str) -> list[SpanRow]:
    """Return the spans of every trace that touched a *tenant*'s *conversation*, oldest first; log damaged lines."""
    found = find_spans(folder, conversation, tenant)
    if found.damaged_lines:
        log.warning("%d damaged lines in %s were skipped", found.damaged_lines, folder)
    return list(found.rows)


def find_spans(folder: Path, conversation: str, tenant: str = "") -> TracesFound:
    """Return the spans of a *tenant*'s *conversation* in *folder*, ids as in subjects; a missing folder holds none.

    Reads the files twice, so that memory grows with the answer and not with the folder.
    """
    traces = {
        one.trace_id
        for line in _lines(folder)
        if conversation.encode() in line  # cheap; most lines are about others
        for _, one in _spans(line) or ()
        if _is_about(conversation, tenant, one)
    }
    rows: dict[tuple[str, str], SpanRow] = {}
    damaged = 0
    for line in _lines(folder):
        spans = _spans(line)
        if spans is None:
            damaged += 1
            continue
        rows |= {(one.trace_id, one.span_id): _row(service, one) for service, one in spans if one.trace_id in traces}
    return TracesFound(rows=tuple(sorted(rows.values(), key=_order)), damaged_lines=damaged)


def _is_about(conversation: str, tenant: str, one: _Span) -> bool:
    told = {each.key: each.value.string_value for each in one.attributes}
    # earlier releases did not say whose conversation it is
    is_its = not tenant or told.get(semconv.TENANT, tenant) == tenant
    return told.get(semconv.GEN_AI_CONVERSATION_ID) == conversation and is_its


def _lines(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.glob("*.jsonl")):
        try:
            with path.open("rb") as file:
                yield from (line for line in file if line.strip())
        except FileNotFoundError:  # rotated away since the folder was listed
            continue


def _spans(line: bytes) -> list[tuple[str, _Span]] | None:
    """Return the spans of one request with their services; None if the line is damaged."""
    try:
        request = _DECODER.decode(line)
    except UNREADABLE:
        return None
    return [
        (str(_plain(resource_spans.resource.attributes).get(semconv.SERVICE_NAME, "")), one)
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for one in scope_spans.spans
    ]


def _row(service: str, one: _Span) -> SpanRow:
    attributes = _plain(one.attributes)
    error = str(attributes.get(semconv.ERROR_TYPE) or "")
    if not error and one.status.code == STATUS_ERROR:
        error = one.status.message or "error"
    return SpanRow(
        trace_id=one.trace_id,
        span_id=one.span_id,
        parent_id=one.parent_span_id,
        name=one.name,
        service=service,
        start_unix_nano=one.start_time_unix_nano,
        duration_ms=round((one.end_time_unix_nano - one.start_time_unix_nano) / 1e6, 3),
        outcome=str(attributes.get(semconv.OUTCOME, "")),
        before_tokens=_whole(attributes.get(semconv.BEFORE_TOKENS)),
        after_tokens=_whole(attributes.get(semconv.AFTER_TOKENS)),
        error=error,
        links=tuple(f"{link.trace_id}/{link.span_id}" for link in one.links),
        attributes=attributes,
    )


def _plain(attributes: Iterable[_Attribute]) -> dict[str, Any]:
    return {attribute.key: _plain_value(attribute.value) for attribute in attributes}


def _plain_value(value: _Value) -> Any:
    if value.array_value is not None:
        return [_plain_value(item) for item in value.array_value.values]
    kinds = (value.string_value, value.bool_value, value.int_value, value.double_value)
    return next((kind for kind in kinds if kind is not None), None)


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _order(row: SpanRow) -> tuple[int, str]:
    return row.start_unix_nano, row.span_id


def as_json(rows: Iterable[SpanRow]) -> list[dict[str, Any]]:
    """Return *rows* as plain dicts, with keys that stay."""
    return [msgspec.to_builtins(row) for row in rows]


def newest(rows: Iterable[SpanRow], last: int) -> list[SpanRow]:
    """Return the rows of the *last* traces, those that began last."""
    assert last > 0
    traces = _grouped(sorted(rows, key=_order), lambda row: row.trace_id)
    return [row for trace in list(traces.values())[-last:] for row in trace]


def trace_tree(rows: Sequence[SpanRow]) -> Tree:
    """Return one tree per trace, oldest first; a renderable for `rich`.

    A span whose parent is not in *rows* hangs below its trace: the parent may run still, or be on another machine.
    """
    traces = _grouped(sorted(rows, key=_order), lambda row: row.trace_id)
    forest = Tree("traces", hide_root=True)
    for spans in traces.values():
        _grow(forest.add(_heading(spans)), spans)
    return forest


def _grow(trunk: Tree, spans: Sequence[SpanRow]) -> None:
    """Hang *spans*, sorted by start, below *trunk*; without recursion, since a trace may be deep."""
    known = {row.span_id for row in spans}
    children = _grouped(spans, lambda row: row.parent_id if row.parent_id in known else "")
    drawn: set[str] = set()
    waiting = [(trunk, row) for row in reversed(children.get("", []))]
    while waiting:
        above, row = waiting.pop()
        drawn.add(row.span_id)
        branch = above.add(_line(row))
        waiting += [(branch, child) for child in reversed(children.get(row.span_id, []))]
    for row in spans:  # parents in a circle: a damaged file, but nothing is hidden
        if row.span_id not in drawn:
            trunk.add(_line(row))


def _grouped(rows: Iterable[SpanRow], key: Callable[[SpanRow], T]) -> dict[T, list[SpanRow]]:
    groups: dict[T, list[SpanRow]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return dict(groups)


def _heading(spans: Sequence[SpanRow]) -> Text:
    began = min(row.start_unix_nano for row in spans)
    ended = max(row.start_unix_nano / 1e6 + row.duration_ms for row in spans)
    at = datetime.fromtimestamp(began / 1e9).strftime("%Y-%m-%d %H:%M:%S")
    total = f"{ended - began / 1e6:.1f} ms, {len(spans)} {'span' if len(spans) == 1 else 'spans'}"
    return Text.assemble(("trace ", "bold"), (_printable(spans[0].trace_id), "bold"), f"  {at}  ", (total, "dim"))


def _line(row: SpanRow) -> Text:
    line = Text(_printable(row.name))
    line.append(f"  {row.duration_ms:.1f} ms", "cyan")
    if row.outcome:
        line.append(f"  {_printable(row.outcome)}", STYLES.get(row.outcome, ""))
    if row.outcome == "rejected":
        line.append(f" ({OVERTAKEN if row.after_tokens is None else REFUSED})", "dim")
    if row.error:
        line.append(f"  {_printable(row.error)}", "bold red")
    if row.before_tokens is not None and row.after_tokens is not None:
        line.append(f"  {row.before_tokens:,} → {row.after_tokens:,} tokens")
    if row.links:
        line.append(f"  ↪ {len(row.links)} linked", "dim")
    if row.service:
        line.append(f"  [{_printable(row.service)}]", "dim")
    return line


def _printable(text: str) -> str:
    # A file may come from anywhere; escape sequences in it must not reach the terminal.
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
