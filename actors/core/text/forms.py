"""Forms: pages that were read out cell by cell, a label on one line and its value on the next one, as of a PDF."""

from __future__ import annotations

import re

LABELS_MIN = 3
"""Labels with a value below, that make a form; fewer stand in many texts."""

CELL_CHARS_MAX, ROW_CHARS_MAX = 48, 120
"""A longer line is a sentence; cells without labels stand beside each other up to a row of so many."""

READ_CHARS_MAX = 200_000
"""A larger text is no form."""

_LABEL = re.compile(r"(?![a-z])[^\W\d_][^\n:;=(){}\[\]<>\"'`]{0,46}(?:\([^()\n]{1,20}\))?:")
_CELL = re.compile(r"[^\s\-*•>|#=+{}\[\]<][^\n{}<>;=|]*")
_JOINT = " | "


def with_labels(text: str) -> str:
    """Return *text*, if it is a form, with each value behind its label, and other cells beside each other in rows."""
    # most texts have not so many labels
    if text.count(":\n") < LABELS_MIN or len(text) > READ_CHARS_MAX:
        return text
    lines = text.split("\n")
    if sum(map(_is_pair, lines, lines[1:])) < LABELS_MIN:
        return text
    out: list[str] = []
    row = ""
    at = 0
    while at < len(lines):
        line = lines[at]
        below = lines[at + 1] if at + 1 < len(lines) else ""
        told, at = (f"{line} {below}", at + 2) if _is_pair(line, below) else (line, at + 1)
        is_cell = told is line and _is_cell(line) and ": " not in line
        if row and not (is_cell and len(row) + len(_JOINT) + len(line) <= ROW_CHARS_MAX):
            out.append(row)
            row = ""
        if is_cell:
            row = f"{row}{_JOINT}{line}" if row else line
        else:
            out.append(told)
    return "\n".join([*out, row] if row else out)


def _is_pair(line: str, below: str) -> bool:
    return bool(_LABEL.fullmatch(line)) and _is_cell(below) and not _LABEL.fullmatch(below)


def _is_cell(line: str) -> bool:
    return len(line) <= CELL_CHARS_MAX and bool(_CELL.fullmatch(line))
