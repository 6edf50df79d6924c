"""Spoken: a person's words without what a program put around them: frames, reminders, the state of an editor.

Source: Claude Code, OpenCode, Codex, Cline, Roo Code, Gemini CLI, GitHub Copilot, Cursor, Crush, Antigravity: their
code or runs.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .cline import passed_on
from .notices import LOOKED_AT_CHARS, SENT, STATES, Notice, is_programs, leading, passes_on

REMINDER_CHARS_MIN = 300
"""Of reminders around a person's words: shorter ones stay with them."""

_INSTRUCTIONS = "AGENTS.md"
"""As an element it is nobody's."""

REMINDERS = frozenset(("system-reminder", "local-command-caveat", _INSTRUCTIONS, *STATES))
"""Elements that stand around a person's words: a project's instructions, what hooks add, what an editor shows."""

_AGENTS = re.compile(r"\s*# AGENTS\.md instructions for [^\n]+\n+<INSTRUCTIONS>(.*?)</INSTRUCTIONS>", re.DOTALL)
"""How Codex hands on a project's instructions."""

_COMMAND = re.compile(r"(?:\s*<command-(?:message|name|args)>[^<]*</command-(?:message|name|args)>)+\s*")
_COMMAND_PART = re.compile(r"<command-(name|args)>([^<]*)</")
"""How Claude Code says that a person called a command, whose text is the next message."""

SENT_FRAME = (
    rf"<system-reminder>\s*{SENT} ?[^\n]*:\n(?P<said>.*?)\n\n"
    r"(?:IMPORTANT: |Please address this|This is how Claude Code)[^\n]{0,600}\s{0,8}</system-reminder>"
)
"""In which Claude Code and OpenCode pass on what a person says while an agent works."""

_FRAMES = tuple(
    re.compile(frame, re.DOTALL)
    for frame in (
        SENT_FRAME,
        r"User (?:hints|steering update):\s*<user_input>(?P<said>.*)</user_input>\s*Internal instruction: .*",
        r"The previous session was interrupted because it got too long, the initial user request was: `(?P<said>.*)`",
        # CrewAI
        r"You got human feedback on your work, re-evaluate it and give a new Final Answer when ready\.\s(?P<said>.*)",
        r"User feedback: (?P<said>.*)\nInstructions: Use this feedback to enhance the next output iteration\.[^\x00]*",
        # mini-swe-agent
        r"Commands? not executed\. The user rejected your commands? with the following message: (?P<said>.*)",
        # Antigravity
        r"<USER_REQUEST>(?P<said>(?:(?!</USER_REQUEST>).)*)</USER_REQUEST>"
        r"(?:\s{0,8}<(ADDITIONAL_METADATA|USER_SETTINGS_CHANGE)>(?:(?!</\2>).)*</\2>)*",
        r"Base directory for this skill: \S+\n.*\n\nARGUMENTS:(?P<said>.*)",
    )
)
"""All of a message in which a program passes on what a person says."""

_OPENING = re.compile(r"\s*<([A-Za-z][\w-]{2,40})(?:\s[^>\n]{0,400})?>")
_CLOSING = re.compile(r"</([a-z][a-z_-]{3,31})>\s{0,8}\Z")
ASKS = {
    "userRequest": frozenset(("context", "editorContext", "repoContext", "reminderInstructions", "importantReminders")),
    "user_query": frozenset(("user_info", "open_and_recently_viewed_files")),
}
"""Elements of GitHub Copilot and Cursor with a person's words, and those above them that are not a person's."""


class _Element(NamedTuple):
    name: str
    inner: str
    whole: str


def spoken(text: str) -> str:
    """Return *text* without what a program put around a person's words; *text* where there are none."""
    if _COMMAND.fullmatch(text) and text.count("<command-name>") == 1:
        part = dict(_COMMAND_PART.findall(text))
        return f"{part['name']} {part.get('args', '')}".strip() if part.get("name") else text
    if said := _asked(text) or passed_on(text, refusals=True):
        return said
    bare, name = _without_state(text)
    framed = next(filter(None, (frame.fullmatch(bare.strip()) for frame in _FRAMES)), None)
    said = framed["said"].strip() if framed else _around(bare)[1]
    state = f"\n<{name}> … </{name}>" if name else ""
    return f"{said}{state}" if said.strip() else text


