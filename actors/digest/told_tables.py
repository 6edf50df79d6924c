"""Told tables: an outcome that sums a table up, told shorter once more: rows go, which ones were odd stays."""

from __future__ import annotations

import re

from actors.core.text.gaps import GAP
from actors.core.text.table import CELL_GAP, ODD_NAMES, is_summary, names_told

_KIND = re.compile(r"([^\s,;(]+) x(\d+)")
_GROUP = re.compile(r"([^;:]+): ([^;]+)")


def shorter_table(outcome: str, chars: int) -> str:
    """Return the *outcome* of a table in at most *chars* characters; empty where it is none with odd rows.

    The names of odd rows come first, by what is odd about them; whole rows, those that were used before others, have
    what room is left.
    """
    *rows, summary = outcome.split("\n")
    if not is_summary(summary) or summary.startswith(f"({ODD_NAMES} ") or len(summary) >= chars // 2:
        return ""
    named = next((line for line in rows if line.startswith(f"({ODD_NAMES} ")), "")
    bare = [row.strip(f"{GAP} ") for row in rows if row != named and not row.isupper()]
    before = [
        (why.strip(), name)
        for why, names in _GROUP.findall(named.removeprefix(f"({ODD_NAMES} ").rstrip(f"){GAP} ,"))
        for name in names.strip(" ,").split(", ")
    ]
    odd = _odd_rows(bare, summary)
    if not odd and not before:
        return ""
    room = chars - len(summary) - 2
    stay: list[str] = []
    for row in (*(row for row in bare if row and row not in odd), *odd):
        left = [*(why for one, why in odd.items() if one not in (*stay, row)), *before]
        if len(_told(left, chars)) + sum(len(one) + 3 for one in (*stay, row)) <= room:
            stay.append(row)
    left = [*(why for one, why in odd.items() if one not in stay), *before]
    names = _told(left, room - sum(len(one) + 3 for one in stay))
    shown = [f"{GAP} {row}" if not at else row for at, row in enumerate(sorted(stay, key=bare.index))]
    return "\n".join([*shown, *([names] if names else []), summary])


def _told(odd: list[tuple[str, str]], chars: int) -> str:
    found: dict[str, list[str]] = {}
    for why, name in odd:
        found.setdefault(why, []).append(name)
    return names_told(found, chars)


def _odd_rows(rows: list[str], summary: str) -> dict[str, tuple[str, str]]:
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
