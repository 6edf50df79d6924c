"""Repeated requests: what a user says again stands once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import msgspec

from protocol.account import AccountRequest

REPEATED_CHARS_MIN = 40
"""A shorter line that was said before is said again."""

REFERRED_CHARS_MIN = 200
"""A run of lines that were said before stands where it is shorter."""

REFERENCE = "[here as in #"

_LINES_OF = '[here "{}…", as in the user\'s message #{} below, lines {}-{}]'
_REFERS = re.compile(
    r"\[here \"[^\n]{0,60}?…\", as in the user's message #(\d{1,9}) below, lines (\d{1,9})-(\d{1,9})\]"
)
BEGINNING_CHARS = 40
"""Of lines that are referred to: so that a reader knows what they are."""


def without_repeats(new: AccountRequest, before: Sequence[AccountRequest], *, least: int) -> AccountRequest:
    """Return *new* without the lines that an earlier request has: each run of them becomes a reference.

    A run of fewer than *least* characters stands: to read it is easier than to look it up.
    """
    if not any(len(line.strip()) >= REPEATED_CHARS_MIN for line in new.text.split("\n")):
        return msgspec.structs.replace(new, text=new.text.strip())
    out: list[str] = []
    said: set[int] = set()
    for number, lines in _runs(new.text.split("\n"), before):
        if not number or sum(map(len, lines)) < least:
            out += lines
        elif number not in said:
            said.add(number)
            out.append(f"{REFERENCE}{number}]")
    return AccountRequest(number=new.number, text="\n".join(out).strip())


def _runs(lines: Sequence[str], before: Sequence[AccountRequest]) -> list[tuple[int, list[str]]]:
    """Return *lines* in runs of those that the same one of *before* has: its number, 0 where none has them."""
    first: dict[str, int] = {}
    for one in before:
        for other in one.text.split("\n"):
            if not other.startswith(REFERENCE):
                first.setdefault(other.strip(), one.number)
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


def referring(request: AccountRequest, staying: Sequence[AccountRequest]) -> AccountRequest:
    """Return *request* with the longest run of lines that one of *staying* has too as a reference to these."""
    lines = request.text.split("\n")
    for one in staying:
        others = one.text.split("\n")
        if one.number == request.number:
            continue
        start, there, length = _longest_run(lines, others)
        if sum(map(len, lines[start : start + length])) >= REFERRED_CHARS_MIN:
            begin = _beginning(lines[start : start + length])
            lines[start : start + length] = [_LINES_OF.format(begin, one.number, there + 1, there + length)]
    text = "\n".join(lines)
    return request if text == request.text else msgspec.structs.replace(request, text=text)


def _longest_run(lines: Sequence[str], others: Sequence[str]) -> tuple[int, int, int]:
    """Return where the longest run of *lines* begins that *others* have too, where it begins there, and its lines.

    A run is found by a line that *others* have once. Who compares each line with each takes minutes for a long message.
    """
    times = Counter(others)
    place = {line: at for at, line in enumerate(others) if times[line] == 1 and line.strip()}
    best, most = (0, 0, 0), 0
    end = floor = 0
    while end < len(lines):
        there = place.get(lines[end])
        if there is None:
            end += 1
            continue
        start, begin = end, there
        while start > floor and begin > 0 and lines[start - 1] == others[begin - 1]:
            start, begin = start - 1, begin - 1
        while end < len(lines) and there < len(others) and lines[end] == others[there]:
            end, there = end + 1, there + 1
        if (chars := sum(map(len, lines[start:end]))) > most:
            best, most = (start, begin, end - start), chars
        floor = end
    return best


def _beginning(lines: Sequence[str]) -> str:
    """Return the first words of *lines*."""
    words = " ".join("\n".join(lines).split())
    end = words.rfind(" ", 0, BEGINNING_CHARS + 1)
    return words[: end if end > 0 else BEGINNING_CHARS]


def with_lines_of(request: AccountRequest, other: AccountRequest) -> AccountRequest:
    """Return *request* with the lines of *other* to which it refers."""
    if f"message #{other.number} below" not in request.text:
        return request
    lines = other.text.split("\n")
    for found in _REFERS.finditer(request.text):
        number, first, last = map(int, found.groups())
        run = lines[first - 1 : last]
        # what a user wrote like it says other words, and only one is ours
        if number == other.number and found.group() == _LINES_OF.format(_beginning(run), number, first, last):
            text = request.text[: found.start()] + "\n".join(run) + request.text[found.end() :]
            return msgspec.structs.replace(request, text=text)
    return request


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
