"""Records: a JSON object that a tool looked up, told by its fields. What is known already is left out of its step."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import Any

from actors.core.message_texts import MessageText
from actors.core.text.gaps import GAP
from actors.core.text.json_lines import flat, parted
from actors.core.text.kinds import FLAT_DEPTH_MAX, is_deep, parsed_json
from actors.core.text.line_worths import Sought, words_of

_IDENTIFIER = re.compile(r"(?=\S*\d)[\w.:/@-]{5,64}")

_ID_FIELD = re.compile(r"(?:id|\w*_id|[a-z]\w*Id|uuid) (?=\S*[A-Za-z])(?=\S*\d)[\w.:/@-]{5,64}")
"""A field that says whose a record is."""

_NAME = re.compile(r"(?=.*\d)\S{3,}|\S+@\S+")
"""A word that names something, or a figure that tells things apart."""

_PAIRS = (("origin", "destination"), ("from", "to"), ("start", "end"), ("departure", "arrival"), ("min", "max"))
"""Names of fields of which one says little without the other."""

_EMPTY = frozenset(("", "0", "null", "false", "no", "none", "[]", "()"))
_WORD_WORTH = 0.4
"""Of a field that only says a word, as a status does."""

_SPOKEN_OF_WORTH = 0.5
"""Of a field whose name somebody says. Half of what a name or a figure in it is worth: with it a field of plain words
still weighs less than one that holds a name."""

_SOUGHT_MAX, _NAMES_MAX, _FRAME_CHARS = 3.0, 12, 12
CHARS_MAX = 4000
ENTRIES_MIN = 2
"""Of a field that has several: fewer say little of it."""

SOME_CHARS_MIN = 200
"""Of a record: in less, short fields say more than some entries of a long one."""

USED_WORTH_MIN = 0.5
"""Of a word: less is one that a user said, or that stands in many results."""

FIELDS_MIN = 4
WORD_CHARS_MIN = 4
"""Of what an entry is, at the beginning of its name; a shorter word begins it by chance."""


def record_in(result: str, *, listed: bool) -> dict[str, Any]:
    """Return the JSON object of several fields that a *result* is; an empty one where it is none.

    *listed*: or a list of it alone, as a search answers that found one thing.
    """
    marks = ("{", "[") if listed else ("{",)
    value = parsed_json(result) if result.lstrip()[:1] in marks and len(result) < CHARS_MAX else None
    if isinstance(value, list):
        value = value[0] if len(value) == 1 else None
    if not isinstance(value, dict) or len(value) < FIELDS_MIN or is_deep(value, FLAT_DEPTH_MAX):
        return {}
    return value


def identifiers(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the name and the value of each field that holds an identifier: one word with figures in it."""
    return [(name, value) for name, value in record.items() if isinstance(value, str) and _IDENTIFIER.fullmatch(value)]


def without_known(record: dict[str, Any], call: MessageText, first: dict[tuple[str, str, str], int]) -> dict[str, Any]:
    """Return *record* without the arguments of its *call* and what an earlier record of the tool has too.

    *first* has tool, field and value with the number of the first result that has them.
    """
    known = {
        name
        for name, value in identifiers(record)
        if json.dumps(value) in call.text or first.get((call.tool, name, value), call.number) < call.number
    }
    kept = {name: value for name, value in record.items() if name not in known}
    return kept or record


def record_text(record: dict[str, Any]) -> str:
    """Return *record* on one line in braces, its fields as a person writes them down."""
    return f"{{{', '.join(f'{name} {_told(value)}' for name, value in record.items())}}}"


def fields_of(result: str) -> list[str]:
    """Return the fields of the record that a *result* is, each on a line; none where it is no record."""
    record = record_in(result, listed=True)
    return parted(record_text(record)[1:-1]) if record else []


def is_record(text: str) -> bool:
    """Tell what `record_text` wrote, whole or shorter."""
    return text.startswith("{") and text.endswith("}") and "\n" not in text


def shorter_record(text: str, *, chars: int, sought: Sought) -> str:
    """Return those fields of a record's *text* that matter most, whole and in their order, in at most *chars*."""
    if len(text) <= chars:
        return text
    fields = [field for field in parted(text[1:-1]) if field != GAP]
    worths = _with_pairs(fields, [_worth(field, sought) / (_FRAME_CHARS + len(field)) for field in fields])
    left = chars - len(f"{{, {GAP}}}")
    kept = {}
    for place in sorted(range(len(fields)), key=lambda place: (-worths[place], place)):
        if worths[place] <= 0:
            break
        field = fields[place]
        if len(field) + 2 > left:
            field = _some_of(field, left - 2, sought) if chars >= SOME_CHARS_MIN else ""
        if field:
            left -= len(field) + 2
            kept[place] = field
    return f"{{{', '.join([*(kept[place] for place in sorted(kept)), GAP])}}}"


