"""Hindsight: which words of an old result mattered, told by what the assistant said and did after it.

A word that many results have tells them apart as little as one that stands on every line of one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from actors.core.entry import Entry, shown_message, text_of
from actors.core.message_texts import MessageText, opened_text, texts_of, without_lead
from actors.core.text.excerpt import LookedAt
from actors.core.text.forms import with_labels
from actors.core.text.line_worths import QUESTION_WORTH, Seeker, Sought, different_words, words_of, words_of_all
from actors.core.text.noise import is_idle
from actors.core.text.notices import alike
from actors.core.text.opened import opened
from actors.core.text.recent import Recent
from protocol.account import AccountRequest, AccountStep

from .endings import FAILS, TELLS, is_prompt, last_lines, state_in
from .habits import Habits, without_given
from .links import Links
from .records import identifiers, record_in
from .repeats import Repeats

USED = 0.6
"""Worth of a word that the assistant used afterwards, at least; a name or a number is worth 1."""

OWN, ASKED = QUESTION_WORTH, 0.25
"""Of a word of the call itself, and of one that a user said."""

LINKED = 1.0
"""Of an id that another tool returned too: of a list it is the row that is looked for."""

COMMON_RESULTS = 3
"""A word in more results than this is worth less."""

LONG_CHARS = 8
"""A longer word is a name, not one of the language."""

LOOKED_AT_CHARS_MAX = 400_000
"""Of texts that may be shortened again in the same compaction, and as many before them."""

FRAME_RESULTS_MIN = 2
"""What so many results begin with, but for the words of their own calls, is a frame and says nothing."""

TITLE_RESULTS_MIN, TITLE_ALL_MIN = 4, 2
"""A line of one or two words and a colon, as `OBSERVATION:`, is a frame where so many results begin with it."""

END_RESULTS_MIN = 3
"""With the same words so many results end, as with a prompt, and say nothing by them; a line with figures does."""

FRAME_SPACES_MIN = 2
FRAME_LINES_MAX = 4
FRAME_LINE_CHARS_MAX = 600
ECHO_CHARS_MIN = 8
"""Of a call's arguments: a line that has them whole repeats the call."""

ECHO_SHARE = 0.6
"""Of the words of a line, in its own call: then the line only repeats it."""

_RAISES = re.compile(r"(?i)\b(?:traceback|\w*exception|panic|fatal)\b")
"""A line that says so is no frame of results: two programs may end alike."""

_STOP_WORDS = """
the and for that this with from have has are was were will would can could should not but you your our
its it's let's let now need into then them they there what when which who how all any use used using
also just only more some here been being see look next first about after before does did done one two
out get got make made like true false null none return import self def class if else
"""
_STOP = frozenset(_STOP_WORDS.split())


