"""Traces of Python, Java, Go and JavaScript: every error and its cause stays, of the frames the first and last."""

from __future__ import annotations

import re2

from actors.core.text.count import Count
from actors.core.text.patterns import stands

from .lines import Shorter, gap, shorten_lines, telling_lines

FRAMES_FIRST, FRAMES_LAST = 2, 3
NEAREST, FARTHEST = 4, 1
"""Frames that stay by how near they are to the error: Python prints the nearest last, Java and others first."""

BEFORE_LINES = 2
"""Above the first error: what was being done."""

TELLING_FIRST = 4
"""Lines of errors that stand before frames do."""

_FRAME = re2.compile(
    r'^\s*File ".+", line \d+|^\s+at \S|^\s*\.\.\. \d+ (?:more|common frames)|^[\w./*()\[\]{}-]+\(.*\)$|^\t\S+:\d+'
)
_GO_PLACE = re2.compile(r"^\t\S+:\d+")
"""Of the call in the line above; Java's frames begin with a tab too."""

_CODE = re2.compile(r"^\s{4,}\S|^\t\S+:\d+")
_HEAD = re2.compile(
    r"Traceback \(most recent call last\)|^Caused by:|^\s*Suppressed:|During handling of the above|direct cause of the"
    r"|^panic:|^goroutine \d+ \[|^(?:[\w.$]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)\b"
    r"|^Exception in thread"
)


def shorten_trace(text: str, *, count: Count, frames: bool = False) -> Shorter:
    """Return the function that shows *text* with the inner frames of each stack left out, then its heads and causes.

    *frames*: the frames that stay matter as much, and what stands above the first error.
    """
    lines = _without_inner_frames(text.split("\n"), nearest=frames)
    heads = [number for number, line in enumerate(lines) if stands(_HEAD, line[:1000].encode())]
    telling = telling_lines(lines)
    if frames:
        first = min((*heads, *telling), default=0)
        beside = [number for number, line in enumerate(lines) if stands(_FRAME, line[:1000].encode())]
        telling = [*telling[:TELLING_FIRST], *beside, *range(first - 1, max(0, first - BEFORE_LINES) - 1, -1), *telling]
    return shorten_lines(lines, count=count, telling=[*reversed(heads), *telling])


def _without_inner_frames(lines: list[str], *, nearest: bool) -> list[str]:
    out: list[str] = []
    frames: list[list[str]] = []
    for line in (*lines, None):
        data = line[:1000].encode() if line is not None else b""
        if line is not None and stands(_FRAME, data) and not (frames and stands(_GO_PLACE, data)):
            frames.append([line])
        elif line is not None and frames and len(frames[-1]) < 4 and stands(_CODE, data):
            frames[-1].append(line)
        else:
            out += _ends(frames, nearest=nearest)
            frames = []
            if line is not None:
                out.append(line)
    return out


def _ends(frames: list[list[str]], *, nearest: bool) -> list[str]:
    """Return the lines of the first and the last *frames*, and the number of those between."""
    first, last = FRAMES_FIRST, FRAMES_LAST
    if nearest and frames:
        is_python = frames[0][0].lstrip().startswith("File ")
        first, last = (FARTHEST, NEAREST) if is_python else (NEAREST, FARTHEST)
    gone = len(frames) - first - last
    if gone <= 1:
        return [line for frame in frames for line in frame]
    above = [line for frame in frames[:first] for line in frame]
    below = [line for frame in frames[-last:] for line in frame]
    return [*above, gap(gone, "frames"), *below]
