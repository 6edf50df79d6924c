"""Request marks: what an account writes into a user's message: the question it answers, or that it stands elsewhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

ABOVE_BEFORE = "[the message above]"
"""Before rules 3: stands for a message that stays in the view, above the account."""

ABOVE, BELOW = "[stands above this account]", "[stands below this account]"
"""Since rules 3 the same; and of one that stays below the account, while the question that it answers left."""

OLDER_BELOW = "[stands below this account, and is older than its last steps]"
"""Of a request that stays below the account, though the account tells what was done since: it tells one before it."""

_BEGINNING, _MARKS = '(asked "', frozenset((ABOVE_BEFORE, ABOVE, BELOW, OLDER_BELOW))
_QUESTION = re.compile(r'\(asked "([^"\n]*)"\) ')

_BRACKETS, NAME_CHARS = re.compile(r"[\[\]\s]+"), 120
"""What would end a mark of ours, and of a name that stands in it: its end."""

_READ = 'read_artifact("messages:{}")'

_LINES_OF = '[here "{}…", as in the user\'s message #{} below, lines {}-{}]'
REFERS = re.compile(r"\[here \"[^\n]{0,60}?…\", as in the user's message #(\d{1,9}) below, lines (\d{1,9})-(\d{1,9})\]")
"""What `lines_of` writes: number, first and last line."""

_REFERS_END = re.compile(r"(\", as in the user's message #\d+ below, lines \d+-\d+)\]")
"""Its end, which nothing can be put into when a text is shortened."""


_REMINDS = "[beside it a program reminds:]"
_NUMBERED = re.compile(r"(?m)^#(?=\d+(?:-\d+)?[: ])")
"""How a line of an account begins."""

_REFERRED = "message #"
"""Stands in every reference to lines of a message that stays."""


def left_out(number: int, chars: int) -> str:
    """Return the mark for so many *chars* of message *number* that the account leaves out."""
    return f"[… {chars:,} characters: {_READ.format(number)} …]"


def is_shortened(text: str, number: int) -> bool:
    """Tell whether the account leaves some of message *number* out of *text*."""
    return _READ.format(number) in text


def reference_to(number: int) -> str:
    """Return the words that stand in each request that refers to lines of message *number*."""
    return f"{_REFERRED}{number} below"


def may_refer(text: str) -> bool:
    """Tell whether a request's *text* may refer to lines of another message."""
    return _REFERRED in text


def with_question(text: str, question: str) -> str:
    """Return *text* with the *question* that it answers before it, where there is one; it is in quotes of ours."""
    bare = question.replace('"', "'")
    return f'(asked "{bare}") {text}' if bare else text


def with_reminder(text: str) -> str:
    """Return the mark for *text*, the lines that are left of what a program reminded of around a user's words."""
    quoted = "\n> ".join(text.splitlines())
    return f"{_REMINDS}\n> {quoted}"


def with_attached(number: int, names: Sequence[str], chars: int, text: str) -> str:
    """Return the mark for *text*, what is left of *chars* characters that were attached to a user's message *number*.

    *names* are those of the files or pages; *chars* is 0 where nobody knows how many there were.
    """
    quoted = "\n> ".join(text.splitlines())
    told = ", ".join(_BRACKETS.sub(" ", name)[-NAME_CHARS:] for name in names) or "below the words"
    size = f", {chars:,} characters" if chars else ""
    return f"[attached {told}{size}: {_READ.format(number)}]\n> {quoted}"


def question_in(text: str) -> str:
    """Return the question that `with_question` put before *text*; an empty text where there is none."""
    found = _QUESTION.match(text)
    return found.group(1) if found else ""


def own_words(text: str) -> str:
    """Return the user's words without the question before them."""
    return _QUESTION.sub("", text, count=1) if question_in(text) else text


def stands_elsewhere(text: str) -> bool:
    """Tell whether *text* says that the message itself stands in the view."""
    return own_words(text) in _MARKS


def lines_of(beginning: str, number: int, first: int, last: int) -> str:
    """Return the mark for lines that message *number* of the user's has too, which stays in the view."""
    return _LINES_OF.format(beginning, number, first, last)


def as_said(text: str) -> str:
    """Return a user's *text* without white space around it, in quotes where it looks like a mark of ours.

    What looks like a reference to lines loses its last bracket, and no line begins as one of an account.
    """
    text = _NUMBERED.sub(" #", _REFERS_END.sub(r"\1", text.strip())) if "#" in text else text.strip()
    folded = text.casefold()
    return f'"{text}"' if folded in _MARKS or folded.startswith(_BEGINNING) else text
