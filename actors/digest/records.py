"""Records: a JSON object that a tool looked up. Fields that say what is known already are left out of its step."""

from __future__ import annotations

import json
import re
from typing import Any

from actors.core.message_texts import MessageText
from actors.core.text.kinds import parsed_json

_IDENTIFIER = re.compile(r"(?=\S*\d)[\w.:/@-]{5,64}")

CHARS_MAX = 4000
FIELDS_MIN = 4


def record_in(result: str) -> dict[str, Any]:
    """Return the JSON object of several fields that a *result* is; an empty one where it is none."""
    value = parsed_json(result) if result.lstrip()[:1] == "{" and len(result) < CHARS_MAX else None
    return value if isinstance(value, dict) and len(value) >= FIELDS_MIN else {}


def identifiers(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the name and the value of each field that holds an identifier: one word with figures in it."""
    return [(name, value) for name, value in record.items() if isinstance(value, str) and _IDENTIFIER.fullmatch(value)]


def without_known(record: dict[str, Any], call: MessageText, first: dict[tuple[str, str, str], int]) -> str:
    """Return *record* as JSON, without the arguments of its *call* and what an earlier record of the tool has too.

    *first* has tool, field and value with the number of the first result that has them.
    """
    known = {
        name
        for name, value in identifiers(record)
        if json.dumps(value) in call.text or first.get((call.tool, name, value), call.number) < call.number
    }
    kept = {name: value for name, value in record.items() if name not in known}
    return json.dumps(kept or record, ensure_ascii=False)
