"""Links: those of a web page as a person reads them: their words, and where they lead only if that is another site."""

from __future__ import annotations

from typing import Any

import re2

_LABEL = r"((?:[^\[\]]|\[[^\[\]]*\])*)"
_TARGET = r"\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
_IMAGE = re2.compile(rf"!\[([^\[\]]*)\]{_TARGET}")
_LINK = re2.compile(rf"\[{_LABEL}\]{_TARGET}")
_HERE = ("/", "#", "?")
"""Of a target, how it begins where it is on the same site: with the page's address it is found again."""

_EDITS = ("action=edit", "veaction=edit")
"""Of a target that changes a section of a wiki's page."""


def without_targets(line: str) -> str:
    """Return a *line* of Markdown with the words of its links; of one to another site the address too, but no title."""
    if "](" not in line:
        return line
    told: str = _LINK.sub(_words, _IMAGE.sub(_words, line))
    return told.rstrip()


def _words(link: Any) -> str:
    whole, label, target = map(str, link.group(0, 1, 2))
    if any(mark in target for mark in _EDITS):
        return ""
    if target.startswith(_HERE):
        return label
    return f"{'!' * whole.startswith('!')}[{label}]({target})"