def _with_pairs(fields: Sequence[str], worths: Sequence[float]) -> list[float]:
    """Return the *worths* of *fields* with each that says little alone, as where something begins, as high as its other
    half."""
    places = {field.partition(" ")[0]: place for place, field in enumerate(fields)}
    out = list(worths)
    for pair in _PAIRS:
        if all(name in places for name in pair):
            one, other = (places[name] for name in pair)
            out[one] = out[other] = max(out[one], out[other])
    return out


def without_ids(text: str, known: Collection[str]) -> tuple[str, set[str]]:
    """Return a record's *text* without the fields among *known* that hold an identifier, and such fields that it has.

    A gap stands for them.
    """
    fields = [field for field in parted(text[1:-1]) if field != GAP]
    ids = {field for field in fields if _ID_FIELD.fullmatch(field)}
    kept = [field for field in fields if field not in known]
    return (f"{{{', '.join([*kept, GAP])}}}" if ids.intersection(known) and kept else text), ids


def used_worth(text: str, sought: Sought) -> float:
    """Return the worth of those values of a record's *text* together that the assistant used later."""
    words = {word for field in parted(text[1:-1]) for word in words_of(field.partition(" ")[2])}
    worths = (sought(word) for word in words if not word.isdecimal())
    return sum(sorted(worth for worth in worths if worth >= USED_WORTH_MIN))


def _some_of(field: str, chars: int, sought: Sought) -> str:
    """Return the name of *field* with those of its entries that mattered, in at most *chars*; nothing for one alone."""
    start = next((place for place, mark in enumerate(field) if mark in "(["), len(field))
    entries = parted(field[start + 1 : -1]) if _is_pair(field[start:]) else []
    worths = [sum(map(sought, words_of(entry))) for entry in entries]
    some = []
    left = chars - start - len(f"(, {GAP})")
    for place in sorted(range(len(entries)), key=lambda place: (-worths[place], place)):
        left -= len(entries[place]) + 2
        if left < 0:
            break
        some.append(place)
    told = [entries[place] for place in sorted(some)]
    if len(told) < ENTRIES_MIN or GAP in told:
        return ""
    return f"{field[: start + 1]}{', '.join([*told, GAP])}{field[-1]}"


def _is_pair(text: str) -> bool:
    """Tell whether the first character of *text* is a bracket that its last one closes."""
    depth = 0
    for place, mark in enumerate(text):
        depth += (mark in "([{") - (mark in ")]}")
        if not depth:
            return place == len(text) - 1 and bool(place)
    return False


def _worth(field: str, sought: Sought) -> float:
    """Return how much a field matters: for words that were used or asked for, and for names and figures in it."""
    name, _, told = field.partition(" ")
    names = sum(bool(_NAME.fullmatch(word)) for word in words_of(told))
    own = min(_NAMES_MAX, names) or _WORD_WORTH * (told.lower() not in _EMPTY)
    if any(map(sought, words_of(name))):
        # the instructions, the user or the assistant speak of it
        own += _SPOKEN_OF_WORTH
    return own + min(_SOUGHT_MAX, sum(sorted(map(sought, set(words_of(field))))))


def _told(value: Any) -> str:
    """Return the value of a field; within it words say themselves what they are, and figures are named."""
    if isinstance(value, dict):
        named = value.values() and all(isinstance(item, dict) for item in value.values())
        return f"({', '.join(_inner(name, item, named=bool(named)) for name, item in value.items())})"
    if isinstance(value, list):
        return f"[{', '.join(map(_told, value))}]"
    return flat(value)


def _begins(name: str, value: Any) -> bool:
    """Tell whether *value* is the word that *name* begins with, as `gift_card` of `gift_card_12`."""
    is_word = isinstance(value, str) and len(value) >= WORD_CHARS_MIN and value.replace("_", "").isalpha()
    return is_word and name.startswith((f"{value}_", f"{value}-"))


def _inner(name: str, value: Any, *, named: bool) -> str:
    if named:
        # what names an entry often stands within it again, and what it is at the beginning of its name
        own = {key: one for key, one in value.items() if one != name and not _begins(name, one)}
        return f"{name} {_told(own)}" if own else name
    return _told(value) if isinstance(value, str) else f"{name} {_told(value)}"
