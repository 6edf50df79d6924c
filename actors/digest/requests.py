"""Requests: what the user said, whole, whatever is said later; what is repeated stands once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from actors.core.cut_plan import water_level
from actors.core.text.count import Count
from protocol.account import AccountRequest

REPEATED_CHARS_MIN = 40
"""A shorter line that was said before is said again."""

REQUEST_TOKENS = 4
"""Beside its words."""

REFERENCE = "[here as in #"

TINY_CHARS = 12
_RULE = re.compile(
    r"(?i)\b(?:never|always|must|only|do not|don't|please remember|from now on|my name|i am|i'm|allerg"
    r"|nie(?:mals)?|immer|nur|bitte merk|ich bin|ich hei|mein name)\b"
    r"|不要|必须|请记住|我叫|我对|私の|必ず|しないで|覚えて|アレルギー"
)
"""Of what a user said: a rule, or something about themselves; in the languages that were tried."""

LEAST_CHARS = 240
"""A request is not shortened below this, before it has to leave."""


def without_repeats(new: AccountRequest, before: Sequence[AccountRequest]) -> AccountRequest:
    """Return *new* without the lines that an earlier request has: each run of them becomes a reference."""
    long = [line for line in map(str.strip, new.text.split("\n")) if len(line) >= REPEATED_CHARS_MIN]
    if not any(line in one.text for line in long for one in before):
        return msgspec.structs.replace(new, text=new.text.strip())
    known = {
        line.strip(): one.number
        for one in reversed(before)
        for line in one.text.split("\n")
        if not line.startswith(REFERENCE)
    }
    out: list[str] = []
    said: set[int] = set()
    inside = False
    for line in new.text.split("\n"):
        # a short line is one of those said before only among them
        number = known.get(line.strip(), 0) if inside or len(line.strip()) >= REPEATED_CHARS_MIN else 0
        inside = bool(number)
        if not number:
            out.append(line)
        elif number not in said:
            said.add(number)
            out.append(f"{REFERENCE}{number}]")
    return AccountRequest(number=new.number, text="\n".join(out).strip())


def within(requests: Sequence[AccountRequest], room: int, *, count: Count) -> tuple[AccountRequest, ...]:
    """Return *requests* within *room* tokens: the longest are shortened most, the ends last."""
    sizes = [count(one.text) + REQUEST_TOKENS for one in requests]
    if sum(sizes) <= room or not requests:
        return tuple(requests)
    ends = {0, len(requests) - 1}
    others = [place for place in range(len(requests)) if place not in ends]
    out = list(requests)
    for places in (others, sorted(ends)):
        fixed = sum(count(out[place].text) + REQUEST_TOKENS for place in range(len(out)) if place not in places)
        height = water_level([sizes[place] for place in places], max(0, room - fixed))
        for place in places:
            if sizes[place] > height:
                out[place] = _shortened(out[place], height, count)
        if sum(count(one.text) + REQUEST_TOKENS for one in out) <= room:
            return tuple(out)
    used = sum(count(one.text) + REQUEST_TOKENS for one in out)
    while len(out) > 2 and used > room:
        place = min(range(1, len(out) - 1), key=lambda place: (_standing(out[place].text), place))
        used -= count(out[place].text) + REQUEST_TOKENS
        del out[place]
    return tuple(out)


def _standing(text: str) -> int:
    """Return how likely it is that what a user said still holds: little for a word or a question, most for a rule."""
    if len(text) < TINY_CHARS:
        return 0
    if _RULE.search(text):
        return 3
    return 1 if text.rstrip().endswith(("?", "？")) else 2


def _shortened(request: AccountRequest, tokens: int, count: Count) -> AccountRequest:
    """Return *request* with its middle left out, so that about *tokens* stay."""
    text = request.text
    have = max(1, count(text))
    chars = max(LEAST_CHARS, int(len(text) * tokens / have) - 60)
    if chars >= len(text):
        return request
    head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :]
    gone = len(text) - len(head) - len(tail)
    mark = f'[… {gone:,} characters: read_artifact("messages:{request.number}") …]'
    return msgspec.structs.replace(request, text=f"{head} {mark} {tail}")