def _without_state(text: str) -> tuple[str, str]:
    """Return *text* without the state of an editor below it, and the name of that element; empty without one."""
    closing = _CLOSING.search(text, max(0, len(text) - LOOKED_AT_CHARS))
    name = closing.group(1) if closing else ""
    start = text.rfind(f"\n<{name}>\n") if name in STATES else -1
    # what stands behind another end is a person's, and so is an element that begins otherwise
    if start < 0 or not is_programs(name, text[start + len(name) + 3 :]) or text.count(f"</{name}>", start) != 1:
        return text, ""
    return text[:start].rstrip(), name


def reminders_in(text: str) -> str:
    """Return the text of the reminders around a person's words in *text*, which `spoken` leaves out, or without any."""
    if is_reminder(text):
        return "\n".join(one.text.strip() for one in _above(text)[0])
    return "\n".join(one.text.strip() for one in _around(text)[0] if one.name not in STATES)


def is_reminder(text: str) -> bool:
    """Tell whether a program alone speaks in *text*, as in the first message of a talk."""
    told, rest = _above(text)
    return bool(told) and not rest.strip() and all(map(_is_known, told))


def _is_known(notice: Notice) -> bool:
    return notice.name in REMINDERS and not passes_on(notice) and is_programs(notice.name, notice.text)


def _above(text: str) -> tuple[list[Notice], str]:
    """Return the notices above the words in *text*, and what stands behind them."""
    agents = _AGENTS.match(text)
    if agents is None:
        return leading(text)
    told, rest = leading(text[agents.end() :])
    return [Notice(_INSTRUCTIONS, agents[1]), *told], rest


def _around(text: str) -> tuple[list[Notice], str]:
    """Return the reminders around a person's words, and these; *text* as it is where something else stands there."""
    told, rest = _above(text)
    below: list[Notice] = []
    while (closing := _CLOSING.search(rest, max(0, len(rest) - LOOKED_AT_CHARS))) is not None:
        name = closing.group(1)
        start = rest.rfind(f"\n<{name}>") + 1
        if name not in REMINDERS or not start or rest.count(f"</{name}>", start) != 1:
            break
        below.insert(0, Notice(name, rest[start + len(name) + 2 : closing.start()]))
        rest = rest[:start].rstrip()
    around = [*told, *below]
    is_long = sum(len(one.text) for one in around if one.name not in STATES) >= REMINDER_CHARS_MIN
    is_state = all(one.name in STATES for one in around)
    if not (around and rest.strip() and (is_long or is_state) and all(map(_is_known, around))):
        return [], text
    return around, rest.lstrip("\n")


def _asked(text: str) -> str:
    """Return the words in the last of nothing but elements, and what was given with them; else an empty text."""
    if not text.rstrip().endswith(tuple(f"</{name}>" for name in ASKS)):
        return ""
    found: list[_Element] = []
    at = 0
    while (opening := _OPENING.match(text, at)) is not None:
        close = f"</{opening.group(1)}>"
        end = text.find(close, opening.end())
        if end < 0:
            return ""
        at = end + len(close)
        found.append(_Element(opening.group(1), text[opening.end() : end].strip(), text[opening.start() : at].strip()))
    name = found[-1].name if found else ""
    if text[at:].strip() or name not in ASKS or f"<{name}>\n" not in text:
        return ""
    asked = [one.inner for one in found if one.name == name]
    return "\n".join([*asked, *(one.whole for one in found if one.name != name and not _is_beside(one, name))])


def _is_beside(element: _Element, name: str) -> bool:
    """Tell whether *element*, above one of *name* with a person's words, is not a person's."""
    return element.name in ASKS[name] and is_programs(element.name, element.inner)
