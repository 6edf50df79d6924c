"""Told table: how a table is told where rows are left out, and how what was told is read, to be told shorter again.

pay-7f  0/1  CrashLoopBackOff
(of the rows: CrashLoopBackOff: mail-2c, stock-9a; Pending: redis-0)
(19 rows: STATUS Running x15, CrashLoopBackOff x3, Pending x1)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from .gaps import GAP, gapped, rendered

ODD_NAMES = "of the rows:"
"""Before the names of rows that have no room."""

NAME_CHARS_MIN = 16
"""Of a name that is shortened so that all odd rows are named."""

DISTINCT_SHARE, MORE = 0.7, 1.2
"""Of such names, how many must begin each in another way; and by how much fewer have to be left out for it."""

CELL_GAP = re.compile(r"\t+| {2,}| \| ")
"""What stands between two cells of a row."""

_SUMMARY = re.compile(rf"\((?:\d+ rows:|{ODD_NAMES}) .*\)")
_KIND = re.compile(r"([^\s,;(]+) x(\d+)")
_GROUP = re.compile(r"([^;:]+): ([^;]+)")
_TIMES = re.compile(rf"(.+{GAP}) x(\d{{1,4}})")


def summed_up(rows: int, told: Sequence[str]) -> str:
    """Return the line that says how many *rows* there are and what is *told* of their columns; empty if nothing is."""
    return f"({rows} rows: {'; '.join(told)})" if told else ""


def counted(often: Counter[str]) -> str:
    """Return how often each cell of a column stands in it."""
    return ", ".join(f"{cell} x{times}" for cell, times in often.most_common())


def is_summary(line: str) -> bool:
    """Tell a line that says how many rows there were."""
    return line.startswith("(") and bool(_SUMMARY.fullmatch(line))


def summaries(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that say how many rows there were."""
    return [number for number, line in enumerate(lines) if line[:1] == "(" and is_summary(line)]


def names_told(names: Mapping[str, Sequence[str]], chars: int) -> str:
    """Return the *names* of odd rows by what is odd about them, as many as *chars* have room for.

    Where that is not all, the beginning of each long one says more than half of them would.
    """
    room = chars - len(ODD_NAMES) - len(f"( , {GAP})")
    longest = max([len(name) for some in names.values() for name in some], default=0)
    told, left = _within(names, room)
    if left and longest > NAME_CHARS_MIN:
        lengths = range(NAME_CHARS_MIN, longest + 1)

        def left_at(most: int) -> int:
            return _within(_shorter(names, most), room)[1]

        short = _shorter(names, lengths[bisect_right(lengths, left_at(NAME_CHARS_MIN), key=left_at) - 1])
        more, left_then = _within(short, room)
        if sum(map(len, short.values())) >= DISTINCT_SHARE * sum(map(len, names.values())) and MORE * left_then <= left:
            told, left = more, left_then
    return f"({ODD_NAMES} {told}{f', {GAP}' if left else ''})" if told else ""


def _within(names: Mapping[str, Sequence[str]], room: int) -> tuple[str, int]:
    """Return the list of *names* as far as it fits *room*, and how many rows are left."""
    told, left = "", 0
    for each, rows in _listed(names):
        if left or len(told) + len(each) > room:
            left += rows
        else:
            told += each
    return told, left


def _shorter(names: Mapping[str, Sequence[str]], most: int) -> dict[str, list[str]]:
    """Return *names* in at most so many characters, those that begin alike as one with how many there are."""
    found: dict[str, list[str]] = {}
    for why, some in names.items():
        often: Counter[str] = Counter()
        for name, times in map(_times, some):
            often[_shortly(name, most)] += times
        found[why] = [name if times == 1 else f"{name} x{times}" for name, times in often.items()]
    return found


def _times(name: str) -> tuple[str, int]:
    """Return a name, and how many rows it stands for."""
    several = _TIMES.fullmatch(name)
    return (several.group(1), int(several.group(2))) if several else (name, 1)


def _shortly(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most - len(GAP)]}{GAP}"


def shorter_table(outcome: str, chars: int) -> str:
    """Return the *outcome* of a table in at most *chars* characters; empty where it is none with odd rows.

    The names of odd rows come first, by what is odd about them; whole rows, those that were used before others, have
    what room is left.
    """
    *above, summary = outcome.split("\n")
    if not is_summary(summary) or summary.startswith(f"({ODD_NAMES} ") or len(summary) >= chars // 2:
        return ""
    named = next((line for line in above if line.startswith(f"({ODD_NAMES} ")), "")
    rows, gaps = gapped([line for line in above if line != named])
    before, odd = _names_in(named), _odd_rows(rows, summary)
    if not odd and not before:
        return ""
    room = chars - len(summary) - 2
    stay: set[str] = set()
    # the names of columns have no room
    for row in (*(row for row in rows if row not in odd and not row.isupper()), *odd):
        left = [*(why for one, why in odd.items() if one not in {*stay, row}), *before]
        if len(_told(left, chars)) + sum(map(_row_chars, {*stay, row})) <= room:
            stay.add(row)
    left = [*(why for one, why in odd.items() if one not in stay), *before]
    names = _told(left, room - sum(map(_row_chars, stay)))
    shown = rendered(rows, [number for number, row in enumerate(rows) if row in stay], gaps, is_header=lambda _: False)
    return "\n".join(filter(None, (shown, names, summary)))


def _row_chars(row: str) -> int:
    return len(row) + len(f" {GAP}\n")


def _names_in(named: str) -> list[tuple[str, str]]:
    """Return the names in a line of them, each behind what is odd about it."""
    bare = named.removeprefix(f"({ODD_NAMES} ").removesuffix(")").removesuffix(f", {GAP}")
    return [(why.strip(), name) for why, names in _GROUP.findall(bare) for name in names.strip(" ,").split(", ")]


def _told(odd: list[tuple[str, str]], chars: int) -> str:
    found: dict[str, list[str]] = {}
    for why, name in odd:
        found.setdefault(why, []).append(name)
    return names_told(found, chars)


def _odd_rows(rows: Sequence[str], summary: str) -> dict[str, tuple[str, str]]:
    """Return of the *rows* that the *summary* calls odd what is odd about each, and its name."""
    kinds: set[str] = set()
    rare: set[str] = set()
    for column in summary.split("; "):
        counts = {kind: int(times) for kind, times in _KIND.findall(column)}
        kinds.update(counts)
        rare.update(kind for kind, times in counts.items() if times < max(counts.values()))
    found = {}
    for row in rows:
        cells = CELL_GAP.split(row)
        why = ", ".join(cell for cell in cells if cell in rare)
        name = next((cell for cell in cells if cell not in kinds), "")
        if why and name:
            found[row] = (why, name)
    return found


def _listed(found: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, int]]:
    """Yield each name behind what stands before it, why it is listed or a comma, and how many rows it stands for."""
    joint = ""
    for why, names in found.items():
        for place, each in enumerate(names):
            yield f", {each}" if place else f"{joint}{why}: {each}", _times(each)[1]
        joint = "; "
