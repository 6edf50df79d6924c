"""Edits: what a call put in the place of something else, as a diff says it: what is new first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, NamedTuple

from actors.core.text.gaps import GAP

from .clips import clipped
from .edit_blocks import edit_blocks
from .written_files import files_patched

NEW_MARK, OLD_MARK, BESIDE_MARK = "+ ", "- ", "  "
NEW_SHARE = 0.65
"""Of the room, for what is new where all is too long."""

COMPARED_MAX = 20_000
"""Pairs of lines that are compared at most: beyond that, all between the first and the last difference is new."""

FOLDERS = 3
"""Of a file in a patch, with its name: what was changed stands whole below all steps."""

EDITS = frozenset(("str_replace", "replace", "edit", "update"))
"""What a tool that does several things is told, where it is to edit."""

_OLD = re.compile(r"(?i)(?:old|search|find|before|original)")
_NEW = re.compile(r"(?i)(?:new|replac|after|updated)")


class Edit(NamedTuple):
    """A text and the one that stands in its place now."""

    old: str
    new: str


def edits_in(arguments: Mapping[str, Any]) -> tuple[list[Edit], frozenset[str]]:
    """Return the edits that the *arguments* of a call ask for, one or a list of them, and the names that say them."""
    for name, value in arguments.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            edits = [edit for one in value if (edit := _edit(one)[0])]
            if len(edits) == len(value):
                return edits, frozenset((name,))
    for name, value in arguments.items():
        if isinstance(value, str) and (blocks := edit_blocks(value)):
            return [Edit(one.old, one.new) for one in blocks], frozenset((name,))
    edit, names = _edit(arguments)
    return ([edit], names) if edit else ([], frozenset())


def _edit(arguments: Mapping[str, Any]) -> tuple[Edit | None, frozenset[str]]:
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    old = next(filter(_OLD.match, texts), None)
    new = next((name for name in texts if name != old and _NEW.match(name)), None)
    if old is None or new is None:
        return None, frozenset()
    return Edit(texts[old], texts[new]), frozenset((old, new))


def patch_text(tool: str, patch: str, chars: int) -> str:
    """Return a *patch* in Codex's form as an edit by *tool*, with its files; empty where it is none."""
    files = files_patched(patch)
    if not files or "*** Delete File: " in patch or "*** Move to: " in patch:
        return ""  # told as it stands: names that are gone are in no list of files
    ends = ("/".join(name.split("/")[-FOLDERS:]) for name in files)
    told = (end if end == name else f"{GAP}/{end}" for end, name in zip(ends, files, strict=True))
    begin = clipped(f"{tool} {', '.join(told)}", chars)
    edits = [Edit("\n".join(old), "\n".join(new)) for old, new in _hunks(patch)]
    return f"{begin}\n{edits_text(edits, chars - len(begin))}".rstrip()


def _hunks(patch: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the lines before and after of each part of a *patch*."""
    old: list[str] = []
    new: list[str] = []
    for line in (*patch.splitlines(), "@@"):
        if line.startswith(("@@", "***")):
            if old or new:
                yield old, new
            old, new = [], []
        else:
            old += [line[1:]] if line[:1] != "+" else []
            new += [line[1:]] if line[:1] != "-" else []


def edits_text(edits: Sequence[Edit], chars: int) -> str:
    """Return *edits* in about *chars* characters: the lines that are new, those that they replace, and those beside."""
    new, old, beside = [], [], []
    for edit in edits:
        before, after = edit.old.split("\n"), edit.new.split("\n")
        for is_same, gone, come in _parts(before, after):
            if is_same:
                beside += [f"{BESIDE_MARK}{line}" for line in gone if line.strip()]
            else:
                new += [f"{NEW_MARK}{line}" for line in come if line.strip()]
                old += [f"{OLD_MARK}{line}" for line in gone if line.strip()]
    told = _within(new, int(chars * NEW_SHARE) if old else chars)
    told += _within(old, chars - _chars(told))
    return "\n".join([*told, *_within(beside, chars - _chars(told))])


def _parts(before: list[str], after: list[str]) -> Iterator[tuple[bool, list[str], list[str]]]:
    """Yield the lines before and after, part by part, and whether a part stayed as it was."""
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    gone, come = before[first : len(before) - last], after[first : len(after) - last]
    yield True, before[:first], []
    if len(gone) * len(come) <= COMPARED_MAX:
        for tag, start, end, begin, stop in SequenceMatcher(None, gone, come, autojunk=False).get_opcodes():
            yield tag == "equal", gone[start:end], come[begin:stop]
    else:
        yield False, gone, come
    yield True, before[len(before) - last :], []


def _alike(some: Sequence[str], others: Sequence[str]) -> int:
    """Return how many of *some* begin both lists."""
    return next(
        (number for number, (one, other) in enumerate(zip(some, others, strict=False)) if one != other),
        min(len(some), len(others)),
    )


def _within(lines: Sequence[str], chars: int) -> list[str]:
    """Return the first of *lines* that fit *chars*, the last of them cut where it has to be."""
    out: list[str] = []
    for line in lines:
        if len(line) > chars:
            if chars > len(NEW_MARK) + len(GAP):
                out.append(f"{line[: chars - 1]}{GAP}")
            break
        out.append(line)
        chars -= len(line) + 1
    return out


def _chars(lines: Sequence[str]) -> int:
    return sum([len(line) + 1 for line in lines])


def without_beside(call: str) -> str:
    """Return the *call* of an edit without the lines that stayed: on one line nothing tells them from others.

    They stand last, behind those that are new or gone; any other call is returned as it is.
    """
    lines = call.split("\n")
    if (
        len(lines) < 2
        or not any(one in lines[0].casefold() for one in EDITS)
        or not lines[1].startswith((NEW_MARK, OLD_MARK))
    ):
        return call
    last = max(place for place, line in enumerate(lines) if line.startswith((NEW_MARK, OLD_MARK)))
    if any(line.startswith(BESIDE_MARK) for line in lines[:last]):
        return call
    return "\n".join([*lines[: last + 1], *(line for line in lines[last + 1 :] if not line.startswith(BESIDE_MARK))])


def newest_of(call: str) -> str:
    """Return the lines that the call of an edit says are new, on one line; an empty text for any other call."""
    if f"\n{NEW_MARK}" in call:
        lines = call.split("\n")
        return " ".join(line.removeprefix(NEW_MARK).strip() for line in lines if line.startswith(NEW_MARK))
    return call.partition(f" {NEW_MARK}")[2].partition(f" {OLD_MARK}")[0]
