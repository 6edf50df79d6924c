"""JSON lines: a JSON value as a person writes it down, a line for each small object, without its marks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from .gaps import GAP

OBJECT_CHARS_MAX = 160
"""A JSON object of fewer characters stands on one line."""

ALIKE_HEAD, HEADS_LOOKED = "(in each", 3
"""How a line begins that says what all rows have alike, and among how many first lines columns are named."""

ROWS_TOGETHER_MAX, ROWS_JOINT = 3, "; "
"""Rows of a list that stand on one line, on average, where it is one of several lists, and what stands between them."""

ALIKE_MIN = 4
"""What so many objects at one place have, and all the same, says nothing of one of them."""

_MARK = re.compile(r", |[()\[\]{}]")
_COLUMNS = re.compile(r"(?:.*: )?\(.*\):")

_FIGURE = re.compile(r"-?[\d.]+|true|false|null")

Place = tuple[str, ...]
"""The names that lead to an object; those in one list are at one place."""

Objects = dict[Place, list[dict[str, Any]]]


def names_columns(line: str) -> bool:
    """Tell a line that names the columns of the rows below it; the head of a function is none."""
    return line.endswith("):") and bool(_COLUMNS.fullmatch(line))


def has_rows(text: str) -> bool:
    """Tell rows below the names of their columns, which are among the first lines."""
    return any(names_columns(line.lstrip(f"{GAP} ")) for line in text.split("\n", HEADS_LOOKED)[:HEADS_LOOKED])


def head_of(answer: str) -> str:
    """Return the names of columns that an *answer* on one line begins with, up to its first row; else nothing."""
    head, joint, _ = answer.partition("): ")
    return f"{head}{joint}" if joint and names_columns(f"{head}):") else ""


def with_names(row: str, columns: str) -> str:
    """Return a *row* with names before its figures, as the line above its rows has them: it may lose fields then.

    What stands in words says more by itself than by its place. Empty where it is no row of these *columns*.
    """
    names = parted(columns.partition("(")[2].removesuffix("):"))
    fields = parted(row)
    return ", ".join(map(_with_name, names, fields)) if len(names) == len(fields) else ""


def _with_name(name: str, field: str) -> str:
    outer, _, inner = name.partition(" (")
    if inner and field.startswith("("):
        within = map(_with_name, parted(inner.removesuffix(")")), parted(field[1:].removesuffix(")")))
        return f"{outer} ({', '.join(within)})"
    return f"{outer} {field}" if _FIGURE.fullmatch(field) else field


def json_lines(value: Any, *, differing: bool = False) -> Iterator[str]:
    """Yield a line for each small object or list of *value*, under the names that lead to it.

    With *differing*, what all objects at one place have alike is told once, and of the names that lead to an object the
    last one, where only one place has it.
    """
    if not differing:
        yield from _lines(value, name_of=_dotted)
        return
    at: Objects = {}
    _visit(value, (), at)
    last = Counter(place[-1] for place in at if place)
    name_of = partial(_shortly, last)
    alike = {place: fields for place, objects in at.items() if (fields := _alike(objects))}
    for place, fields in alike.items():
        told = ", ".join(f"{name} {flat(item)}" for name, item in fields.items())
        yield f"{ALIKE_HEAD}{f' of {name_of(place)}' if place else ''}: {told})"
    told_whole = {place for place, fields in alike.items() if _is_all(place, fields, at)}
    yield from _lines(_without(value, alike, told_whole, ()) if alike else value, name_of=name_of, together=True)


def _shortly(last: Counter[str], place: Place) -> str:
    return place[-1] if last[place[-1]] <= 1 else _dotted(place)


def _dotted(place: Place) -> str:
    name = ""
    for key in place:
        name = f"{name}.{key}".strip(".")
    return name


def _alike(objects: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the fields that all of at least `ALIKE_MIN` objects have with the same value."""
    if len(objects) < ALIKE_MIN:
        return {}
    first, *others = objects
    plain = {name: item for name, item in first.items() if not isinstance(item, dict | list)}
    return {name: item for name, item in plain.items() if all(_has(one, name, item) for one in others)}


def _is_all(place: Place, fields: dict[str, Any], at: Objects) -> bool:
    """Tell whether *fields* are all that objects at *place* have, and each that could have such an object has one."""
    if any(one.keys() != fields.keys() for one in at[place]):
        return False
    return bool(place) and all(isinstance(one.get(place[-1]), dict) for one in at.get(place[:-1], ({},)))


def _has(one: dict[str, Any], name: str, item: Any) -> bool:
    """Tell whether *one* has the field; for JSON a number is no truth value."""
    return name in one and one[name] == item and isinstance(one[name], bool) == isinstance(item, bool)


def _visit(value: Any, place: Place, at: dict[Place, list[dict[str, Any]]]) -> None:
    if isinstance(value, dict):
        at.setdefault(place, []).append(value)
        for name, item in value.items():
            if isinstance(item, dict | list):
                _visit(item, (*place, name), at)
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, dict | list):
                _visit(item, place, at)


