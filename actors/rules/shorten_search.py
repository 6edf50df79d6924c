"""Search results and listings: hits under their file, files under their folder, each named once."""

from __future__ import annotations

import re2

from .entry import Count
from .shorten_lines import shorten_lines, telling_lines

_HIT = re2.compile(r"^((?:[\w.@+~-]*[/.][\w./@+~-]*|\w+)):(\d+)[:-](.*)$")
HIT_CHARS_MAX = 240
"""A hit in a minified file is one line of thousands of characters."""


def shorten_search(text: str, *, tokens_max: int, count: Count) -> str:
    """Return the hits in *text* grouped by their file, within *tokens_max* tokens."""
    lines: list[str] = []
    heads: list[int] = []
    path = ""
    for line in text.split("\n"):
        hit = _HIT.match(line)
        if hit is None:
            path = ""
            lines.append(line)
            continue
        if hit.group(1) != path:
            path = hit.group(1)
            heads.append(len(lines))
            lines.append(f"{path}:")
        said = hit.group(3).rstrip()
        more = f"[… {len(said) - HIT_CHARS_MAX:,} characters …]" if len(said) > HIT_CHARS_MAX + 30 else ""
        lines.append(f" {hit.group(2)}:{said[:HIT_CHARS_MAX] if more else said}{more}")
    return shorten_lines("\n".join(lines), tokens_max=tokens_max, count=count, telling=heads)


def shorten_listing(text: str, *, tokens_max: int, count: Count) -> str:
    """Return the paths in *text*: all, if they fit under their folders, else both ends."""
    if count(text) <= tokens_max:
        return text
    folded: list[str] = []
    folder = None
    for line in text.split("\n"):
        above, slash, name = line.strip().rpartition("/")
        if not slash or not name:
            folder = None
            folded.append(line)
            continue
        if above != folder:
            folder = above
            folded.append(f"{above}/")
        folded.append(f" {name}")
    grouped = "\n".join(folded)
    if count(grouped) <= tokens_max:
        return grouped
    lines = text.split("\n")
    return shorten_lines(text, tokens_max=tokens_max, count=count, telling=telling_lines(lines))
