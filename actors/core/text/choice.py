"""Choice: which lines of a text are told in little room: those worth most for their length, below their names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

from .json_lines import ROWS_JOINT, names_columns
from .told_table import is_summary

HEADED_MAX = 40
"""Lines below the names of columns in which rows are looked for."""

FILL_SHARE = 0.2
"""Of the room, for what stands between lines that were chosen."""

NAMED_SHARE = 0.25
"""Of the room, for the names of the columns of what is no JSON: rows say more than names without them."""

FEW_LINES = 12
"""Of so few, nothing is kept back: what stands between them says little more."""

NO_TITLES: Mapping[int, int] = MappingProxyType({})


def worthiest(
    lines: list[str],
    worths: list[float],
    chars: int,
    headers: Sequence[int] = (),
    named: frozenset[int] = frozenset(),
    *,
    titles: Mapping[int, int] = NO_TITLES,
    alone: bool = True,
    columns_free: bool = False,
) -> list[int]:
    """Return the numbers of the lines worth most for their length that fit *chars*, and what stands between them.

    *headers* and those that are *named* name the columns of the rows below them: without a row they say nothing.
    What stands below a title, by *titles* of each line that has one, stands with it, since below another it would be
    untrue; *alone* the line worth most may stand where there is no room for both.
    With *columns_free* the names of JSON's columns stand above a row whatever room there is: an account has them once.
    """
    above = named.union(headers)
    named = frozenset(number for number in named if len(lines[number]) <= chars * NAMED_SHARE)
    kept_back = chars * FILL_SHARE if len(lines) > FEW_LINES else 0
    room = chars - max([len(lines[one]) + 1 for one in named], default=0)
    chosen, left = _fitting(lines, worths, room, kept_back, above, titles, alone=alone)
    if named and not any(_rows_below(number, lines, chosen, above) for number in named):
        named = frozenset()
        chosen, left = _fitting(lines, worths, chars, kept_back, above, titles, alone=alone)
    # the names of the columns, where a row stands
    for number in headers:
        columns = lines[number].count(", ")
        is_free = columns_free and names_columns(lines[number])
        if (is_free or len(lines[number]) <= chars) and any(
            below in chosen and _first_row(lines[below], is_free).count(", ") == columns
            for below in range(number + 1, min(number + HEADED_MAX, len(lines)))
        ):
            chosen.add(number)
            left -= 0 if is_free else len(lines[number])
    for number in named:
        if _rows_below(number, lines, chosen, above):
            chosen.add(number)
    # a hole of a line or two says less than the lines
    for number in sorted(chosen):
        for stop in (number + 2, number + 3):
            if stop in chosen and number + 1 not in chosen and stop - 1 not in chosen:
                hole = range(number + 1, stop)
                cost = sum([len(lines[each]) + 1 for each in hole])
                if cost <= left:
                    left -= cost
                    chosen.update(hole)
    return sorted(chosen)


def _fitting(
    lines: list[str],
    worths: list[float],
    room: int,
    kept_back: float,
    above: frozenset[int],
    titles: Mapping[int, int],
    *,
    alone: bool,
) -> tuple[set[int], int]:
    """Return the numbers of the lines worth most that fit *room*, but for those *above* rows, and what is left of it.

    The best one may have what is *kept_back*.
    """
    chosen: set[int] = set()
    left = room
    least = min(map(len, lines), default=0) + 3
    for number in _by_worth(lines, worths):
        if chosen and (left - kept_back < least or worths[number] <= 0):
            break  # nothing that follows fits, or is worth something
        if number in above and len(lines) > 1:
            continue
        taken = {number, titles.get(number, number)} - chosen
        cost = sum([len(lines[each]) + 3 for each in taken])
        if alone and cost > left and not chosen:
            # what matters most has no room beside its title
            taken, cost = {number}, len(lines[number]) + 3
        if cost > left - (kept_back if chosen else 0):
            continue
        left -= cost
        chosen |= taken
    return chosen, left


def _first_row(line: str, is_json: bool) -> str:
    """Return the first row of a line, where rows of JSON in one list stand on one."""
    return line.partition(ROWS_JOINT)[0] if is_json else line


def _rows_below(head: int, lines: Sequence[str], chosen: Collection[int], heads: Collection[int]) -> bool:
    """Tell whether rows of the columns that line *head* names are *chosen*, and not just how many they are.

    They end where another one of *heads* stands.
    """
    end = min([head + HEADED_MAX, *(other for other in heads if other > head)])
    return any(head < number < end and not is_summary(lines[number]) for number in chosen)


def _by_worth(lines: list[str], worths: list[float]) -> Iterator[int]:
    """Yield the numbers of the lines, those first that are worth most for their length; the worthless last."""
    some = [(-worth / (30 + len(lines[number])) ** 0.5, number) for number, worth in enumerate(worths) if worth > 0]
    some.sort()
    yield from [number for _, number in some]
    yield from [number for number, worth in enumerate(worths) if worth <= 0]
