"""Invented: a sentence of a model's text with a value that is nowhere in what the model was given is struck out.

What was left out is no fault: it is in the log, and the rest of the account says how to read it. What is made up
misleads, and nobody could tell it from the rest. A value is what has a digit, an underscore, a slash or a capital
inside; it counts as given if it stands there, is put together from what stands there, or is a number of there, rounded.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property

import msgspec

PLAIN_NUMBER_MAX = 31
"""Up to here a number may be one of the list, a count, or a day."""

FRAGMENT_CHARS_MIN = 5
"""A name as long as this may be the beginning or the end of a given one: a short hash, a file without its folder."""

REASON_CHARS_MAX = 300

WORD_CHARS_MAX = 400
"""No name is longer, and what is looked for in one takes the square of its length."""

FRAMES = ("[Account of", "The user said:", "Steps:", "Also seen:", "[message ")
"""Begin what stands around the prose: words in a tool's result must not become the user's."""

_URL = re.compile(r"[a-z][a-z0-9+]*://[^\s\"'<>)\]}`,;]+", re.ASCII)
_PATH = re.compile(r"(?:~|\.{1,2})?/?(?:[\w.@+%-]+/)+[\w.@+%-]*", re.ASCII)
_ATOM = re.compile(r"[A-Za-z0-9_]+(?:[.,-][A-Za-z0-9_]+)*", re.ASCII)
_NUMBER = re.compile(r"x?(\d[\d,]*(?:\.\d+)?)(?:[A-Za-z%]{0,4})", re.ASCII)
"""With its unit, or as a factor."""

_GIVEN_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", re.ASCII)
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2,}[a-z]{2,}", re.ASCII)
_MESSAGES = re.compile(r"#\d+(?:\s?[-–]\s?#?\d+)?(?!\w)")
_LABEL = re.compile(r"^[ \t]*(?:[-*•][ \t]*)?([A-Z])(\d{1,2})(?=[/:.)(])", re.ASCII | re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？;])\s+(?=[^\sa-z])")
_WORDS = re.compile(r"[A-Za-z0-9_]+", re.ASCII)


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """A text without its inventions."""

    prose: str
    struck: tuple[str, ...] = ()
    """What is gone, each sentence behind the reason."""
    share: float = 0.0
    """Of the text's characters that is gone."""


class Given:
    """What a model was given, and by which *labels* it numbers its own points."""

    def __init__(self, texts: Iterable[str], *, labels: Collection[str] = ()) -> None:
        self.whole = "\n".join(texts)
        self.labels = labels

    @cached_property
    def words(self) -> frozenset[str]:
        """Return its words."""
        return frozenset(_WORDS.findall(self.whole))

    @cached_property
    def folded(self) -> frozenset[str]:
        """Return its words without their capitals."""
        return frozenset(word.casefold() for word in self.words)

    @cached_property
    def numbers(self) -> Sequence[float]:
        """Return its numbers, the smallest first."""
        return sorted({float(found.replace(",", "")) for found in _GIVEN_NUMBER.findall(self.whole)})

    def has(self, value: str) -> bool:
        """Tell whether a value stands there or follows from what does."""
        if "://" in value:
            return value.rstrip("/") in self.whole
        label, _, rest = value.partition("/")
        if label in self.labels:
            return not _telling(rest) or self.has(rest)
        number = _NUMBER.fullmatch(value)
        if number and self._has_number(number.group(1)):
            return True
        if value in self.words or (len(value) >= FRAGMENT_CHARS_MIN and not value.isdecimal() and value in self.whole):
            return True
        if value.isalpha():
            # a name's capitals and its plural are the writer's
            return any(value.casefold().removesuffix(end) in self.folded for end in ("", "s", "es"))
        if "/" in value and self._has_path(value.rstrip("/")):
            return True
        if "/" in value and ("." in value or value[0] in "/~"):
            return False
        parts = _WORDS.findall(value)
        if value.count("/") > 1:
            # names with a common beginning are listed so too: `thinkingOff/Low/High`
            return all(part in self.whole for part in parts)
        return len(parts) > 1 and all(not _telling(part) or self.has(part) for part in parts)

    def _has_number(self, said: str) -> bool:
        # a comma parts thousands, or it is the point of other languages
        readings = {said.replace(",", ""), said.replace(",", ".") if said.count(",") == 1 and "." not in said else ""}
        return any(map(self._has_digits, filter(None, readings)))

    def _has_digits(self, digits: str) -> bool:
        value = float(digits)
        if value <= PLAIN_NUMBER_MAX and "." not in digits:
            return True
        decimals = len(digits.partition(".")[2])
        # rounded to as many digits, or said in percent
        return self._near(value, 0.5 * 10**-decimals if decimals else 0.0) or (
            bool(decimals) and self._near(value / 100, 0.005 * 10**-decimals)
        )

    def _near(self, value: float, slack: float) -> bool:
        slack += 1e-9
        at = bisect_left(self.numbers, value - slack)
        return at < len(self.numbers) and self.numbers[at] <= value + slack

    def _has_path(self, value: str) -> bool:
        """Tell whether a path is put together from a folder and a name that both stand there."""
        steps = value.split("/")
        parts = (("/".join(steps[:at]), "/".join(steps[at:])) for at in range(1, len(steps)))
        return any(head and tail and head in self.whole and tail in self.whole for head, tail in parts)


