"""Scan: every pattern of these rules runs here, on RE2, in one pass over UTF-8 bytes.

Tool output is hostile: Python's `re` needs seconds for some 40 KB lines, RE2 never more than one pass. On bytes
it is two to three times faster than on text, because it need not translate places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import re2

_ANYWHERE = re2._Anchor.UNANCHORED


def encoded(text: str) -> bytes:
    """Return *text* as patterns read it; lone surrogates become question marks."""
    return text.encode("utf-8", "replace")


def places(pattern: Any, data: bytes, *, most: int) -> list[list[tuple[int, int]]]:
    """Return the spans of *pattern* and its groups in *data*, at most *most* times; everything here goes through this.

    Calls what `finditer` calls: its match objects and generators cost half as much again as RE2 itself (measured
    0.98 against 0.68 ms for all patterns of values on 8 KB). A test compares the two.
    """
    match, at, end = pattern._regexp.Match, 0, len(data)
    out: list[list[tuple[int, int]]] = []
    while len(out) < most:
        spans_ = match(_ANYWHERE, data, at, end)
        first, last = spans_[0]
        if first < 0:
            break
        out.append(spans_)
        if at == end:
            break
        at = last if last != at else at + 1
    return out


def spans(pattern: Any, data: bytes, *, group: int = 0, most: int) -> list[tuple[int, int]]:
    """Return from where to where *pattern* (or a group of it) stands in *data*."""
    return [one[group] for one in places(pattern, data, most=most) if one[group][0] < one[group][1]]


def groups(pattern: Any, data: bytes, *, most: int) -> Iterator[tuple[bytes, ...]]:
    """Yield what *pattern* and each of its groups finds in *data*; empty for a group that took no part."""
    for one in places(pattern, data, most=most):
        yield tuple([data[start:end] if start >= 0 else b"" for start, end in one])


def found(pattern: Any, data: bytes, *, group: int = 0, most: int) -> list[str]:
    """Return what *pattern* (or a group of it) finds in *data*."""
    return [data[start:end].decode("utf-8", "replace") for start, end in spans(pattern, data, group=group, most=most)]


def stands(pattern: Any, data: bytes) -> bool:
    """Tell whether *pattern* stands anywhere in *data*."""
    return bool(places(pattern, data, most=1))
