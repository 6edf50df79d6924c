"""Line worths: how much each line of a text matters, by its words and by what it looks like.

Patterns that most lines do not have are looked for in all lines at once, on RE2; only what may have one is looked into.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise, repeat
from operator import add
from typing import Any

import re2

from .gaps import GAP
from .json_lines import names_columns
from .noise import absences, definitions, failing_sources, fragments, imports, labels, passed_tests, sources, wordless
from .patterns import number_in
from .recent import Recent
from .shorten.lines import lines_with, shapes_of, telling_lines
from .table import Table
from .told_table import summaries
from .verdicts import verdicts

Sought = Callable[[str], float]
"""Tells how much a word (in lower case) matters: 0 not at all, 1 as one that the agent used."""


class Seeker:
    """One that tells it of many words at once, in half the time."""

    def __init__(self, of_each: Callable[[Sequence[str]], list[float]]) -> None:
        self.of_each = of_each

    def __call__(self, word: str) -> float:
        """Return how much *word* matters."""
        return self.of_each((word,))[0]


LINE_CHARS_MAX = 300
"""Of a line, looked at for what it says of rules and of refusals."""

RARE_IN_LINES = 4
"""A word that stands in more lines than this tells them apart less and less."""

QUESTION_WORTH = 0.3
"""Of a word that the call or the user named before; one that was used later is worth more."""

_TELLING_WORTH = 1.2
_FIRST_WORTH, _LAST_WORTH = 0.8, 0.9
_AGAIN_SHARE = 0.4
_BESIDE_SHARE = 0.3
"""Of a line's worth, for each of its two neighbours: what stands beside it explains it."""

TELLING_LINES = 20
WORD = re.compile(r"[^\W_][\w.\-/]*[^\W_]|\d")
_DIGIT = re.compile("[0-9]")
_AT_ENDS = "_.-/"
"""Stand in words, but neither begin nor end one."""

_PLAIN = bytes(
    ord(char.lower()) if (char := chr(byte)).isalnum() or char in f"{_AT_ENDS}\n" else 32 for byte in range(128)
) + bytes(range(128, 256))
"""Makes letters lower, and a space of what stands in no word but for line ends."""

DIFFERENT_CHARS_MAX = 200_000
"""Of the words of texts that are known, and as many before them: 5 MB in all, beside the texts. One conversation
in the default window finds three quarters of what it looks back on again; 500,000 would be 9 MB and nine tenths."""

WORDS_CHARS, WORD_CHARS = 200, 7
"""What keeping the words of a text takes beside them, and the characters of a word: to add them up takes as long as
to find them."""

_different: Recent[str, frozenset[str]] = Recent(
    DIFFERENT_CHARS_MAX, weigh=lambda words: WORDS_CHARS + WORD_CHARS * len(words)
)

_STACK = re.compile(r"\s*File \".+\", line \d+|\s+at \S+.*[:(]\d+")
STACK_LINES = 3
"""Of a stack trace, nearest to the error."""

_TIMES = re.compile(r" \((?:x\d+|\d+ times)\b[^()]*\)")
"""How often the same came, as Kubernetes' events and system logs say it behind a time."""

_REFUSED = re.compile(
    r"(?i)\b(?:reject|refus|too (?:large|long|many)|not (?:found|allowed|permitted|supported)|invalid|cannot"
    r"|unable|exceed|unknown|missing|no such|does not exist|aborted|cancel)"
)
_MAY_REFUSE = re2.compile(
    "(?i)reject|refus|too (?:large|long|many)|not (?:found|allowed|perm|supported)|[iıİ]nval|cannot"
    "|unable|exceed|unknown|m[iıİ]ss|no such|does not ex|aborted|cancel"
)
REFUSED_LINES = 2
"""Of those that say that something was not done, the first ones."""

ODD_ROWS = 12
"""Of a table, those that differ from most."""

_RULE = re.compile(r"(?i)\b(?:never|always|must|do not|don't|only)\b")
_MAY_RULE = re2.compile("(?i)never|always|must|do not|don't|only")
_RULE_WORTH = 0.4
"""Of a line that says what one must do, or must not."""


_FAILING_WORTH = 1.2
"""Of the line of a program that failed, as a test runner marks it."""

_LABEL_SHARE = 0.3
"""Of the worth of a line that only announces the one below it, which has all of it too."""

_DEFINES_WORTH, _IMPORTS_SHARE = 0.5, 0.3
"""Of the line of a program that defines something; and of the worth of one that names what is used there."""

_NUMBERED = re.compile(r"\s*(\d+)(?:\t|→|[|:]? +|[|:]$|$)")
"""The number of a line in a file, as tools show it before the line."""

NAMED_DIGITS = 3
"""Of the number of a line that is meant by it: an edit goes by it, or a person."""

NUMBERED_SHARE = 0.6
"""Of the lines: with so many, each number above the one before it, a text is a part of a file."""


