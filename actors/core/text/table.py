"""Table: rows with the same columns. What differs from most of them is told, and how many are alike."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from .told_table import CELL_GAP, counted, names_told, summed_up

ROWS_MIN = 5
COLUMNS_MIN = 2
ALIKE_SHARE = 0.8
"""Of the lines, that have the same number of columns."""

USUAL_SHARE = 0.5
"""Of the rows, that have a column's most frequent cell: then the column is one of kinds, as a status is."""

KINDS_MAX = 6
ODD_SHARE = 0.25
"""Of the rows: a cell that at most so many have is odd."""

CELL_CHARS_MAX = 24
NAMED_MAX = 3
ALIKE_CHARS_MAX = 120
"""Of the cells that all rows have alike, with the names of their columns: more stays in each row."""
_EMPTY = frozenset(("<none>", "<unset>", "-", "--", "None", "null", "N/A", "n/a"))
"""Cells that say nothing is there."""

_WORD = re.compile(r"[A-Za-z][\w/:.-]*")


_RULER = re.compile(r"[-=+|_*~:#`.\s\u2500-\u257f]+")
_COLUMNS_RULED = re.compile(r"(?<![-=\u2500-\u257f])[-=\u2500-\u257f]{2,}[|+:\s\u2500-\u257f]+[-=\u2500-\u257f]{2,}")
_NUMERIC = re.compile(r"[-+$(]*\d[\d.,:%)-]*\w{0,3}")
_BLOCK = re.compile(r"\s*(?:\d+\W+)?(?:async )?(?:def|class|if|elif|for|while|with|except|case)\b")
"""A line that opens a block of a program."""

_SEPARATORS = (" | ", "\t", ",", "  ")
ROW_CHARS_MIN, EMPTY_CELL = 5, "-"
"""Of a Markdown row: a cell between two bars. An empty one keeps its place among the columns."""

HEAD_CELLS_MIN, HEAD_ROWS_MIN, HEAD_ROWS_LOOKED = 3, 3, 12
NUMERIC_SHARE = 0.7
"""Of the rows below a head without a ruler: so many have a figure, where the head has none."""


class Table(NamedTuple):
    """The rows of a text by their line, and its columns of kinds."""

    rows: dict[int, list[str]]
    kinds: dict[int, Counter[str]]
    """Place of a column: how often each cell stands in it."""
    names: list[str]
    head: int
    """The line of the names, -1 where no column has one."""

    @property
    def alike(self) -> dict[int, str]:
        """Return the cells that all rows have alike, by the place of their column.

        There are none where a cell is empty, as indentation is, and where one column would be left that is not the
        first: that one names the rows.
        """
        columns = list(zip(*self.rows.values(), strict=True))
        if not all(map(all, columns)):
            return {}
        found: dict[int, str] = {}
        left = ALIKE_CHARS_MAX
        for place, cells in enumerate(columns):
            told = self._named(place, cells[0])
            if len(set(cells)) == 1 and len(told) <= left:
                left -= len(told)
                found[place] = cells[0]
        left_over = [place for place in range(len(columns)) if place not in found]
        return found if len(left_over) > 1 or left_over == [0] else {}

    def narrowed(self, lines: Sequence[str]) -> list[str]:
        """Return *lines* without the cells that all rows have alike: `told` says them once."""
        alike, out = self.alike, list(lines)
        for number, row in {**self.rows, **({self.head: self.names} if self.names else {})}.items() if alike else ():
            joint = " | " if " | " in lines[number] else "  "
            out[number] = joint.join(cell for place, cell in enumerate(row) if place not in alike)
        return out

    def _named(self, place: int, cell: str) -> str:
        return f"{self.names[place]} {cell}" if place < len(self.names) else cell

    @property
    def told(self) -> str:
        """Return `summary`, with what all rows have alike told once before it."""
        alike = self.alike
        each = [self._named(place, cell) for place, cell in alike.items() if cell not in _EMPTY]
        kinds = {place: often for place, often in self.kinds.items() if place not in alike}
        told = [f"in each {', '.join(each)}"] if each else []
        told += self._counted(kinds)
        return summed_up(len(self.rows), told)

    @property
    def odd(self) -> list[int]:
        """Return the lines whose row has a cell that few have, the first of each sort before others."""
        most = ODD_SHARE * len(self.rows)
        found: dict[int, tuple[tuple[int, str], ...]] = {}
        for line, row in self.rows.items():
            cells = tuple((place, row[place]) for place, often in self.kinds.items() if often[row[place]] <= most)
            if cells:
                found[line] = cells
        seen: set[tuple[int, str]] = set()
        first: list[int] = []
        later: list[int] = []
        for line, cells in found.items():
            (later if seen.issuperset(cells) else first).append(line)
            seen.update(cells)
        return first + later

    def named(self, lines: Collection[int], chars: int) -> str:
        """Return the names of the odd rows at *lines* by what is odd about them, as many as *chars* have room for.

        Empty where no column names rows.
        """
        alike = self.alike
        name = next(
            (place for place in range(len(next(iter(self.rows.values())))) if self._names_rows(place, alike)), -1
        )
        if name < 0:
            return ""
        most = ODD_SHARE * len(self.rows)
        found: dict[str, list[str]] = {}
        for line in sorted(lines):
            row = self.rows[line]
            why = ", ".join([row[place] for place, often in self.kinds.items() if often[row[place]] <= most])
            found.setdefault(why, []).append(row[name])
        return names_told(found, chars)

    def _names_rows(self, place: int, alike: Collection[int]) -> bool:
        return place not in self.kinds and place not in alike

    @property
    def summary(self) -> str:
        """Return how many rows there are, and how many have which kind; empty where no column has kinds."""
        told = self._counted(self.kinds)
        return summed_up(len(self.rows), told)

    def _counted(self, kinds: Mapping[int, Counter[str]]) -> list[str]:
        return [self._named(place, counted(often)) for place, often in list(kinds.items())[:NAMED_MAX]]


