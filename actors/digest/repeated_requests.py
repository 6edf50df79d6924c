"""Repeated requests: what a user says again stands once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

import msgspec

from protocol.account import AccountRequest

REPEATED_CHARS_MIN = 40
"""A shorter line that was said before is said again."""

REFERRED_CHARS_MIN = 200
"""A run of lines that were said before stands where it is shorter."""

REFERENCE = "[here as in #"

_LINES_OF = '[here "{}…", as in the user\'s message #{} below, lines {}-{}]'
_REFERS = re.compile(r"\[here \".*…\", as in the user's message #(\d+) below, lines (\d+)-(\d+)\]")
BEGINNING_CHARS = 40
"""Of lines that are referred to: so that a reader knows what they are."""


def without_repeats(new: AccountRequest, before: Sequence[AccountRequest], *, least: int) -> AccountRequest:
    """Return *new* without the lines that an earlier request has: each run of them becomes a reference.

    A run of fewer than *least* characters stands: to read it is easier than to look it up.
    """
    long = [line for line in map(str.strip, new.text.split("\n")) if len(line) >= REPEATED_CHARS_MIN]
    everything = "\n".join([one.text for one in before]) if long else ""
    if not any(line in everything for line in long):
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
    runs: list[tuple[int, list[str]]] = []
    number = 0
    for line in lines:
        # a short line is one of those said before only among them
        bare = line.strip()
        number = _number_of(bare, before) if number or len(bare) >= REPEATED_CHARS_MIN else 0
        if runs and runs[-1][0] == number:
            runs[-1][1].append(line)
        else:
            runs.append((number, [line]))
    return runs


def _number_of(line: str, before: Sequence[AccountRequest]) -> int:
    """Return the number of the first of *before* that has *line*; 0 where none has."""
    for one in before:
        # most have it nowhere
        if line in one.text and any(
            other.strip() == line and not other.startswith(REFERENCE) for other in one.text.split("\n")
        ):
            return one.number
    return 0


def referring(request: AccountRequest, staying: Sequence[AccountRequest]) -> AccountRequest:
    """Return *request* with the longest run of lines that one of *staying* has too as a reference to these."""
    lines = request.text.split("\n")
    for one in staying:
        others = one.text.split("\n")
        if one.number == request.number or set(lines).isdisjoint(line for line in others if line.strip()):
            continue
        start, there, length = SequenceMatcher(None, lines, others, autojunk=False).find_longest_match()
        if sum(map(len, lines[start : start + length])) >= REFERRED_CHARS_MIN:
            begin = _beginning(lines[start : start + length])
            lines[start : start + length] = [_LINES_OF.format(begin, one.number, there + 1, there + length)]
    text = "\n".join(lines)
    return request if text == request.text else msgspec.structs.replace(request, text=text)


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

    def told(found: re.Match[str]) -> str:
        number, first, last = map(int, found.groups())
        return "\n".join(lines[first - 1 : last]) if number == other.number else found.group()

    return msgspec.structs.replace(request, text=_REFERS.sub(told, request.text))


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
