"""Warned: what a person should set is said once in a process, not for each conversation."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from .arguments import check_counts

BUDGET_LEAST = 500
"""A standing budget below it is more likely one of thousands, or a mistake, than meant."""

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


def standing(budget: int) -> int:
    """Return *budget* for every view, with a warning where no model is called with so little. Raises `Rejected`."""
    check_counts(budget=budget)
    if 0 < budget < BUDGET_LEAST:
        warn((f"a standing budget of {budget} tokens has no room for a conversation: it is in tokens, such as 16000",))
    return budget
