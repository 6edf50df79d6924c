"""Change rows: what people asked for beside the actors, as the page tells it: put back, gone back, copied, erased."""

from __future__ import annotations

from protocol.codec import Commit
from protocol.facts import (
    ConversationArchived,
    ConversationErased,
    ConversationForked,
    ConversationRepaired,
    ConversationRewound,
    HistoryExpanded,
)

Undoing = (
    HistoryExpanded
    | ConversationRewound
    | ConversationForked
    | ConversationErased
    | ConversationRepaired
    | ConversationArchived
)


def undoings(commit: Commit) -> list[tuple[str, Undoing]]:
    """Return the facts of *commit* that somebody asked for, each behind its name."""
    return [(type(fact).__name__, fact) for fact in commit.facts if isinstance(fact, Undoing)]