def is_ruler(line: str) -> bool:
    """Tell a line that is drawn, or opens a program: it says nothing."""
    return not line[:1].isalnum() and bool(_RULER.fullmatch(line))


def heads(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the lines that name columns: above a ruler, or above rows of figures."""
    ruled = (number for number, line in enumerate(lines) if number and is_ruler(line) and _COLUMNS_RULED.search(line))
    found = frozenset(number - 1 for number in ruled if not is_ruler(lines[number - 1])) | _heads_below_labels(lines)
    if not found and lines and _names_columns(lines):
        return frozenset((0,))
    return found


def _heads_below_labels(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the lines below a label that name columns of the rows below them, as `Type  Status`."""
    labels = [number for number, line in enumerate(lines[:-2]) if line.endswith(":")]
    return frozenset(number + 1 for number in labels if _is_head_of(lines[number + 1], lines[number + 2]))


def _is_head_of(line: str, below: str) -> bool:
    """Tell whether *line* has words alone, and the line *below* it as many cells."""
    head = CELL_GAP.split(line.strip())
    if len(head) < 2 or not all(map(str.isalpha, head)):
        return False
    row = CELL_GAP.split(below.strip())
    return len(row) == len(head) and not row[0].endswith(":")


def _names_columns(lines: Sequence[str]) -> bool:
    """Tell whether the first of *lines* has no figures where those below it have, in as many columns."""
    head, rows = lines[0].strip(), [line.strip() for line in lines[1 : HEAD_ROWS_LOOKED + 1]]
    separator = next((one for one in _SEPARATORS if head.count(one) >= HEAD_CELLS_MIN - 1), None)
    if separator is None or len(rows) < HEAD_ROWS_MIN or any(_is_numeric(cell) for cell in head.split(separator)):
        return False
    cells = [row.split(separator) for row in rows]
    width = len(head.split(separator))
    # rows of a frame have an index before the columns
    alike = sum(len(row) in (width, width + 1) and any(map(_is_numeric, row)) for row in cells)
    return alike >= NUMERIC_SHARE * len(rows)


def _is_numeric(cell: str) -> bool:
    return bool(_NUMERIC.fullmatch(cell.strip()))


def is_header(line: str) -> bool:
    """Tell the names of columns, below which rows stand."""
    return line.endswith("):") and "(" in line


def is_title(line: str) -> bool:
    """Tell a header, or the title of a list; the head of a function is none."""
    return is_header(line) and not _BLOCK.match(line)


def table_of(lines: Sequence[str]) -> Table | None:
    """Return the table that *lines* are; None where they are none."""
    if len(lines) < ROWS_MIN:
        return None
    stripped = [line.strip() for line in lines]
    parted = sum("  " in line or "\t" in line or " | " in line for line in stripped)
    if parted < max(ROWS_MIN, ALIKE_SHARE * len(lines)):
        return None
    split = [CELL_GAP.split(line) for line in stripped]
    width, times = Counter(map(len, split)).most_common(1)[0]
    if width < COLUMNS_MIN or times < max(ROWS_MIN, ALIKE_SHARE * len(lines)):
        return None
    rows = {number: row for number, row in enumerate(split) if len(row) == width}
    first = next(iter(rows))
    names = rows.pop(first) if all(cell == cell.upper() for cell in rows[first]) else []
    head = first if names else -1
    kinds = {place: often for place in range(width) if (often := _kinds([row[place] for row in rows.values()]))}
    return Table(rows=rows, kinds=kinds, names=names, head=head)


def _kinds(cells: Sequence[str]) -> Counter[str]:
    """Return how often each cell stands in a column of kinds; nothing for another column."""
    often = Counter(cells)
    times = max(often.values())
    few = len(often) <= KINDS_MAX and times >= USUAL_SHARE * len(cells)
    words = all(len(cell) <= CELL_CHARS_MAX and _WORD.fullmatch(cell) for cell in often)
    return often if few and words else Counter()


def with_rows(said: str) -> str:
    """Return the words that somebody *said*, rows of Markdown tables as sentences: put on one line, they stay rows.

    The names of columns end with a colon, a row with a semicolon.
    """
    if "\n|" not in f"\n{said}":
        return said
    out: list[str] = []
    is_below = False
    for line in said.split("\n"):
        row = line.strip()
        is_row = len(row) >= ROW_CHARS_MIN and row.startswith("|") and row.endswith("|")
        if is_row and _RULER.fullmatch(row):
            if is_below:
                out[-1] = f"{out[-1].removesuffix(';')}:"
        else:
            cells = (cell.strip() or EMPTY_CELL for cell in row[1:-1].split("|"))
            out.append(f"{' | '.join(cells)};" if is_row else line)
        is_below = is_row
    return "\n".join(out)
