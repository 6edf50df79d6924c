"""Habits: what the assistant gives to its tools again and again, and what it gave them that comes back in results."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from actors.core.message_texts import MessageText
from actors.core.text.json_lines import flat
from actors.core.text.kinds import JSON_DEPTH_MAX, is_deep, parsed_json

HABIT_CALLS_MIN = 4
"""An argument that so many calls have alike says nothing."""

GIVEN_CHARS_MIN = 80
"""A text of so many characters that was given to a tool is not told again where a result has it whole."""

_HABIT = re.compile(r"[a-z_]{1,20}")

PURPOSES, PURPOSE_CHARS_MAX = ("description", "explanation", "summary", "__tool_use_purpose"), 120
"""Arguments in which a model says in a few words what a command is for (Claude Code, OpenCode, Gemini CLI; GitHub
Copilot and Cursor; Amazon Q; Kiro)."""

_FOLDER = re.compile(r"(?i)cwd|(?:work(?:ing)?_?)?dir(?:ectory)?|root")
"""An argument that says where a command runs."""


_BOUND = re.compile(r"(?i)max|limit|timeout|time_ms|wait|tokens|bytes")


def is_bound(name: str, value: object) -> bool:
    """Tell whether an argument beside a command says how long it may run, or how much of what it prints is shown."""
    return isinstance(value, int) and bool(_BOUND.search(name))


@dataclass(kw_only=True)
class Habits:
    """What calls were given, as they are read in their order."""

    plain: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Tool, argument and value that are a switch or a word of the language: how often."""
    given: dict[str, int] = field(default_factory=dict)
    """Long texts, with the number of the first call that was given each."""

    def read(self, call: MessageText, *, rules_3: bool) -> None:
        """Read the arguments of *call*; with *rules_3* also those that rules 3 alone ask for."""
        try:
            value = json.loads(call.text)
        except (ValueError, RecursionError):
            return
        for name, item in value.items() if isinstance(value, dict) else ():
            is_plain = isinstance(item, bool | int) or (isinstance(item, str) and _HABIT.fullmatch(item))
            is_plain = is_plain or (rules_3 and isinstance(item, str) and bool(_FOLDER.fullmatch(name)))
            is_plain = is_plain or (rules_3 and name in PURPOSES and isinstance(item, str))
            if is_plain and name != "command":
                self.plain[call.tool, name, flat(item)] += 1
            if rules_3 and isinstance(item, str) and len(item) >= GIVEN_CHARS_MIN:
                self.given.setdefault(item.strip(), call.number)

    def often(self) -> frozenset[tuple[str, str, str]]:
        """Return tool, argument and value that most calls of the tool have, where the value is no name."""
        return frozenset(one for one, times in self.plain.items() if times >= HABIT_CALLS_MIN)


def without_given(result: str, given: dict[str, int], *, own: int) -> str:
    """Return a *result* in JSON without the texts that were *given* to tools: a reference says where they stand.

    *own* is the number of its call.
    """
    value = (
        parsed_json(result) if given and len(result) > GIVEN_CHARS_MIN and result.lstrip()[:1] in ("{", "[") else None
    )
    if value is None or is_deep(value, JSON_DEPTH_MAX):
        return result
    less = _less(value, given, own)
    return result if less == value else json.dumps(less, ensure_ascii=False)


def _less(value: Any, given: dict[str, int], own: int) -> Any:
    if isinstance(value, dict):
        return {name: _less(item, given, own) for name, item in value.items()}
    if isinstance(value, list):
        return [_less(item, given, own) for item in value]
    if not isinstance(value, str) or len(value) < GIVEN_CHARS_MIN:
        return value
    number = given.get(value.strip(), own + 1)
    return value if number > own else "[as given]" if number == own else f"[as given in #{number}]"
