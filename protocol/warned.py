"""Warned: what a person should set is said once in a process, not for each conversation."""

from __future__ import annotations

import logging
from collections.abc import Iterable

NOTES_MAX = 1000
"""Notes that are remembered; behind these, all are said once more."""

log = logging.getLogger("jettison")

_told: set[str] = set()


def warn(notes: Iterable[str]) -> None:
    """Log each of *notes* that was not logged before."""
    for note in notes:
        if note in _told:
            continue
        if len(_told) >= NOTES_MAX:
            _told.clear()
        _told.add(note)
        log.warning("%s", note)
