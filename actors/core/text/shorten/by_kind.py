"""Shorten by kind: a text in fewer tokens, by the means of its kind; what is left out is said in place.

Never more than it was, never above the bound, the same for the same text, and linear in its length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial

from actors.core.text.count import Count
from actors.core.text.fit import fits
from actors.core.text.kinds import Kind, kind_of
from actors.core.text.preview import preview
from protocol.formats import messages

from .binary import describe_base64, describe_binary, without_base64
from .diff import shorten_diff
from .html import shorten_html
from .json import shorten_json
from .lines import Shorter, Telling, shorten_lines, telling_lines, worst_first
from .log import shorten_log
from .odd import worst_then_odd
from .search import shorten_listing, shorten_search
from .table import shorten_table
from .trace import shorten_trace

Ways = Mapping[Kind, Callable[..., Shorter]]
"""By kind: the function that looks at a text of it, and returns what shortens it."""

READ_CHARS_MAX = 1_000_000
"""Of a larger text only the ends and its errors are shown: its lines are not looked at one by one."""

LINES_MIN = 8
"""A text of fewer lines is one of characters."""


def shorten(text: str, kind: Kind, *, tokens_max: int, count: Count) -> str:
    """Return *text*, seen as *kind*, in at most *tokens_max* tokens; an empty text if nothing of it fits."""
    return shortener(text, kind, count=count)(tokens_max)


def shortener(text: str, kind: Kind, *, count: Count, ways: Ways | None = None) -> Shorter:
    """Return the function that shortens *text*, seen as *kind*: looked at once, however often its room is changed."""
    way = (ways or WAYS)[kind]
    text = messages.without_surrogates(text)

    @cache
    def looked_at() -> Shorter:
        return way(text, count=count)

    def shorter(tokens_max: int) -> str:
        if fits(text, tokens_max=tokens_max, count=count):
            return text
        short = looked_at()(tokens_max) if len(text) <= READ_CHARS_MAX else ""
        if not short or count(short) > tokens_max or len(short) > len(text):
            short = preview(text, tokens_max=tokens_max, count=count)
        # of a short text, what is said in place of the middle may be longer than the middle
        return short if len(short) <= len(text) else ""

    return shorter


def shorten_text(text: str, *, count: Count, telling: Telling = worst_first) -> Shorter:
    """Return the function that shows telling lines and both ends of *text*; of one without lines, nothing."""
    text = without_base64(text)
    lines = text.split("\n")
    if len(lines) < LINES_MIN:
        return lambda tokens_max: preview(text, tokens_max=tokens_max, count=count)
    return shorten_lines(lines, count=count, telling=telling(lines))


def _described(describe: Callable[[str], str]) -> Callable[..., Shorter]:
    def way(text: str, *, count: Count) -> Shorter:
        return lambda _: describe(text)

    return way


WAYS: Ways = {
    "json": shorten_json,
    "diff": shorten_diff,
    "trace": shorten_trace,
    "html": shorten_html,
    "log": shorten_log,
    "csv": shorten_table,
    "table": shorten_table,
    "search": shorten_search,
    "listing": shorten_listing,
    "text": shorten_text,
    "base64": _described(describe_base64),
    "binary": _described(describe_binary),
}

IN_ORDER: Ways = {
    **WAYS,
    "log": partial(shorten_log, telling=telling_lines),
    "text": partial(shorten_text, telling=telling_lines),
}
"""The same where warnings stand among the errors as they came: rules version 1."""

NEWEST: Ways = {
    **WAYS,
    "trace": partial(shorten_trace, frames=True),
    "log": partial(shorten_log, telling=worst_then_odd),
    "text": partial(shorten_text, telling=worst_then_odd),
}
"""The same where an error stands with the frames of its stack, and odd lines behind it: rules version 3."""

__all__ = ["IN_ORDER", "NEWEST", "WAYS", "Shorter", "Ways", "kind_of", "shorten", "shorten_text", "shortener"]
