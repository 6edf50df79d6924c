"""Kinds: what a tool result is, told from its shape and never from a word in it.

One pass over the first lines. Where two kinds fit, the one with the stricter shape wins; where none does,
it is text, which every way of shortening understands.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import re2

from protocol.formats import messages

from .patterns import stands

Kind = Literal["json", "diff", "trace", "html", "log", "csv", "table", "search", "listing", "base64", "binary", "text"]

SAMPLE_CHARS = 20_000
"""Of the start of a text; a kind shows early or not at all."""

BASE64_CHARS_MIN = 200
SHARE_MIN = 0.6
"""Share of the sampled lines that must have a kind's shape."""

FLAT_DEPTH_MAX = 200
"""JSON that is deeper is not told as lines: Python calls no function much more often within itself."""

JSON_DEPTH_MAX = 100
"""JSON that is deeper is told as text under rules 3: rules go through it by calling themselves."""

ROWS_MIN = 3
BINARY_SHARE = 0.1

_TRACE = re2.compile(
    r"(?m)^\s*(?:\S.{0,80})?Traceback \(most recent call last\):$|^\s*File \".+\", line \d+"
    r"|^\s+at [\w.$<>/@ \[\]-]+\(.*\)\s*$|^\s+at \S.*:\d+:\d+\)?\s*$|^goroutine \d+ \[.+\]:$"
)
_LOG = re2.compile(
    rb"^\W{0,2}(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d|[IWEF]\d{4} \d\d:)"
    rb"|^\W{0,2}(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|CRITICAL)\b|\blevel=\w+|\"level\"\s*:"
)
_SEARCH = re2.compile(rb"^(?:[\w.@+~-]*[/.][\w./@+~-]*|\w+):\d+[:-]")
_PATH = re2.compile(rb"^\s*(?:[\w.@+~-]*/)+[\w.@+~-]*\s*$")
_HUNK = re2.compile(r"(?m)^@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
_HTML = re2.compile(r"(?is)^\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,500}?-->\s*)*<(?:!doctype html|html|head|body)\b")
_BASE64 = re2.compile(r"^(?:data:[\w/+.;=-]+,)?[A-Za-z0-9+/\s_-]+=*\s*$")
_UPPER, _LOWER, _DIGIT = re2.compile("[A-Z]"), re2.compile("[a-z]"), re2.compile("[0-9]")
_QUOTED = re2.compile(r'"[^"]*"')
_GAP = re2.compile(r"\S(?:\t+| {2,})\S")


def kind_of(text: str) -> Kind:
    """Return the kind of *text*, by its shape."""
    sample = messages.without_surrogates(text[:SAMPLE_CHARS])
    start = sample.lstrip()
    if start[:1] in ("{", "[") and parsed_json(text) is not None:
        return "json"
    if _is_binary(sample):
        return "binary"
    if is_base64(sample.strip()):
        return "base64"
    if _HTML.match(start):
        return "html"
    if start.startswith(("diff --git ", "--- a/")) or _HUNK.search(sample):
        return "diff"
    if _TRACE.search(sample):
        return "trace"
    return _by_lines(sample, cut=len(text) > len(sample))


def parsed_json(text: str) -> Any:
    """Return the object or array that *text* is as JSON, or None."""
    try:
        value = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def is_deep(value: Any, most: int) -> bool:
    """Tell whether objects and arrays of *value* stand more than *most* deep within each other."""
    level = [value]
    for _ in range(most):
        level = [
            item
            for one in level
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
        if not level:
            return False
    return True


def is_base64(text: str) -> bool:
    """Tell encoded bytes from a long word: its alphabet, upper and lower case and digits, hardly a space."""
    if len(text) < BASE64_CHARS_MIN or not _BASE64.match(text):
        return False
    dense = text.count(" ") == 0 and text.count("\n") <= len(text) // 40
    return dense and all(pattern.search(text) for pattern in (_UPPER, _LOWER, _DIGIT))


def columns(line: str) -> list[str]:
    """Return the cells of one line of an aligned table."""
    return [cell for cell in line.strip().replace("\t", "  ").split("  ") if cell.strip()]


def _by_lines(sample: str, *, cut: bool) -> Kind:
    lines = [line for line in sample.split("\n") if line.strip()]
    if cut and len(lines) > 1:
        del lines[-1]
    if len(lines) < ROWS_MIN:
        return "text"
    most = SHARE_MIN * len(lines)
    bodies = [line.encode() for line in lines]
    shapes: tuple[tuple[Kind, Any], ...] = (("log", _LOG), ("search", _SEARCH), ("listing", _PATH))
    for kind, pattern in shapes:
        if _has_shape(pattern, bodies, most):
            return kind
    if _is_csv(lines):
        return "csv"
    if _is_table(lines):
        return "table"
    return "text"


def _has_shape(pattern: Any, lines: list[bytes], least: float) -> bool:
    """Tell whether at least *least* of *lines* match; mostly the first few say that they do not."""
    missing = len(lines)
    found = 0
    for line in lines:
        missing -= 1
        found += stands(pattern, line)
        if found >= least or found + missing < least:
            break
    return found >= least


def _is_csv(lines: list[str]) -> bool:
    for mark in (",", "\t", ";", "|"):
        wanted = _unquoted(lines[0]).count(mark)
        if wanted >= (1 if mark == "\t" else 2):
            return sum(_unquoted(line).count(mark) == wanted for line in lines) >= 0.9 * len(lines)
    return False


def _unquoted(line: str) -> str:
    """Return *line* without what stands in quotes, where a mark parts nothing."""
    return str(_QUOTED.sub("", line)) if '"' in line else line


def _is_table(lines: list[str]) -> bool:
    """Tell a table by its header: several short cells, and as many columns below, nothing indented."""
    wanted = len(columns(lines[0]))
    if wanted < 3 or any(len(cell) > 40 for cell in columns(lines[0])):
        return False
    return sum(bool(_GAP.search(line)) and abs(len(columns(line)) - wanted) <= 1 for line in lines) >= 0.8 * len(lines)


def _is_binary(sample: str) -> bool:
    odd = sum(sample.count(mark) for mark in _CONTROL)
    return odd > BINARY_SHARE * len(sample)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(digits)
    return number


def _refused(name: str) -> None:
    raise ValueError(name)


_CONTROL = (*(chr(code) for code in range(32) if chr(code) not in "\t\n\r\x1b\f"), "\x7f", "\ufffd")
