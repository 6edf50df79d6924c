"""Links: those of a web page as a person reads them: by their words, and by where they lead if that says something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

_LABEL = r"((?:[^\[\]]|\[[^\[\]]*\])*)"
_TARGET = r"\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
_IMAGE = re2.compile(rf"!\[([^\[\]]*)\]{_TARGET}")
_LINK = re2.compile(rf"\[{_LABEL}\]{_TARGET}")
_HERE = re2.compile(r"/\w|#\w|\?\w+=")
"""How a target begins that is on the same site: with the page's address it is found again."""

_FILE = re2.compile(r"[\w./-]+\.\w{1,5}(?:#\S*)?")
"""A target that is a file: it is what is meant, and no page of a site."""

_EDITS = "action=edit"
"""In a target that changes a section of a wiki's page."""


def without_targets(lines: Sequence[str]) -> list[str]:
    """Return *lines* of a page with the words of its links; of one to another site, or to a file, its target too."""
    told = (_without(line) if "](" in line else line for line in lines)
    return [line for line in told if line.strip(" []")]


def _without(line: str) -> str:
    told: str = _LINK.sub(_words, _IMAGE.sub(_words, line))
    return told.rstrip()


def _words(link: Any) -> str:
    whole, label, target = map(str, link.group(0, 1, 2))
    is_image = whole.startswith("!")
    is_here = _HERE.match(target) or (is_image and target.startswith("//"))
    if not is_here or (_FILE.fullmatch(target) and not is_image):
        return whole if "://" not in target else f"{'!' * is_image}[{label}]({target})"
    return "" if _EDITS in target and " " not in label else label
