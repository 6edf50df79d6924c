"""Clipping: a line that is too long for its room, in less room around what mattered of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .gaps import GAP
from .json_lines import ROWS_JOINT, names_columns, parted, with_names
from .line_worths import WORD, Sought, words_of_each, worths_of

FIELDS_MIN = 4
"""A line of so many fields is shortened by leaving fields out."""

CLAUSE_WORDS_MIN = 5
"""Between two commas, on average: more words are a clause of a sentence, and no field. A column of a table is mostly a
word or two, the fields of a record up to four with their name."""

_SPACES = re.compile(r"\s+")
WORD_CHARS_MAX = 24
_LONG_WORD = re.compile(r"(?a)\b[\w+=-]{72,}")
ROW_CHARS_MIN = 20
"""Of a row among several on one line: in less room none says something."""

LONG_WORD_CHARS = 20
"""Of a key, a hash or a code that fills the room of a line: enough to know it again."""

_FIGURES = re.compile(r"\d[\d.,:%-]*")
_FIGURE_WORTH = 0.25
"""Of a field or a sentence, for each figure in it."""


def clipped_lines(
    lines: Sequence[str], sought: Sought, chars: int, *, is_header: Callable[[str], bool], clauses: bool
) -> list[str]:
    """Return *lines*, longer ones in at most *chars* characters: a row that loses fields says what its figures are."""
    out, columns = list[str](), ""
    for line in lines:
        if len(line) <= chars or is_header(line):
            columns = line if names_columns(line) else columns
            out.append(line)
            continue
        rows = _named_rows(line, columns) if clauses and columns else []
        room = (chars + len(ROWS_JOINT)) // max(1, len(rows)) - len(ROWS_JOINT)
        if not rows or room < ROW_CHARS_MIN:
            rows, room = [line], chars
        out.append(ROWS_JOINT.join([clipped_line(row, sought, room, clauses=clauses) for row in rows]))
    return out


def _named_rows(line: str, columns: str) -> list[str]:
    """Return the rows in *line* with the names of their figures; none where one has other *columns*."""
    named = [with_names(row, columns) for row in line.split(ROWS_JOINT)]
    return [row for row in named if row] if all(named) else []


def clipped_line(line: str, sought: Sought, chars: int, *, clauses: bool) -> str:
    """Return *line* in at most *chars* characters, a longer one around the word that mattered most."""
    if len(line) <= chars:
        return line
    if clauses:
        line = _LONG_WORD.sub(lambda found: f"{found.group()[:LONG_WORD_CHARS]}{GAP}", line)
        if len(line) <= chars:
            return line
    fields = line.split(", ")
    if len(fields) >= FIELDS_MIN and not (clauses and line.count(" ") > CLAUSE_WORDS_MIN * len(fields)):
        return _fields(parted(line) if clauses else fields, sought, chars, figures=clauses)
    best, place = 0.0, 0
    found = list(WORD.finditer(line.lower()))
    for one, worth in zip(found, worths_of([one.group() for one in found], sought), strict=True):
        if worth > best:
            best, place = worth, one.start()
    start = max(0, min(place - chars // 3, len(line) - chars))
    end = start + chars - 2
    piece = line[start:end]
    # whole words, where there are spaces to find them by
    if start and (joint := _SPACES.search(piece, 0, WORD_CHARS_MAX)):
        piece = piece[joint.end() :]
    if end < len(line) and (joint := _SPACES.search(piece[::-1], 0, WORD_CHARS_MAX)):
        piece = piece[: len(piece) - joint.end()]
    piece = piece.rstrip() if clauses and not start else piece.strip()
    return f"{GAP if start else ''}{piece}{GAP if end < len(line) else ''}"


def _fields(fields: list[str], sought: Sought, chars: int, *, figures: bool) -> str:
    """Return those of *fields* that mattered most, in their order, in at most *chars* characters.

    With *figures* one that holds some says more than one of words, where nobody used either.
    """
    worths = [sum(worths_of(words, sought)) for words in words_of_each(fields)]
    if figures:
        worths = [worth + figures_worth(field) for worth, field in zip(worths, fields, strict=True)]
    order = sorted(range(len(fields)), key=lambda place: (-worths[place] / (12 + len(fields[place])), place))
    chosen: list[int] = []
    left = chars - 2
    for place in order:
        if len(fields[place]) + 2 <= left:
            left -= len(fields[place]) + 2
            chosen.append(place)
    kept = ", ".join(fields[place] for place in sorted(chosen)) or fields[order[0]][: chars - 2]
    return f"{kept} {GAP}"


def figures_worth(said: str) -> float:
    """Return the worth of the figures in something said."""
    return _FIGURE_WORTH * min(3, len(_FIGURES.findall(said)))
