"""Requests: what the user said, whole, whatever is said later; what is repeated stands once."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from actors.core.cut_plan import water_level
from actors.core.text.count import Count
from actors.core.text.phrases import telling
from protocol.account import AccountRequest

REPEATED_CHARS_MIN = 40
"""A shorter line that was said before is said again."""

REQUEST_TOKENS = 4
"""Beside its words."""

REFERENCE = "[here as in #"

TINY_BYTES = 12
_OWN = re.compile(
    r"(?i)\b(?:please remember|from now on|my name|i am|i'm|allerg"
    r"|bitte merk|ich bin|ich hei|mein name)"
    r"|请记住|我叫|我对|私の|覚えて|アレルギー"
)
"""What a user says about themselves, in the languages that were tried."""

_QUESTION = re.compile(r"[?？]\W*\Z|(?:か|ますか|ですか|ください|吗|呢|怎么样|如何)[。！]?\Z")
_FIGURE = re.compile(r"[0-9０-９]|[「『“”\"`][^」』“”\"`]{2,40}[」』“”\"`]")
"""A number, an id, or a name in quotes."""

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
    """Return how likely it is that what a user said still holds: most for a rule, little for a word or a question."""
    data = text.encode("utf-8", "replace")
    kinds = {kind for kind, _ in telling(data)}
    if "rule" in kinds or _OWN.search(text):
        return 5
    if kinds:
        return 4
    if len(data) < TINY_BYTES:
        return 0
    if _QUESTION.search(text.strip()):
        return 1
    return 3 if _FIGURE.search(text) else 2


def is_again(text: str, before: AccountRequest) -> bool:
    """Tell whether a user says word for word what they said *before*."""
    return text.strip().casefold() == before.text.strip().casefold()


def said_again(request: AccountRequest, number: int) -> AccountRequest:
    """Return *request* as said again in message *number*."""
    return msgspec.structs.replace(request, again=request.again + 1, again_last=number)


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
