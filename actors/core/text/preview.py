"""Previews: as much of a text as fits a number of tokens, its ends and its errors first."""

from __future__ import annotations

from functools import partial

import re2

from protocol.formats import messages

from .count import Count
from .fit import fits, fitted
from .patterns import ERROR_WORDS

ERROR_LINES_MAX = 12
LINE_CHARS_MAX = 400
HEAD_SHARE = 0.55

_ERROR = re2.compile(b"(?i)" + ERROR_WORDS)


def preview(text: str, *, tokens_max: int, count: Count) -> str:
    """Return head, telling lines between, and tail of *text*, in at most *tokens_max* tokens.

    What is left out is said in place. A text that fits is returned as it is, but for long runs of white
    space; too small a bound gives an empty text. Lone surrogates are replaced: what is shown becomes a fact.
    """
    text = messages.without_surrogates(text)
    if fits(text, tokens_max=tokens_max, count=count):
        return text
    # four characters a token at first, of a denser text all it has; counted and narrowed until it fits
    chars = min(tokens_max * 4, len(text))
    return fitted(partial(_assemble, text), chars=chars, tokens_max=tokens_max, count=count, least=80, tries=12)


def _assemble(text: str, chars: int) -> str:
    head_chars, tail_chars = int(chars * HEAD_SHARE), int(chars * (0.9 - HEAD_SHARE))
    if len(text) <= head_chars + tail_chars:
        return text[:chars]
    head, tail = text[:head_chars], text[-tail_chars:]
    if "\n" in head[head_chars // 2 :]:
        head = head[: head.rindex("\n")]
    if "\n" in tail[: tail_chars // 2]:
        tail = tail[tail.index("\n") + 1 :]
    middle = text[len(head) : len(text) - len(tail)]
    telling = _telling_lines(middle, chars // 10 + 1)
    lines = middle.count("\n")
    gone = f"{lines:,} lines" if lines > 1 else f"{len(middle):,} characters"
    between = f"[… {gone} left out" + ("; among them:\n" + telling + "\n…]" if telling else " …]")
    return f"{head}\n{between}\n{tail}"


def _telling_lines(text: str, chars: int) -> str:
    """Return the first different lines that speak of errors, within *chars*."""
    seen: dict[str, None] = {}
    body, following = text.encode(), 0
    # from line to line, not from match to match: a line of megabytes may have a hundred thousand
    while following < len(body) and (match := _ERROR.search(body, following)) is not None:
        start = body.rfind(b"\n", 0, match.start()) + 1
        end = body.find(b"\n", match.end())
        following = end + 1 if end >= 0 else len(body)
        line = body[start : end if end >= 0 else len(body)].decode().strip()[:LINE_CHARS_MAX]
        if line not in seen:
            if chars < len(line):
                break
            chars -= len(line) + 1
            seen[line] = None
        if len(seen) >= ERROR_LINES_MAX:
            break
    return "\n".join(seen)