def labels_in(prose: str) -> frozenset[str]:
    """Return the labels by which lines of *prose* begin, as `Q1` in `- Q1/documents: …`: two of a letter at least."""
    found = set(_LABEL.findall(prose))
    often = Counter(letter for letter, _ in found)
    return frozenset(f"{letter}{number}" for letter, number in found if often[letter] > 1)


def without_inventions(prose: str, given: Given) -> Checked:
    """Return *prose* without the sentences that have a value which is not *given*."""
    struck: list[str] = []
    lines: list[str] = []
    gone = 0
    for line in prose.splitlines():
        kept = []
        opened = 0
        for sentence in _SENTENCE_END.split(line):
            wrong = "it goes on with what was struck out" if opened > 0 else _wrong(sentence, given)
            if wrong:
                # what stands in the same brackets says nothing without their beginning
                opened = max(0, opened + sentence.count("(") - sentence.count(")"))
                struck.append(f"{wrong}: {sentence.strip()}"[:REASON_CHARS_MAX])
                gone += len(sentence)
            else:
                kept.append(sentence)
        if any(sentence.strip(" -*•") for sentence in kept) or not line.strip():
            lines.append(" ".join(kept))
    text = "\n".join(_without_empty_headings(lines)).strip()
    return Checked(prose=text, struck=tuple(struck), share=gone / max(1, len(prose)))


def _wrong(sentence: str, given: Given) -> str:
    """Return why a sentence is not believed, or an empty text."""
    if sentence.strip(" -*").startswith(FRAMES):
        return "only we say what is recorded"
    if max(map(len, sentence.split()), default=0) > WORD_CHARS_MAX:
        return f"it has a word of more than {WORD_CHARS_MAX} characters"
    wrong = next((value for value in values_in(sentence) if not given.has(value)), "")
    return f"{wrong[:80]} is nowhere in the input" if wrong else ""


def values_in(sentence: str) -> Iterator[str]:
    """Yield the values of a sentence: what could be invented."""
    text = _MESSAGES.sub(" ", sentence)
    for pattern in (_URL, _PATH):
        for value in pattern.findall(text):
            value = value.rstrip(".,:")
            if pattern is _URL or _is_path(value):
                yield value
        text = pattern.sub(lambda found: " " if pattern is _URL or _is_path(found.group()) else found.group(), text)  # noqa: B023
    for value in _ATOM.findall(text):
        if _telling(value):
            yield value


def _telling(value: str) -> bool:
    return any(char.isdigit() for char in value) or "_" in value.strip("_") or bool(_CAMEL.search(value))


def _is_path(value: str) -> bool:
    """Tell a path from words with a slash between them."""
    steps = [step for step in value.split("/") if step]
    return len(steps) > 1 and (value.startswith(("/", "~", ".")) or any(map(_telling, steps)) or "." in value)


def _without_empty_headings(lines: Sequence[str]) -> Iterator[str]:
    """Yield *lines* but for headings that nothing stands below."""
    for place, line in enumerate(lines):
        below = next((one for one in lines[place + 1 :] if one.strip()), "")
        if is_heading(line) and (not below or is_heading(below)):
            continue
        yield line


def is_heading(line: str) -> bool:
    """Tell whether a line only names what stands below it."""
    bare = line.strip().strip("*#").strip()
    return bool(bare) and bare.endswith(":") and len(bare) < 40 and not line.startswith((" ", "-"))
