"""Diffs: the names of files, hunks and changed lines stay; context goes first."""

from __future__ import annotations

import re2

from .entry import Count
from .shorten_lines import gap, shorten_lines

_HEAD = re2.compile(r"^(?:diff |--- |\+\+\+ |@@ |rename |new file|deleted file|Index: |Binary files )")
CONTEXT_LINES_MIN = 3
"""A run of context up to this long stays: its mark would cost as much."""


def shorten_diff(text: str, *, tokens_max: int, count: Count) -> str:
    """Return *text* without context, then its heads and changes within *tokens_max* tokens."""
    if count(text) > tokens_max:
        text = "\n".join(_without_context(text.split("\n")))
    lines = text.split("\n")
    heads = [number for number, line in enumerate(lines) if _HEAD.search(line[:200])]
    return shorten_lines(text, tokens_max=tokens_max, count=count, telling=heads)


def _without_context(lines: list[str]) -> list[str]:
    out: list[str] = []
    context: list[str] = []
    inside = False
    for line in (*lines, None):
        inside = inside or (line is not None and line.startswith("@@ "))
        if line is not None and inside and not line.startswith(("+", "-", "\\")) and not _HEAD.search(line[:200]):
            context.append(line)
            continue
        out += context if len(context) < CONTEXT_LINES_MIN else [gap(len(context), "context lines")]
        context = []
        if line is not None:
            out.append(line)
    return out
