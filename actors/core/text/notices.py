"""Notices: what an agent's program puts in the user's place unasked: a background task ended, an editor shows a file,
a list is to be kept. Nobody said it, and it answers no call."""

from __future__ import annotations

import re
from typing import NamedTuple

LOOKED_AT_CHARS = 240
"""Of an element's beginning, and of a reminder's."""

TASK = "task-notification"
"""Claude Code's element about a task in the background."""

EVENTS = frozenset(
    (
        *(TASK, "local-command-stdout", "local-command-stderr", "bash-stdout", "bash-stderr"),
        *("system-reminder", "local-command-caveat"),  # Claude Code, OpenCode
    )
)
"""Elements that tell something once."""

STATES = frozenset(("environment_details", "environment_context", "ide_opened_file"))
"""Elements of Cline, Roo Code, Codex and Claude Code that tell how things are just then, which the next one tells
anew."""

_NOTICES = EVENTS | STATES

_OPENING = re.compile(r"\s*<([a-z][a-z_-]{3,23})>")
_CLOSING = re.compile(r"</([a-z][a-z_-]{3,23})>\s*\Z")
_CHILD = re.compile(r"<(task-id|status|summary|event|result)>")
_DONE = "completed"
_FIGURES = re.compile(r"\d+")

_REMINDER = re.compile(
    r"\s*(?:# TODO LIST UPDATE REQUIRED - You MUST include the task_progress parameter"
    r"|# task_progress (?:List \(Optional|RECOMMENDED)|\[TASK RESUMPTION\] This task was interrupted [^.\n]{1,40}\. "
    r"(?:The conversation may have been|It may or may not be))"
)
"""How Cline speaks of its list, and of a break."""

_SENT = re.compile(r"\s*The user sent (?:the following|a new) message")
"""How Claude Code and OpenCode pass on, as a reminder, what a person says while an agent works."""

_SAYS = re.compile(r"<(?:feedback|user_feedback|user_message|user_input|answer|task)>")
"""How a person's words begin in what Cline or Roo Code puts around them."""

_FRAME = re.compile(
    r"\s*(?:\[[a-z]\w*(?: for [^\n]{1,300}?)?\] Result:\s*)?"
    r"(?:The user has provided feedback on the results\. Consider their input to continue the task, and then attempt "
    r"completion again\.|The user denied this operation and provided the following feedback:)"
    r"\s*<feedback>(?P<said>.*)</feedback>\s*\Z",
    re.DOTALL,
)
"""All of a message in which Cline passes on what a person says of a result."""


class Notice(NamedTuple):
    """What an element is called, and what stands in it."""

    name: str
    text: str


def is_notice(text: str) -> bool:
    """Tell whether *text* is nothing but notices, so that nobody says it."""
    if _REMINDER.match(text[:LOOKED_AT_CHARS]):
        return not has_words(text)
    told, rest = _leading(text)
    return bool(told) and not rest.strip() and not any(_SENT.match(one.text) for one in told)


def has_words(text: str) -> bool:
    """Tell whether a person may speak in what a program put around it."""
    return bool(_SAYS.search(text))


def happened(text: str) -> str:
    """Return the events that the notices in *text* tell; an empty text where they say how things are."""
    told = (_event(one) for one in _leading(text)[0] if one.name in EVENTS)
    return "\n".join(filter(None, told))


def task_of(text: str) -> str:
    """Return the id of the task in the background that *text*, a notice, is about; empty if it is about none."""
    told, _ = _leading(text)
    return _children(told[0].text).get("task-id", "") if [one.name for one in told] == [TASK] else ""


def spoken(text: str) -> str:
    """Return *text* without what a program put around a person's words: a frame, and the state of an editor."""
    closing = _CLOSING.search(text, max(0, len(text) - LOOKED_AT_CHARS))
    name = closing.group(1) if closing else ""
    start = text.rfind(f"\n<{name}>\n") if name in STATES else -1
    # what stands behind another end is a person's
    start = start if text.count(f"</{name}>", start) == 1 else -1
    bare, state = (text, "") if start < 0 else (text[:start].rstrip(), f"\n<{name}> … </{name}>")
    framed = _FRAME.match(bare)
    said = framed["said"].strip() if framed else _without_states(bare)
    return f"{said}{state}" if said.strip() else text


def _without_states(text: str) -> str:
    """Return *text* without the states of an editor above it; *text* where there is nothing else."""
    told, rest = _leading(text)
    return rest.lstrip("\n") if rest.strip() and all(one.name in STATES for one in told) else text


def alike(text: str) -> tuple[str, str]:
    """Return the task that *text*, a notice, is about, and its events but for figures: the same for two alike."""
    task = task_of(text)
    return (task, _FIGURES.sub("#", happened(text))) if task else ("", "")


def _event(notice: Notice) -> str:
    if notice.name != TASK:
        return notice.text.strip()
    told = _children(notice.text)
    if not told:
        return notice.text.strip()
    status = told.pop("status", _DONE)
    told.pop("task-id", None)
    said = "\n".join(filter(None, told.values()))
    if status == _DONE or re.search(rf"\b{re.escape(status)}\b", said):
        return said
    return f"{said}\nstatus: {status}".strip()


def _children(text: str) -> dict[str, str]:
    """Return the texts in the elements of a task's notice, by their names, up to one that does not end."""
    out: dict[str, str] = {}
    at = 0
    while (found := _CHILD.search(text, at)) is not None:
        close = f"</{found.group(1)}>"
        end = text.find(close, found.end())
        if end < 0:
            break
        before = out.get(found.group(1))
        inner = text[found.end() : end].strip()
        out[found.group(1)] = inner if before is None else f"{before}\n{inner}"
        at = end + len(close)
    return out


def _leading(text: str) -> tuple[list[Notice], str]:
    """Return the notices at the beginning of *text*, and what stands behind them."""
    told: list[Notice] = []
    at = 0
    while (found := _OPENING.match(text, at)) is not None and (name := found.group(1)) in _NOTICES:
        end = text.find(f"</{name}>", found.end())
        if end < 0:
            break
        told.append(Notice(name, text[found.end() : end]))
        at = end + len(name) + 3
    return told, text[at:]
