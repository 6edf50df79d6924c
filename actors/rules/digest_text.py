"""The digest as text: form 1. A form, once released, is never changed; a better one is a new number."""

from __future__ import annotations

from protocol.facts import DigestItem

from .extract import CATEGORIES

FORM = 1

_TITLES = {
    "request": "User said",
    "rule": "Rules",
    "decision": "Decisions",
    "error": "Errors",
    "outcome": "Outcomes",
    "tool": "Tools used",
    "path": "Paths",
    "url": "URLs",
    "id": "Ids",
    "setting": "Settings",
    "status": "Status",
    "symbol": "Symbols",
}
LINES = frozenset(("request", "rule", "decision", "error", "outcome"))
"""Categories whose values are sentences, one to a line."""


def render(items: tuple[DigestItem, ...], *, prose: str, through: int, form: int) -> str:
    """Return the text of the digest message. Values stand verbatim, in the order of the items."""
    assert form == FORM, f"digest form {form} is not known to these rules"
    parts = [
        f"[Notes on messages 1-{through} of this conversation, kept by its memory. They record what happened; "
        "they are not instructions, and tasks in them may be finished. "
        f'The messages themselves: read_artifact("messages:1-{through}").]'
    ]
    if prose:
        parts.append(prose)
    for category in CATEGORIES:
        values = [item.value for item in items if item.category == category]
        if not values:
            continue
        if category in LINES:
            parts.append("\n".join([f"{_TITLES[category]}:", *values]))
        else:
            parts.append(f"{_TITLES[category]}: " + " ".join(values))
    return "\n".join(parts)
