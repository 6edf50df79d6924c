"""Pieces: what several messages said, as a step tells it that stands for all of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from actors.core.account_text import JOINED_LEVEL
from actors.core.text.excerpt import sentences_excerpt
from actors.core.text.gaps import GAP, with_gaps_once
from actors.core.text.line_worths import Sought
from actors.core.text.patterns import number_in
from actors.core.text.phrases import telling, tells
from actors.core.text.written import FENCE
from protocol.account import AccountStep

from .step_rooms import room_in

PIECES = " / "
"""Between what was said in several messages."""

PIECES_CHARS_MAX = 240
PIECE_CHARS = 120
REPORT_PIECE_CHARS = 360
"""Of a report, which says what others only did."""

TELLS_MIN = 2
"""What a piece tells, at least, that stands beyond that: a rule, a decision, an outcome, why, or two figures."""

FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
"""A program as an assistant writes it, to its end where the fence is open."""

SIGNS_SHARE = 0.04
"""Of the characters of a program, that are signs of its language."""

_SIGN = re.compile(r"[{}()\[\]=<>;_]")

FIGURES_MAX = 3
"""Of a piece, that count: with two it tells as much as a rule does."""

ONE_MORE = "(1 more)"
_MORE = re.compile(r"\((\d+) more\)")
_FIGURE = re.compile(r"\d")
_FIGURES = re.compile(r"\d[\d.,:/-]*")


def told_shortly(said: str, sought: Sought | None, *, report: bool) -> str:
    """Return the sentences of *said* that fit little room: those that mattered, where words were *sought*.

    No program is among them: what it printed says more. Before rules 3, where no words are sought, it may be.
    """
    chars = REPORT_PIECE_CHARS if report else PIECE_CHARS
    if sought is None:
        return sentences_excerpt(said, chars=chars, sought=lambda _: 0.0, clauses=False)
    words = _without_programs(said) if FENCE in said else said
    words = words.replace(PIECES, PIECES.strip()) if words.strip(f"{GAP} \n") else ""
    return sentences_excerpt(words, chars=room_in(words, chars), sought=sought, clauses=True)


def _without_programs(said: str) -> str:
    """Return *said* with gaps for the programs between its fences; where one was cut, nobody knows what is between."""
    parts = [GAP if number and _is_program(part) else part for number, part in enumerate(said.split(FENCE))]
    return with_gaps_once(" ".join(parts))


def _is_program(text: str) -> bool:
    """Tell a program, by its language behind the fence or by its signs, from what only stands between fences."""
    return text[:1].isalpha() or len(_SIGN.findall(text)) >= len(text) * SIGNS_SHARE


def pieces_of(step: AccountStep) -> list[str]:
    """Return the pieces of speech that a joined step tells."""
    return step.said.split(PIECES) if step.level >= JOINED_LEVEL and step.said else []


def named(piece: str, speaker: str) -> str:
    """Return *piece* with the name of its *speaker*, where it has one."""
    return f"{speaker}: {piece}" if speaker and not _MORE.fullmatch(piece) else piece


def pieces(said: Sequence[str], told: Collection[str], *, rules_3: bool, room: int = 0) -> str:
    """Return those of what was *said* that tell most, and the newest, each whole, and how many are left out.

    Together they have *room* characters, or `PIECES_CHARS_MAX` of English where that is more.
    """
    more = sum(number_in(found.group(1)) for one in said if (found := _MORE.fullmatch(one)))
    kept = list(dict.fromkeys(one for one in said if not _MORE.fullmatch(one) and one not in told))
    more += len(said) - len(kept) - sum(bool(_MORE.fullmatch(one)) for one in said)
    worths = [_tells(one, rules_3=rules_3) for one in kept]
    # a report may be longer; before rules 3 each had all that it took
    least = most = PIECES_CHARS_MAX
    if rules_3:
        everything = "".join(kept)
        least, most = room_in(everything, PIECES_CHARS_MAX), room_in(everything, PIECE_CHARS)
    costs = [min(len(one), most) for one in kept]
    used, gone = sum(costs), set[int]()
    for place in sorted(range(len(kept) - 1), key=lambda place: (worths[place], place)):
        if used <= (max(room, least) if worths[place] >= TELLS_MIN else least):
            break
        gone.add(place)
        used -= costs[place]
    more += len(gone)
    told = [one for place, one in enumerate(kept) if place not in gone]
    return PIECES.join([*told, *([f"({more} more)"] if more else [])])


def _tells(said: str, *, rules_3: bool) -> int:
    """Return how much a piece of what was said tells: a rule, a decision, an outcome, a figure, and why."""
    if rules_3:
        return 2 * tells(said) + min(FIGURES_MAX, len(_FIGURES.findall(said)))
    return 2 * len({kind for kind, _ in telling(said.encode("utf-8", "replace"))}) + bool(_FIGURE.search(said))
