"""Endings: the last lines of a result, of which a tool may end every one with the same."""

from __future__ import annotations

import re
from itertools import takewhile

LINES_MAX, LINES_MAX_BEFORE = 6, 4
"""Looked at, at most."""

_FAILS = r"(?i:\b(?:not?|never|cannot|unable|error|fail\w*|abort\w*|reject\w*|refus\w*|invalid)\b)"
FAILS = re.compile(_FAILS)
TELLS = re.compile(rf"\b\d+\b|{_FAILS}")
"""Figures and failures: such a line is no frame."""

_STATE = re.compile(r"([(\[][A-Za-z][^:]{0,40}): .*[)\]]")
_OUTCOME = re.compile(r"(?i)exit|code|status|result|fail|error")
_PROMPT = re.compile(r"[\w.@:~/-]{1,60}[$#]")


def last_lines(text: str, *, states: bool) -> list[str]:
    """Return the last lines of *text* that may be a frame, the last one first.

    *states*: one that names a state may have figures.
    """
    lines = text.rstrip().rsplit("\n", LINES_MAX if states else LINES_MAX_BEFORE)[1:]
    return list(takewhile(lambda line: not TELLS.search(line) or (states and state_in(line)), reversed(lines)))


def state_in(line: str) -> str:
    """Return the name of the state that a *line* in brackets tells, as `(Current directory: /srv)` does, or nothing.

    How a command ended is none: it differs where it matters.
    """
    found = _STATE.fullmatch(line.strip())
    return found.group(1) if found and not _OUTCOME.search(line) else ""


def is_prompt(line: str) -> bool:
    """Tell the prompt of a shell that stands alone."""
    return bool(_PROMPT.fullmatch(line.strip()))
