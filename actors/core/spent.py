"""Spent: what a conversation's calls would have cost without us, what they cost, and what rewriting cost, by day.

It depends on the order of the messages alone: a call and a rewriting are of the day on which the newest message was
said that they know of, whatever came between.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from .entry import Entry

DAY_MS = 86_400_000
DAYS_MAX = 62
"""Days that are told apart; older ones are one."""


class Day(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One day of a conversation, in UTC, by the clock of who spoke. All are sums over its calls."""

    day: int
    """Since 1970."""
    first: int
    """Number of the first message that was said on it."""
    calls: int = 0
    """Served contexts."""
    said_tokens: int = 0
    """What would have been sent: all that had been said by then."""
    sendable_tokens: int = 0
    """The same, up to the model's window: nobody is billed for what a provider refuses."""
    served_tokens: int = 0
    microdollars: int = 0
    """What rewriting cost, as it was recorded."""


class Spent(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """All of a conversation, by day, oldest first."""

    said_tokens: int = 0
    """Tokens of all messages, as they were said."""
    days: tuple[Day, ...] = ()


def with_said(spent: Spent, entry: Entry, *, at_ms: int) -> Spent:
    """Return *spent* with one more message; a clock that goes back stays on the newest day."""
    day = max(0, at_ms) // DAY_MS
    days = spent.days
    if not days or day > days[-1].day:
        days = (*days, Day(day=day, first=entry.number))
        if len(days) > DAYS_MAX:
            days = (_joined(days[0], days[1]), *days[2:])
    return Spent(said_tokens=spent.said_tokens + size(entry), days=days)


def with_call(spent: Spent, *, upto: int, newer: Iterable[Entry], tokens: int, window: int) -> Spent:
    """Return *spent* with one more call, which saw *upto* messages in *tokens*; *newer* are the newest, last first."""
    said = spent.said_tokens - sum(size(one) for one in takewhile(lambda one: one.number > upto, newer))
    sendable = min(said, max(tokens, window))
    return _on_day(spent, upto, calls=1, said_tokens=said, sendable_tokens=sendable, served_tokens=tokens)


def with_rewriting(spent: Spent, *, upto: int, microdollars: int) -> Spent:
    """Return *spent* with what a model was paid that rewrote messages up to *upto*."""
    return _on_day(spent, upto, microdollars=microdollars)


def size(entry: Entry) -> int:
    """Return the tokens of a message as it was said."""
    return sum([part.tokens for part in entry.parts], entry.frame_tokens + entry.apart_tokens)


def _on_day(spent: Spent, upto: int, **more: int) -> Spent:
    index = next((at for at in range(len(spent.days) - 1, -1, -1) if spent.days[at].first <= upto), 0)
    if not spent.days:
        return spent
    day = spent.days[index]
    day = replace(day, **{name: getattr(day, name) + value for name, value in more.items()})
    return replace(spent, days=(*spent.days[:index], day, *spent.days[index + 1 :]))


def _joined(one: Day, other: Day) -> Day:
    sums = ("calls", "said_tokens", "sendable_tokens", "served_tokens", "microdollars")
    return replace(one, **{name: getattr(one, name) + getattr(other, name) for name in sums})
