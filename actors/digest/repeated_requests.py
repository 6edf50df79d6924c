"""Repeated requests: what a user says again stands once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from actors.core.request_marks import REFERS, lines_of
from actors.core.text.recent import Recent
from protocol.account import AccountRequest

REPEATED_CHARS_MIN = 40
"""A shorter line that was said before is said again."""

REFERRED_CHARS_MIN = 200
"""A run of lines that were said before stands where it is shorter."""

REFERENCE = "[here as in #"

LINES_CHARS_MAX, LINE_CHARS = 400_000, 100
"""Of lines of requests that are known, and as many before them: those of two full accounts, each of which is held
against all that leaves. And what is kept of each line beside its text."""

_lines: Recent[str, tuple[frozenset[str], int]] = Recent(
    LINES_CHARS_MAX, weigh=lambda found: found[1] + LINE_CHARS * len(found[0])
)
"""By the text of a request: its lines, and its characters."""

BEGINNING_CHARS = 40
"""Of lines that are referred to: so that a reader knows what they are."""


def without_repeats(new: AccountRequest, before: Sequence[AccountRequest], *, least: int) -> AccountRequest:
    """Return *new* without the lines that an earlier request has: each run of them becomes a reference.

    A run of fewer than *least* characters stands: to read it is easier than to look it up.
    """
    long = [line for line in map(str.strip, new.text.split("\n")) if len(line) >= REPEATED_CHARS_MIN]
    # before rules 3, with no least, who said it was not known any more where a line was among what was said before
    forgets = bool(new.speaker) and not least
    everything = "\n".join([one.text for one in before]) if long and forgets else ""
    if not long or (forgets and not any(line in everything for line in long)):
        return msgspec.structs.replace(new, text=new.text.strip())
    out: list[str] = []
    said: set[int] = set()
    for number, lines in _runs(new.text.split("\n"), before):
        if not number or sum(map(len, lines)) < least:
            out += lines
        elif number not in said:
            said.add(number)
            out.append(f"{REFERENCE}{number}]")
    text = "\n".join(out).strip()
    return msgspec.structs.replace(new, text=text) if least else AccountRequest(number=new.number, text=text)


def _lines_in(text: str) -> frozenset[str]:
    """Return the lines of a request but for references, without the blanks around them."""
    return frozenset([line.strip() for line in text.split("\n") if not line.startswith(REFERENCE)])


def _runs(lines: Sequence[str], before: Sequence[AccountRequest]) -> list[tuple[int, list[str]]]:
    """Return *lines* in runs of those that the same one of *before* has: its number, 0 where none has them."""
    first: dict[str, int] = {}
    wanted = set(map(str.strip, lines))
    for one in before:
        said, _ = _lines.found(one.text, lambda text: (_lines_in(text), len(text)))
        # most have none of them
        if not wanted.isdisjoint(said):
            first |= dict.fromkeys(wanted & said, one.number)
            wanted -= said
    runs: list[tuple[int, list[str]]] = []
    number = 0
    for line in lines:
        # a short line is one of those said before only among them
        bare = line.strip()
        number = first.get(bare, 0) if number or len(bare) >= REPEATED_CHARS_MIN else 0
        if runs and runs[-1][0] == number:
            runs[-1][1].append(line)
        else:
            runs.append((number, [line]))
    return runs


class Staying(NamedTuple):
    """A message of the user's that stays: its number, its lines, and where each that it has once stands in it."""

    number: int
    lines: list[str]
    once: dict[str, int]


def staying_of(request: AccountRequest) -> Staying:
    """Return *request*, which stays as it was said, to be referred to."""
    lines = request.text.split("\n")
    times = Counter(lines)
    return Staying(
        request.number, lines, {line: at for at, line in enumerate(lines) if times[line] == 1 and line.strip()}
    )


def referring(request: AccountRequest, staying: Sequence[Staying]) -> AccountRequest:
    """Return *request* with the longest run of lines that one of *staying* has too as a reference to these."""
    if len(request.text) < REFERRED_CHARS_MIN:
        return request
    lines = request.text.split("\n")
    for one in staying:
        # most have no line in common
        if request.number == one.number or one.once.keys().isdisjoint(lines):
            continue
        start, there, length = _longest_run(lines, one)
        if sum(map(len, lines[start : start + length])) >= REFERRED_CHARS_MIN:
            begin = _beginning(lines[start : start + length])
            lines[start : start + length] = [lines_of(begin, one.number, there + 1, there + length)]
    text = "\n".join(lines)
    return request if text == request.text else msgspec.structs.replace(request, text=text)


def _longest_run(lines: Sequence[str], other: Staying) -> tuple[int, int, int]:
    """Return where the longest run of *lines* begins that *other* has too, where it begins there, and its lines.

    A run is found by a line that *other* has once. Who compares each line with each takes minutes for a long message.
    """
    best, most = (0, 0, 0), 0
    end = floor = 0
    while end < len(lines):
        there = other.once.get(lines[end])
        if there is None:
            end += 1
            continue
        start, begin = end, there
        while start > floor and begin > 0 and lines[start - 1] == other.lines[begin - 1]:
            start, begin = start - 1, begin - 1
        while end < len(lines) and there < len(other.lines) and lines[end] == other.lines[there]:
            end, there = end + 1, there + 1
        if (chars := sum(map(len, lines[start:end]))) > most:
            best, most = (start, begin, end - start), chars
        floor = end
    return best


def _beginning(lines: Sequence[str]) -> str:
    """Return the first words of *lines*."""
    words = " ".join("\n".join(lines)[: 4 * BEGINNING_CHARS].split())
    end = words.rfind(" ", 0, BEGINNING_CHARS + 1)
    return words[: end if end > 0 else BEGINNING_CHARS]


def with_lines_of(request: AccountRequest, other: AccountRequest) -> AccountRequest:
    """Return *request* with the lines of *other* to which it refers."""
    lines = other.text.split("\n")

    def told(found: re.Match[str]) -> str:
        number, first, last = map(int, found.groups())
        return "\n".join(lines[first - 1 : last]) if number == other.number else found.group()

    # what a user wrote like it lost its bracket when it was said
    return msgspec.structs.replace(request, text=REFERS.sub(told, request.text))


def said_before(text: str, before: Sequence[AccountRequest]) -> int | None:
    """Return the place of the first of *before* in which a user said *text* word for word; None where none is."""
    said = folded(text)
    return next((place for place, one in enumerate(before) if folded(one.text) == said), None)


def folded(text: str) -> str:
    """Return a user's text without what does not tell two requests apart."""
    return text.strip().casefold()


def said_again(request: AccountRequest, number: int) -> AccountRequest:
    """Return *request* as said again in message *number*."""
    return msgspec.structs.replace(request, again=request.again + 1, again_last=number)
