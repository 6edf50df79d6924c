"""Notices: what an agent's program puts in the user's place unasked: a background task ended, an editor shows a file,
a list is to be kept. Nobody said it, and it answers no call."""

from __future__ import annotations

import re
from collections.abc import Iterator

LOOKED_AT_CHARS = 240
"""Of an element's beginning, and of a reminder's."""

EVENTS = frozenset(
    ("task-notification", "local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr")  # Claude Code
)
"""Elements that tell what happened."""

STATES = frozenset(
    (
        *("system-reminder", "local-command-caveat"),  # Claude Code, OpenCode
        *("environment_details", "environment_context"),  # Cline, Roo Code; Codex
    )
)
"""Elements that tell how things are just then, which the next one tells anew."""

NOTICES = EVENTS | STATES

_LEADING = re.compile(r"\s*<([a-z][a-z_-]{3,23})>")
_CHILD = re.compile(r"<([a-z][a-z_-]{1,23})>")
_NAMES = frozenset(("task-id", "tool-use-id", "output-file", "status"))
"""Children of an event by which a program finds it again."""

_REMINDER = re.compile(r"\s*(?:# TODO LIST UPDATE REQUIRED|# task_progress |\[TASK RESUMPTION\])")
"""How Cline speaks of its list, and of a break."""

_SAID = re.compile(r"<(feedback|user_feedback|user_message|user_input|answer|task)>")
"""How a person's words begin in a frame of Cline or Roo Code."""

_FRAME = re.compile(
    r"\s*(?:\[[a-z]\w*(?: for [^\n]{1,160}?)?\] Result:|The user has provided feedback on the results\."
    r"|\[TASK RESUMPTION\]|New instructions for task continuation:)"
)
"""How such a frame begins."""


def is_notice(text: str) -> bool:
    """Tell whether *text* is nothing but notices, so that nobody says it."""
    if _REMINDER.match(text[:LOOKED_AT_CHARS]):
        return not words_in(text)
    told, rest = _parted(text)
    return bool(told) and not rest


def happened(text: str) -> str:
    """Return the events that the notices in *text* tell; an empty text where they say how things are."""
    told = []
    for name, body in _parted(text)[0]:
        if name in EVENTS:
            children = [inner.strip() for child, inner in _elements(_CHILD, body) if child not in _NAMES]
            told.append("\n".join(children) or body.strip())
    return "\n".join(told)


def spoken(text: str) -> str:
    """Return the words of a person in *text*, without the frame and the notices that a program put around them."""
    rest = _parted(text)[1] or text
    said = words_in(rest) if _FRAME.match(rest[:LOOKED_AT_CHARS]) else []
    return "\n\n".join(said) or rest


def words_in(text: str) -> list[str]:
    """Return a person's words in a frame that a program put around them."""
    return [inner.strip() for _, inner in _elements(_SAID, text) if inner.strip()]


def _parted(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return the notices at both ends of *text*, by their names, and what stands between them."""
    told: list[tuple[str, str]] = []
    at = 0
    while (found := _LEADING.match(text, at)) is not None and found.group(1) in NOTICES:
        end = text.find(f"</{found.group(1)}>", found.end())
        if end < 0:
            break
        told.append((found.group(1), text[found.end() : end]))
        at = end + len(found.group(1)) + 3
    rest = text[at:].strip()
    while rest.endswith(">") and (name := rest[rest.rfind("</") + 2 : -1]) in NOTICES:
        start = rest.rfind(f"<{name}>")
        if start < 0:
            break
        told.append((name, rest[start + len(name) + 2 : -len(name) - 3]))
        rest = rest[:start].rstrip()
    return told, rest


def _elements(opening: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """Yield the elements in *text* that begin with *opening*, each by its name, up to one that does not end."""
    at = 0
    while (found := opening.search(text, at)) is not None:
        close = f"</{found.group(1)}>"
        end = text.find(close, found.end())
        if end < 0:
            return
        yield found.group(1), text[found.end() : end]
        at = end + len(close)
