"""Must keep: what a model's text must still say, value by value, and what is put back because it does not.

A sentence survives if its values and most of its words do; a rule of the user only word for word. What was
replaced by a newer value is not missed.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import re2

from actors.core.extract import LINES, SPOKEN, score, values_of
from actors.core.state import State
from actors.core.text.count import Count
from actors.core.units import last_user
from protocol.facts import DigestItem
from protocol.policy import share_of

VALUES = frozenset(
    ("path", "url", "email", "host", "id", "commit", "version", "date", "amount", "setting", "status", "secret")
)
MUST_KEEP = VALUES | {"request", "rule", "decision", "moved"}
"""Categories that are looked for in an answer."""

WORTH_MIN = 0.5
"""Of what the digest said, by rank: an answer that keeps less is a loss, whatever it wins."""

SIGN_OF_LIFE = 8
"""Of so many values, an answer about them has at least one; an apology or an error text has none."""

NEAR_CHARS = 24
"""Between a setting's name and its number, in words: "the port is now `9090`"."""

TITLE_TOKENS = 6
"""Bound on the title of a category, with its line end."""

_DIGITS = frozenset("0123456789")
"""Of other scripts, one Python knows more than another."""

_WORD = re2.compile(r"\w{4,}")


class PutBack(msgspec.Struct, frozen=True, kw_only=True):
    """Items to put behind an answer, oldest first; `reason`: why nothing can make up for what it lost."""

    items: tuple[DigestItem, ...] = ()
    reason: str = ""


def put_back(state: State, prose: str, *, most: int, count: Count) -> PutBack:
    """Return the items that *prose* lost and must keep, at most *most* tokens where it was only printed by tools."""
    assert state.policy is not None
    assert state.digest is not None
    wanted = required(state)
    text = _Text(prose)
    missing = [item for item in wanted if not text.says(item)]
    values = [item for item in wanted if item.category in VALUES]
    if len(values) >= SIGN_OF_LIFE and not any(text.says(item) for item in values):
        return PutBack(reason=f"none of {len(values)} values is in the answer")
    current = _current_request(state)
    cap = share_of(state.usable_tokens, state.policy.squeeze.restore)
    priced = [(item, max(1, count(f" {item.value}") + (item.category in LINES))) for item in missing]
    firm = [(item, tokens) for item, tokens in priced if _firm(item, current)]
    used = sum(tokens for _, tokens in firm)
    if used > cap:
        return PutBack(reason=f"{len(firm)} values are missing, {used} tokens of them, and {cap} may be put back")
    back = [item for item, _ in firm]
    through = state.digest.through
    optional = [(item, tokens) for item, tokens in priced if not _firm(item, current)]
    optional.sort(key=lambda one: (-score(one[0], through) / one[1], -one[0].number, one[0].category, one[0].value))
    room = min(cap, most) - used
    titles = {item.category for item in back}
    for item, tokens in optional:
        tokens += 0 if item.category in titles else TITLE_TOKENS
        if tokens <= room:
            back.append(item)
            titles.add(item.category)
            room -= tokens
    lost = sum(score(item, through) for item, _ in optional) - sum(score(item, through) for item in back[len(firm) :])
    worth = sum(score(item, through) for item in wanted)
    if lost > worth * (1 - WORTH_MIN):
        return PutBack(reason=f"{lost / worth:.0%} of what the digest says would be lost")
    back.sort(key=lambda item: (item.number, item.category, item.value))
    return PutBack(items=tuple(back))


def required(state: State) -> tuple[DigestItem, ...]:
    """Return the values to look for: the digest's items, and those of the ledger that stand in its prose.

    What a newer value replaced is in neither.
    """
    assert state.digest is not None
    before = _Text(state.digest.prose)
    known = [item for item in state.ledger if state.digest.prose and before.says(item)]
    found = {(item.category, item.value): item for item in (*known, *state.digest.items)}
    return tuple(item for item in found.values() if item.category in MUST_KEEP)


def unsaid(items: Iterable[DigestItem], text: str) -> tuple[DigestItem, ...]:
    """Return the *items* that *text* does not say."""
    said = _Text(text)
    return tuple(item for item in items if not said.says(item))


def _firm(item: DigestItem, current: str) -> bool:
    """Tell whether an item must be put back whatever it costs: it was said, not printed."""
    if item.category == "request":
        return item.value == current
    return item.category in ("rule", "decision", "secret") or item.trust != "tool" or item.uses >= SPOKEN


def _current_request(state: State) -> str:
    """Return the newest request, if the message itself is not in the view."""
    assert state.digest is not None
    if last_user(state.live):
        return ""
    requests = [item for item in state.digest.items if item.category == "request"]
    return max(requests, key=lambda item: item.number).value if requests else ""


class _Text:
    """A text that is asked what it says."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._folded = " ".join(text.split()).casefold()

    def says(self, item: DigestItem) -> bool:
        """Tell whether the text says what *item* does."""
        value = item.value.removesuffix("…")
        if item.category == "rule":
            return " ".join(value.split()).casefold() in self._folded
        if item.category == "setting":
            return self._has(value) or self._sets(value)
        if item.category not in LINES:
            return self._has(value)
        words = [found.group().casefold() for found in _WORD.finditer(value)]
        known = sum(word in self._folded for word in words)
        return known * 2 >= len(words) and all(map(self._has, values_of(value))) and (bool(words) or self._has(value))

    def _has(self, value: str) -> bool:
        return any(True for _ in _places(value, self._text))

    def _sets(self, setting: str) -> bool:
        """Tell whether the first number right behind a setting's name is its own."""
        name, number = _name_and_number(setting)
        for at in _places(name, self._text) if number else ():
            near = self._text[at + len(name) : at + len(name) + NEAR_CHARS + len(number) + 1]
            digit = next((place for place, char in enumerate(near) if char in _DIGITS), None)
            if digit is not None and digit in _places(number, near):
                return True
        return False


def _name_and_number(setting: str) -> tuple[str, str]:
    name, sign, number = setting.partition("=" if "=" in setting else ":")
    return name.strip(' "'), number.strip() if sign else ""


def _places(value: str, text: str) -> Iterable[int]:
    """Yield where *value* stands in *text* as a word of its own: 8080 does not stand in 18080."""
    at = text.find(value) if value else -1
    while at >= 0:
        end = at + len(value)
        joined_before = at > 0 and _is_word(text[at - 1]) and _is_word(value[0])
        joined_behind = end < len(text) and _is_word(text[end]) and _is_word(value[-1])
        if not joined_before and not joined_behind:
            yield at
        at = text.find(value, at + 1)


def _is_word(char: str) -> bool:
    # other scripts put no space around a value
    return char.isascii() and (char.isalnum() or char == "_")