@dataclass(frozen=True, kw_only=True)
class Hindsight:
    """What is known at a compaction of the words in the messages before it."""

    said: dict[str, int]
    """Each word of the assistant, with the number of its newest message."""
    asked: frozenset[str]
    often: Often
    """In how many results a word stands."""
    linked: frozenset[str]
    """Ids that records or lists of them have, which different tools returned; those of the account before too."""
    frames: frozenset[str]
    """What begins many results and says nothing, by its words."""
    ends: frozenset[str]
    """What many results end with, by its words."""
    newest_call: dict[str, int]
    """The number of the newest call of each tool."""
    overtaken: frozenset[int]
    """The numbers of the notices of which a newer one says how far a task in the background is by now."""
    habits: frozenset[tuple[str, str, str]]
    """Tool, argument and value that most calls of the tool have, where the value is no name."""
    rules_3: bool
    """Whether `digest.records` is `fields`: records are told by them, and all else as rules 3 tell it."""
    first_fields: dict[tuple[str, str, str], int]
    """Tool, field and value of records that tools returned, with the number of the first such call."""
    given: dict[str, int]
    """Long texts that the assistant gave to tools, with the number of the first call that had each."""
    repeats: Repeats
    """What is said more than once; empty under older rules, which tell it each time."""

    @classmethod
    def of(
        cls,
        live: Iterable[Entry],
        requests: Iterable[AccountRequest],
        *,
        rules_3: bool,
        before: Iterable[AccountStep] = (),
    ) -> Hindsight:
        """Read *live* once, and the steps *before*."""
        said: dict[str, int] = {}
        asked: set[str] = set()
        results: list[frozenset[str]] = []
        links = Links(begun := tuple(before) if rules_3 else ())
        firsts, lasts, habits = Counter[str](), Counter[str](), Habits()
        calls: dict[str, MessageText] = {}
        first_fields: dict[tuple[str, str, str], int] = {}
        newest_call: dict[str, int] = {}
        texts = texts_of(live)
        for part in texts:
            if part.tool:
                calls[part.call] = part
                newest_call[part.tool] = part.number
                habits.read(part, rules_3=rules_3)
            if part.trust == "tool":
                call = calls.get(part.call)
                text = opened(part.text, deep=True) if rules_3 else part.text
                results.append(different_words(text))
                if rules_3 and call and text.lstrip()[:1] in ("{", "["):
                    links.read(call.tool, text)
                own = different_words(call.text if call else "")
                first, _, below = text.lstrip().partition("\n")
                firsts[_frame(first, own)] += 1
                if rules_3 and first.endswith(":") and first.count(" ") < FRAME_SPACES_MIN:
                    # a title stands above what frames a result as often as not
                    firsts[_frame(below.split("\n", 1)[0], own)] += 1
                lasts.update(_ending(line) for line in last_lines(text, states=rules_3))
                for field in identifiers(record_in(text, listed=rules_3)):
                    first_fields.setdefault((call.tool if call else "", *field), part.number)
            elif part.trust == "assistant":
                said.update(dict.fromkeys(different_words(part.text), part.number))
            else:
                asked.update(different_words(part.text))
        asked |= words_of_all([request.text for request in requests])
        # of few results, since one compaction sees those that are new: where all have a title, it says nothing
        all_min = max(TITLE_ALL_MIN, firsts.total()) if rules_3 else TITLE_RESULTS_MIN
        return cls(
            said=said,
            asked=frozenset(asked),
            often=Often(results),
            linked=links.linked(),
            frames=frozenset(words for words, times in firsts.items() if _is_frame(words, times, all_min)),
            ends=frozenset(words for words, times in lasts.items() if words and times >= min(END_RESULTS_MIN, all_min)),
            newest_call=newest_call,
            overtaken=_overtaken(live) if rules_3 else frozenset(),
            rules_3=rules_3,
            first_fields=first_fields,
            given=habits.given,
            repeats=Repeats.of(texts, requests, is_begun=bool(begun)) if rules_3 else Repeats(),
            habits=habits.often(),
        )

    def opened(self, part: MessageText, *, own: int) -> str:
        """Return the words of a result that the assistant gave to no tool, without envelopes; *own* is its call."""
        if not self.rules_3:
            return part.text
        return with_labels(without_given(without_lead(opened_text(part)), self.given, own=own))

    def seeker(self, *, after: int, own: str = "") -> Sought:
        """Return the judge of how much a word of a result of message *after* mattered; *own* is its call."""
        last_said, (owned, used, asked), telling = self.said, self._worths, self._telling

        def of_each(words: Sequence[str]) -> list[float]:
            mine = different_words(own)
            return [
                (owned if word in mine else used if last_said.get(word, 0) > after else asked)[word]
                if word in telling or word in mine or "_" in word
                else 0.0
                for word in words
            ]

        return Seeker(of_each)

    @cached_property
    def _telling(self) -> frozenset[str]:
        """Return the words that may be worth something; so may a call's own, and one that has some of them in it."""
        return self.asked.union(self.said, self.linked)

    @cached_property
    def _worths(self) -> tuple[_Worths, _Worths, _Worths]:
        """Return the worths of words that are the call's own, that were used, and that were not: found out once."""
        often, asked, linked = self.often, self.asked, self.linked
        # no methods: they would lead back here, and all that was looked at would wait for a pass for cycles
        return (
            _Worths(lambda word: OWN * _rare(word, often)),
            _Worths(lambda word: (1.0 if _is_name(word) else USED) * _rare(word, often)),
            _Worths(lambda word: _asked_worth(word, asked, linked, often)),
        )

    def excerpt(self, text: str, *, chars: int, after: int, own: str = "") -> str:
        """Return the lines of *text*, a result of message *after*, that mattered; other *chars* come cheap then."""
        key = (text, after, own)
        looked_at = self._wholes.get(key) or self._looked_at.found(key, lambda _: self._look(text, after, own))
        return looked_at.excerpt(chars)

    def finest(self, text: str, *, chars: int, after: int, own: str) -> str:
        """Return an excerpt that is shortened again out of all lines of *text*, which are weighed once."""
        looked_at = self._look(text, after, own)
        short = looked_at.excerpt(chars)
        self._wholes[short, after, own] = looked_at
        return short

    def _look(self, text: str, after: int, own: str) -> LookedAt:
        return LookedAt(text, self.seeker(after=after, own=own), clauses=self.rules_3)

    @cached_property
    def _wholes(self) -> dict[tuple[str, int, str], LookedAt]:
        return {}

    @cached_property
    def _looked_at(self) -> Recent[tuple[str, int, str], LookedAt]:
        return Recent(LOOKED_AT_CHARS_MAX, weigh=lambda one: one.chars)

    def used(self, text: str, *, after: int, own: str = "") -> int:
        """Return how many words of *text* the assistant used after message *after*, but for those of *own*."""
        words, mine, said = different_words(text), different_words(own), self.said
        later = [word for word in words if word in said and said[word] > after and word not in mine]
        used = sum([_is_name(word) and self.often[word] <= COMMON_RESULTS * 2 for word in later])
        if used or not self.rules_3:
            return used
        return int(any(word not in mine for word in self.linked.intersection(words)))

    def is_linked(self, text: str) -> bool:
        """Tell whether *text*, an outcome, has an id that another tool returned too."""
        return not self.linked.isdisjoint(different_words(text))

    def unframed(self, text: str, *, own: str = "") -> str:
        """Return *text* without the lines it begins with that frame every result, or only repeat its call *own*."""
        mine = different_words(own)
        arguments = "".join(own.split())
        rest = text.lstrip("\n")
        for place in range(FRAME_LINES_MAX):
            first, _, below = rest.partition("\n")
            words = words_of(first)
            whole = len(arguments) > ECHO_CHARS_MIN and arguments in "".join(first.split())
            echoes = whole or (len(words) > 3 and sum(word in mine for word in words) >= ECHO_SHARE * len(words))
            is_title = first.rstrip().endswith(":") and _frame(first, mine) in self.frames
            # below a frame a command that is said again, and nothing else, is one too
            is_again = (
                place > 0 and len(first) > ECHO_CHARS_MIN and json.dumps(first.strip(), ensure_ascii=False) in own
            )
            if self.rules_3 and not below.strip() and (is_title or is_again):
                return ""
            # two commands may fail in the same words
            fails = self.rules_3 and (FAILS.search(first) or _RAISES.search(first))
            frames = _frame(first, mine) in self.frames and not fails
            if not below.strip() or not (echoes or frames or not first.strip()):
                break
            rest = below
        return rest

    def without_end(self, text: str) -> str:
        """Return *text* without the lines with which every result ends; one that is nothing else stays.

        What only says that a program runs is left out in any case.
        """
        if self.rules_3 and is_idle(text):
            return ""
        for line in last_lines(text, states=self.rules_3):
            above = text.rstrip().removesuffix(line).rstrip()
            says_nothing = self.rules_3 and (is_prompt(line) or is_idle(line))
            if not above or not (says_nothing or _ending(line) in self.ends):
                break
            text = above
        return text