def words_of(text: str) -> list[str]:
    """Return the words of *text* in lower case, paths and numbers whole."""
    text = _unmarked(text)
    if text.isascii():
        return _parted(_plain(text))
    if "\n" in text:
        # no word goes over a line's end, and most lines are plain
        return [word for line in text.split("\n") for word in words_of(line)]
    return WORD.findall(text.lower())


def different_words(text: str) -> frozenset[str]:
    """Return the words of *text*, each once; they stay known, since each compaction looks back on the same texts."""
    return _different.found(text, _each_once)


def words_of_all(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of all *texts*, each once: nobody asks for those of one of them, and one pass is shorter."""
    return _each_once("\n".join(texts))


def _each_once(text: str) -> frozenset[str]:
    text = _unmarked(text)
    lines = [text] if text.isascii() else text.split("\n")
    # no word goes over a line's end, and most lines are plain
    runs = set(_plain("\n".join([line for line in lines if line.isascii()])).split())
    found = frozenset([word for run in runs if len(word := run.strip(_AT_ENDS)) > 1 or word.isdigit()])
    return found.union(*(WORD.findall(line.lower()) for line in lines if not line.isascii()))


def words_of_each(lines: Sequence[str]) -> list[list[str]]:
    """Return the words of each of *lines*: what parts them is taken out of all at once."""
    each = zip(lines, _plain_each(lines), strict=True)
    return [words_of(line) if bare is None else _parted(bare) for line, bare in each]


def _maybe_words_of_each(lines: Sequence[str]) -> list[Iterable[str]]:
    """Return the words of each of *lines*, and among them single letters and empty texts, which are none."""
    each = zip(lines, _plain_each(lines), strict=True)
    return [words_of(line) if bare is None else map(str.strip, bare.split(), repeat(_AT_ENDS)) for line, bare in each]


def _plain_each(lines: Sequence[str]) -> Sequence[str | None]:
    """Return each of *lines* as `_plain` does, all at once; None for one that has letters beyond ASCII."""
    body = _unmarked("\n".join(lines))
    if body.count("\n") != len(lines) - 1:
        return [None] * len(lines)
    if body.isascii():
        return _plain(body).split("\n")
    some = [line if line.isascii() else None for line in body.split("\n")]
    plain = _plain("\n".join([line or "" for line in some])).split("\n")
    return [None if line is None else told for line, told in zip(some, plain, strict=True)]


def _unmarked(text: str) -> str:
    """Return *text* with spaces for marks of what is left out: in plain lines nothing else is beyond ASCII."""
    return text if text.isascii() else text.replace(GAP, " ")


def _plain(text: str) -> str:
    """Return an ASCII text in lower case, with spaces for what stands in no word but for line ends."""
    return text.encode().translate(_PLAIN).decode()


def _parted(plain: str) -> list[str]:
    """Return the words of an ASCII text in which spaces part them, as `WORD` finds them: three times as fast."""
    return [word for run in plain.split() if len(word := run.strip(_AT_ENDS)) > 1 or word.isdigit()]


def worths_of(words: Sequence[str], sought: Sought) -> Iterable[float]:
    """Return how much each of *words* matters."""
    return sought.of_each(words) if isinstance(sought, Seeker) else map(sought, words)


def line_worths(
    lines: list[str], sought: Sought, table: Table | None = None, *, are_rows: bool = False, numbers: bool = False
) -> list[float]:
    """Return how much each of *lines* matters, which are *table*, if they are one.

    *are_rows*: of those that differ in numbers alone those matter whose numbers do, and none as the last one.
    """
    # in the order of the line: sums of fractions depend on it, and a set's is another one in each process
    bare = without_numbers(lines)
    words = list(map(dict.fromkeys, _maybe_words_of_each(bare)))
    often = Counter(chain.from_iterable(words))
    some = [word for word, times in often.items() if times < len(lines) and (len(word) > 1 or word.isdigit())]
    worths = zip(some, worths_of(some, sought), strict=True)
    weights = {word: worth * min(1.0, RARE_IN_LINES / often[word]) for word, worth in worths if worth}
    weight, none = weights.get, repeat(0.0)
    own = [sum(map(weight, of_line, none), 0.0) for of_line in words]
    silent: list[int] = []
    if numbers:
        repeating = [number for number, some in enumerate(words) if own[number] and _repeats_question(some, weights)]
        for number in repeating:
            own[number] = 0.0
        silent = [*repeating, *absences(lines)]
        named = dict(_named_lines(lines, bare))
        for number, worth in zip(named, worths_of(list(named.values()), sought), strict=True):
            own[number] += worth
    # what weighs nothing adds nothing: most words
    of_digits = {word: worth for word, worth in weights.items() if _DIGIT.search(word)} if numbers else {}
    shapes = shapes_of([_TIMES.sub("", line) if " (" in line else line for line in lines] if numbers else lines)
    body = "\n".join(lines).encode()
    program = sources(bare) if numbers else frozenset[int]()
    for number, worth in _telling(lines, body, shapes, table):
        own[number] += worth * (number not in program)
    for number in _matching(lines, body, _RULE, _MAY_RULE):
        own[number] += _RULE_WORTH * (number not in program)
    for number in _frames(lines)[-STACK_LINES:]:
        own[number] += _TELLING_WORTH
    # of lines that differ in numbers alone, the first one says it
    seen: set[str] = set()
    for number, shape in enumerate(shapes):
        if shape in seen:
            sought_numbers = sum(map(of_digits.get, words[number], none)) if of_digits else 0.0
            own[number] = _AGAIN_SHARE * own[number] + (1 - _AGAIN_SHARE) * sought_numbers
        seen.add(shape)
    for number in definitions(program, bare):
        own[number] += _DEFINES_WORTH
    for number in imports(program, bare):
        own[number] *= _IMPORTS_SHARE
    # where a program begins and ends says nothing of it
    own[0] += _FIRST_WORTH * (0 not in program)
    if not (len(lines) - 1 in program or (are_rows and (shapes[-1] in shapes[:-1] or _is_below_columns(lines)))):
        own[-1] += _LAST_WORTH
    besides = map(add, (0.0, *own), (*own[1:], 0.0))
    out = [one + _BESIDE_SHARE * (beside if beside < 1.0 else 1.0) for one, beside in zip(own, besides, strict=False)]
    for number in silent:
        out[number] = own[number]
    if numbers:
        _look_around(lines, bare, program, out)
    return out


def _look_around(lines: Sequence[str], bare: Sequence[str], program: Collection[int], worths: list[float]) -> None:
    """Change *worths* by what stands around a line: what failed, how all came out, or what only announces another."""
    for number in failing_sources(lines):
        worths[number] += _FAILING_WORTH
    for number in labels(bare, program):
        worths[number + 1] = max(worths[number], worths[number + 1])
        worths[number] *= _LABEL_SHARE
    for number in (*passed_tests(lines), *wordless(bare), *fragments(bare)):
        worths[number] = 0.0
    for number in verdicts(lines):
        worths[number] += 2 * _TELLING_WORTH


def _repeats_question(words: Iterable[str], weights: Mapping[str, float]) -> bool:
    """Tell whether a line has no word but those of its call and of the user, as `Namespace: default`."""
    return all(0 < weights.get(word, 0.0) <= QUESTION_WORTH for word in words if len(word) > 1)


def _is_below_columns(lines: Sequence[str]) -> bool:
    """Tell whether the last line is a row of columns that JSON names: it may have a word more than others."""
    fields = lines[-1].count(", ")
    return any(names_columns(line) and line.count(", ") == fields for line in lines[:-1])


def without_numbers(lines: Sequence[str]) -> Sequence[str]:
    """Return *lines* without their numbers, where they are a part of a file: who looks at lines 1 to 50 means no 50."""
    middle = lines[len(lines) // 2].lstrip()
    if middle[:1].isdecimal():
        found = [_NUMBERED.match(line) for line in lines]
        numbers = [number_in(one.group(1)) for one in found if one]
        rising = sum(before < after for before, after in pairwise(numbers))
        if rising + 1 >= NUMBERED_SHARE * len(lines):
            return [line[one.end() :] if one else line for line, one in zip(lines, found, strict=True)]
    return lines


def _named_lines(lines: Sequence[str], bare: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a part of a file whose number somebody may mean, and the number, but for the ends of the part.

    A smaller number is the number of something else.
    """
    if bare is lines:
        return
    for number, line in enumerate(lines[1:-1], 1):
        found = _NUMBERED.match(line)
        if found and len(found.group(1)) >= NAMED_DIGITS:
            yield number, found.group(1)


def _telling(
    lines: Sequence[str], body: bytes, shapes: Sequence[str], table: Table | None
) -> Iterator[tuple[int, float]]:
    """Yield the lines that tell of errors and refusals, sum rows up, or are odd, with what each is worth for it."""
    refused = _matching(lines, body, _REFUSED, _MAY_REFUSE)
    for number in (*telling_lines(lines, shapes, body)[:TELLING_LINES], *islice(refused, REFUSED_LINES)):
        yield number, _TELLING_WORTH
    for number in summaries(lines):
        yield number, 2 * _TELLING_WORTH
    for number in table.odd[:ODD_ROWS] if table else ():
        yield number, _TELLING_WORTH


def _matching(lines: Sequence[str], body: bytes, pattern: re.Pattern[str], may: Any) -> Iterator[int]:
    """Yield the numbers of the lines in which *pattern* stands; *may* stands wherever it does."""
    return (number for number in lines_with(may, lines, body) if pattern.search(lines[number][:LINE_CHARS_MAX]))


def _frames(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that are frames of a stack trace."""
    return [number for number, line in enumerate(lines) if ("at " in line or 'File "' in line) and _STACK.match(line)]
