"""Edit blocks: edits between marks in a text: assistants write them for Aider, calls of Cline and Roo Code have them.

Source: Aider, `editblock_prompts.py`; Cline, `replace_in_file`; Roo Code, `apply_diff`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_BEGIN = re.compile(r"\s{0,8}(?:<{5,9}|-{5,9}) ?SEARCH>?\s*")
_MIDDLE = re.compile(r"\s{0,8}={5,9}\s*")
_END = re.compile(r"\s{0,8}(?:>{5,9}|\+{5,9}) ?REPLACE\s*")
_LINE_NUMBER = re.compile(r":(?:start_line|end_line):\d*\s*|-{5,9}\s*")
"""What Roo Code puts above the text that is looked for."""

_PATH = re.compile(r"[\s*#`]{0,8}([^\s*#`:]{0,300}[./][^\s*#`:]{0,300}):?[\s*`]{0,8}")
_FENCE = re.compile(r"\s{0,8}(?:`{3,9}|~{3,9})\S{0,40}\s*")

_MARK = "SEARCH"


class EditBlock(NamedTuple):
    """What is to stand in *new* where *old* stands, in which file; empty where the text does not say it."""

    path: str
    old: str
    new: str


class _Block(NamedTuple):
    first: int
    end: int
    edit: EditBlock
    """Of lines, from the one with its path to the one behind it."""


def edit_blocks(text: str) -> list[EditBlock]:
    """Return the edits that stand in *text*."""
    return [one.edit for one in _blocks(text.split("\n"))] if _MARK in text else []


def without_blocks(text: str) -> tuple[str, list[EditBlock]]:
    """Return the words of *text* without the edits between them whose file is known, and these edits."""
    if _MARK not in text:
        return text, []
    lines = text.split("\n")
    out: list[str] = []
    found: list[EditBlock] = []
    at = 0
    for block in _blocks(lines):
        if block.edit.path:
            out += lines[at : max(at, block.first)]
            at = block.end
            found.append(block.edit)
    return "\n".join([*out, *lines[at:]]).strip() if found else text, found


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yield the blocks in *lines*; several in one fence are of the same file."""
    at, last = 0, 0
    path = ""
    while at < len(lines):
        found = _BEGIN.fullmatch(lines[at]) and _block_at(lines, at)
        if not found:
            at += 1
            continue
        middle, end = found
        first, named = _path_above(lines, at, last)
        path = named or (path if not "".join(lines[last:at]).strip() else "")
        old = lines[at + 1 : middle]
        while old and _LINE_NUMBER.fullmatch(old[0]):
            old = old[1:]
        last = at = end + 1
        if at < len(lines) and _FENCE.fullmatch(lines[at]):
            at += 1
        yield _Block(first, at, EditBlock(path, "\n".join(old), "\n".join(lines[middle + 1 : end])))


def _block_at(lines: Sequence[str], at: int) -> tuple[int, int] | None:
    """Return the lines of the middle and the end of the block that begins at line *at*; None where it does not end."""
    middle = 0
    for place in range(at + 1, len(lines)):
        line = lines[place]
        if _BEGIN.fullmatch(line):
            return None
        if not middle and _MIDDLE.fullmatch(line):
            middle = place
        elif middle and _END.fullmatch(line):
            return middle, place
    return None


def _path_above(lines: Sequence[str], at: int, last: int) -> tuple[int, str]:
    """Return the line with the path above the block at line *at*, and the path, below line *last*; else *at*."""
    above = at - 1 if at > last and _FENCE.fullmatch(lines[at - 1]) else at
    if above > last and (found := _PATH.fullmatch(lines[above - 1])):
        return above - 1, found[1]
    return above, ""