class Often(dict[str, int]):
    """In how many results each word stands, counted when it is first asked for: of most words nobody asks."""

    def __init__(self, results: Sequence[frozenset[str]]) -> None:
        super().__init__()
        self._results = results

    def __missing__(self, word: str) -> int:
        self[word] = times = sum([word in words for words in self._results])
        return times


class _Worths(dict[str, float]):
    """What words are worth; each is weighed when it is first asked for."""

    def __init__(self, weigh: Callable[[str], float]) -> None:
        super().__init__()
        self._weigh = weigh

    def __missing__(self, word: str) -> float:
        self[word] = worth = self._weigh(word)
        return worth


def _asked_worth(word: str, asked: frozenset[str], linked: frozenset[str], often: Often) -> float:
    """Return the worth of a word that was not used since."""
    was_asked = word in asked or ("_" in word and not asked.isdisjoint(word.split("_")))
    worth = max(ASKED if was_asked else 0.0, LINKED if word in linked else 0.0)
    return worth and worth * _rare(word, often)


def _rare(word: str, often: Often) -> float:
    """Return how well a word tells results apart."""
    if (len(word) < 3 and not word.isdecimal()) or word in _STOP:
        return 0.0
    times = often[word]
    return COMMON_RESULTS / times if times > COMMON_RESULTS else 1.0


def _is_frame(words: str, times: int, all_min: int) -> bool:
    """Tell whether a line of these *words* says nothing where so many results begin with it."""
    if words.count(" ") >= FRAME_SPACES_MIN:
        return times >= FRAME_RESULTS_MIN
    return words.endswith(":") and times >= min(TITLE_RESULTS_MIN, all_min) and not TELLS.search(words)


def _frame(line: str, own: frozenset[str]) -> str:
    """Return the words of a line that are not its call's own: alike in every result, if a tool frames them so.

    One or two words with a colon behind them keep it.
    """
    words = [word for word in words_of(line[:FRAME_LINE_CHARS_MAX]) if word not in own]
    title = 0 < len(words) <= FRAME_SPACES_MIN and line.rstrip().endswith(":")
    return f"{' '.join(words)}:" if title else " ".join(words)


def _ending(line: str) -> str:
    """Return the words that a last line is known by, or of a state its name."""
    return state_in(line) or _frame(line, frozenset())


def _is_name(word: str) -> bool:
    """Tell a name or a number from a word of the language."""
    return len(word) > LONG_CHARS or any(mark in "0123456789_./-" for mark in word)


def _overtaken(live: Iterable[Entry]) -> frozenset[int]:
    """Return the numbers of the notices in *live* of which a newer one tells the same, but for figures."""
    told = [(entry.number, alike(text_of(shown_message(entry)))) for entry in live if entry.notice]
    newest = {key: number for number, key in told if any(key)}
    return frozenset(number for number, key in told if any(key) and number < newest[key])
