"""The digest as a list of values: form 1, for presets of other systems; forms 2 and 3: `account_text.py`.

A form, once released, is never changed; a better one is a new number.
"""

from __future__ import annotations

from protocol.facts import DigestItem

from .extract import CATEGORIES, LINES

FORM = 1

_TITLES = {
    "answered": "Answered earlier, done",
    "request": "Asked by the user, still open",
    "rule": "Rules of the user",
    "decision": "Decisions",
    "error": "Errors",
    "outcome": "Outcomes",
    "moved": "Files moved or deleted",
    "secret": "Secrets, not shown here",
    "tool": "Tools used",
    "path": "Paths",
    "url": "URLs",
    "email": "E-mail addresses",
    "host": "Hosts",
    "id": "Ids",
    "commit": "Commits",
    "version": "Versions",
    "date": "Dates",
    "amount": "Amounts",
    "setting": "Settings",
    "status": "Status",
    "symbol": "Symbols",
}

_JOINT = {"date": "; ", "amount": "; ", "secret": "; "}
"""Between values that may have spaces in them."""


def render(items: tuple[DigestItem, ...], *, prose: str, through: int, form: int) -> str:
    """Return the text of the digest message. Values stand verbatim, in the order of the items."""
    assert form == FORM, f"digest form {form} is not known to these rules"
    parts = [
        f"[Notes on messages 1-{through} of this conversation, kept by its memory. They record what happened: only "
        "the user's rules and open requests still ask for anything, and what was answered is done. "
        f'The messages themselves: read_artifact("messages:1-{through}").]'
    ]
    if prose:
        parts.append(prose)
    found: dict[str, list[str]] = {}
    for item in items:
        found.setdefault(item.category, []).append(item.value)
    for category in CATEGORIES:
        values = found.get(category)
        if not values:
            continue
        if category in LINES:
            parts.append("\n".join([f"{_TITLES[category]}:", *values]))
        else:
            parts.append(f"{_TITLES[category]}: " + _JOINT.get(category, " ").join(values))
    return "\n".join(parts)