def _without(value: Any, alike: Mapping[Place, dict[str, Any]], told_whole: Collection[Place], place: Place) -> Any:
    """Return *value* without the fields that are *alike*, and without the names of objects that are *told_whole*."""
    if isinstance(value, list):
        return [_without(item, alike, told_whole, place) for item in value]
    if not isinstance(value, dict):
        return value
    gone = alike.get(place, {})
    return {
        name: _without(item, alike, told_whole, (*place, name))
        for name, item in value.items()
        if name not in gone and (*place, name) not in told_whole
    }


def flat(value: Any) -> str:
    """Return a JSON value on one line, without quotes where none are needed."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_nested(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(_nested(item) for item in value)
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value).lower() if isinstance(value, bool) else "null" if value is None else str(value)


def parted(text: str) -> list[str]:
    """Return the fields of a *text* that `flat` wrote: commas within brackets part none."""
    fields, depth, start = [], 0, 0
    for found in _MARK.finditer(text):
        mark = found.group()
        if mark == ", ":
            if not depth:
                fields.append(text[start : found.start()])
                start = found.end()
        else:
            depth = max(0, depth + (1 if mark in "([{" else -1))
    return [*fields, text[start:]]


def flat_rows(value: Any) -> str:
    """Return the same as `flat`; of a list of objects that have the same names, these once."""
    names = _columns(value) if isinstance(value, list) else []
    rows = ", ".join(_nested(row, bare=True) for row in value) if names else ""
    return f"({', '.join(names)}): {rows}" if names else f"[{flat(value)}]" if isinstance(value, list) else flat(value)


def _nested(value: Any, *, bare: bool = False) -> str:
    if isinstance(value, dict):
        return f"({', '.join(_nested(item, bare=True) for item in value.values())})" if bare else f"({flat(value)})"
    return f"[{flat(value)}]" if isinstance(value, list) else flat(value)


def _lines(value: Any, place: Place = (), *, name_of: Callable[[Place], str], together: bool = False) -> Iterator[str]:
    """Yield a line for each small object or list of *value*, under the name of the place that leads to it.

    *together*: lists whose rows have the same columns, in one list, are a line each below these.
    """
    lead = f"{name_of(place)}: " if place else ""
    if isinstance(value, str):
        lines = [line.rstrip() for line in value.split("\n") if line.strip()]
        yield from [f"{lead}{lines[0]}", *lines[1:]] if lines else []
        return
    if not isinstance(value, dict | list) or _is_small(value):
        yield f"{lead}{flat(value)}"
        return
    if isinstance(value, list) and (names := _columns(value)):
        yield f"{lead}({', '.join(names)}):"
        yield from map(_row, value)
        return
    if together and (names := _columns_of_lists(value)):
        yield f"{lead}({', '.join(names)}):"
        yield from (ROWS_JOINT.join(map(_row, rows)) for rows in value)
        return
    items = list(value.items()) if isinstance(value, dict) else [("", item) for item in value]
    plain: list[str] = []
    for key, item in items:
        if isinstance(item, dict | list | str) and not _is_small(item):
            if plain:
                yield f"{lead}{', '.join(plain)}"
                plain = []
            yield from _lines(item, (*place, key) if key else place, name_of=name_of, together=together)
        elif isinstance(value, list) and isinstance(item, dict | list):
            yield f"{lead}{flat(item)}"
        else:
            plain.append(f"{key} {_nested(item)}".strip())
    if plain:
        yield f"{lead}{', '.join(plain)}"


def _row(row: dict[str, Any]) -> str:
    return ", ".join(_nested(item, bare=True) for item in row.values())


def _columns_of_lists(value: Any) -> list[str]:
    """Return the columns of all rows of a list of lists; nothing where they differ, or a list has many."""
    if not isinstance(value, list) or not all(isinstance(rows, list) and rows for rows in value):
        return []
    rows = [row for some in value for row in some]
    return _columns(rows) if len(rows) <= ROWS_TOGETHER_MAX * len(value) else []


def _columns(rows: list[Any]) -> list[str]:
    """Return the names of what all *rows* have alike, each with those inside it; nothing where they differ."""
    first = rows[0] if len(rows) > 1 else None
    if not isinstance(first, dict) or not first:
        return []
    shape = _shape(first)
    return shape if all(isinstance(row, dict) and _shape(row) == shape for row in rows) else []


def _shape(row: dict[str, Any]) -> list[str]:
    inner = {key: ", ".join(_shape(item)) for key, item in row.items() if isinstance(item, dict)}
    return [f"{key} ({inner[key]})" if key in inner else str(key) for key in row]


def _is_small(value: Any) -> bool:
    """Tell whether *value* stands on one line."""
    if isinstance(value, str):
        return len(value) <= OBJECT_CHARS_MAX and "\n" not in value
    return len(flat(value)) <= OBJECT_CHARS_MAX
