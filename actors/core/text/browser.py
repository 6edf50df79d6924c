"""Browser: what browser-use says in the user's place behind an action, and the actions in its model's one call.

Source: browser-use, `agent/prompts.py`, `agent/message_manager/service.py` and `agent/views.py`.
"""

from __future__ import annotations

import json
import re

from .kinds import parsed_json
from .written import Written, WrittenCall

AGENT_OUTPUT = "AgentOutput"
"""The one tool of its model: arguments are what it thinks of the last step, and a list of actions."""

_SAYS = ("evaluation_previous_goal", "memory", "next_goal", "thinking")
_NOTHING_BEFORE = re.compile(r"Unknown - No previous actions to evaluate\.?")

_RESULT = re.compile(r"\s*Action (result|error)(?: (\d{1,3})/\d{1,3})?: ")
_PAGE = re.compile(
    r"\s*(?:\[Task history memory ends[^\]\n]{0,20}\]\s{0,8})?(?:\[Current state starts here\]\s{0,8})?"
    r"(?:The following is one-time information[^\n]{0,120}\n)?Current url: (?P<url>[^\n]{0,8000})\nAvailable tabs:\n"
    r"(?P<tabs>[^\n]*)(?:\nInteractive elements[^\n]{0,120})?(?:\n\[Start of page\])?"
)
_TAB = "TabInfo("
_SCROLL = re.compile(r"(?m)^\.\.\. (\d+ pixels (?:above|below)) - scroll [^\n]* \.\.\.$")
_BELOW = re.compile(
    r"(?:\n\[End of page\])?\nCurrent step: \d{1,6}/\d{1,6}Current date and time: [^\n]{0,60}\Z|\n\[End of page\]\Z"
)
BELOW_CHARS = 200
"""Of the end of a page, where it stands."""

_ELEMENT = re.compile(r"[ \t]*\*{0,2}(?:\[\d{1,5}\]|\d{1,5}\[:\])<(?P<link>a\b)?")
LABEL_BYTES, LINK_BYTES = 60, 30
"""Of the line of an element, and of a link, that is told: a shorter one is a button or a menu, and its number is of
that page alone."""

_EXTRACTED = re.compile(r"\W{0,3}\s{0,3}Extracted from page\s{0,3}: ```json\s(?P<json>.*)\s```\s*\Z", re.DOTALL)

_RETURNED = ("", "Browser started")
_BEGINS = re.compile(r"\s*\[Your task history memory starts here\]\s*\Z")


def is_shown(text: str) -> bool:
    """Tell whether *text* says what an action did, or how the open page is."""
    return any(form.match(text) for form in (_RESULT, _PAGE, _BEGINS))


def follows(before: str, *, is_result: bool) -> bool:
    """Tell whether it can stand behind the text *before*: what a tool of browser-use returned, or another such text."""
    return (is_result and before.strip() in _RETURNED) or is_shown(before)


def as_result(text: str) -> str:
    """Return *text*, of which `is_shown` is true, as a tool would return it."""
    if found := _RESULT.match(text):
        result = text[found.end() :]
        if read := _EXTRACTED.match(result):
            return read["json"]
        return f"{'Error: ' * (found[1] == 'error')}{result}"
    if found := _PAGE.match(text):
        tabs = f"\n{found['tabs']}" if found["tabs"].count(_TAB) > 1 else ""
        below = _SCROLL.sub(r"(\1)", text[found.end() :]).rstrip()
        if ended := _BELOW.search(below, max(0, len(below) - BELOW_CHARS)):
            below = below[: ended.start()]
        shown = [line for line in below.splitlines() if line.strip() and not _is_label(line)]
        return "\n".join([f"{found['url']}{tabs}", *shown])
    return "" if _BEGINS.match(text) else text


def _is_label(line: str) -> bool:
    found = _ELEMENT.match(line) if len(line) < LABEL_BYTES else None
    return found is not None and len(line.encode("utf-8", "replace")) < (LINK_BYTES if found["link"] else LABEL_BYTES)


def is_read(text: str) -> bool:
    """Tell whether a result is what was read from a page, which then shows no more than that."""
    return "Extracted from page" in text[:60]


def with_address(read: str, page: str) -> str:
    """Return the JSON that was *read* with the address of the *page* that is shown behind it, where it has none."""
    found = _PAGE.match(page)
    inner = read.lstrip().removeprefix("{").lstrip()
    if not found or found["url"] in read or inner[:1] != '"' or not read.lstrip().startswith("{"):
        return read
    return f'{{"page": {json.dumps(found["url"])}, {inner}'


def action_in(text: str, following: int) -> int | None:
    """Return the place of the action that *text* is about, the *following* one where it says none; None for a page."""
    found = _RESULT.match(text)
    if found is None:
        return None
    return int(found[2]) - 1 if found[2] else following


def actions_in(arguments: str) -> Written | None:
    """Return a model's thoughts in the *arguments* of its call, and the actions; None where they are no such call's."""
    value = parsed_json(arguments)
    actions = value.get("action") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(actions, list):
        return None
    state = value.get("current_state")
    told = state if isinstance(state, dict) else value
    said = (told.get(name) for name in _SAYS)
    calls = [
        WrittenCall(name, json.dumps(given if isinstance(given, dict) else {"value": given}, ensure_ascii=False))
        for action in actions
        if isinstance(action, dict)
        for name, given in action.items()
        if given is not None
    ]
    words = (one.strip() for one in said if isinstance(one, str) and not _NOTHING_BEFORE.fullmatch(one.strip()))
    return Written("\n".join(filter(None, words)), calls)
