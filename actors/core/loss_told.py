"""Loss of what was told: of the steps and the sentences that a compaction touched, how many a view still tells.

A *step* is a call of the assistant with its outcome. It is retained where the call stands in the view, or in a step
of the account that tells it alone; several joined into one are recoverable, since that one names their messages. A
*sentence* is one that a user or the assistant said; it is retained where it stands word for word beside its own number.
Nothing is looked for in the whole view: only in what stands for the message itself, so that the work is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from protocol.account import Account, AccountStep
from protocol.facts import Fate

from .account_text import FORM, JOINED_LEVEL
from .entry import Entry
from .message_texts import texts_of
from .request_marks import own_words
from .state_parts import Digest
from .text.recent import Recent

STEP, SENTENCE = "step", "sentence"
TOLD: tuple[str, ...] = (STEP, SENTENCE)
"""Categories of what is told; the others are of values."""

SENTENCE_BYTES_MIN = 12
"""Of what counts as one: twelve letters, or four signs of a script that needs few."""

_PARTED = re.compile(r"(?<=[.!?])\s+|\n|(?<=[。！？])")

ASKED_CHARS_MAX = 400_000
"""Of requests whose sentences stay in memory, and as many before them: those of two full accounts."""

_of_requests: Recent[str, tuple[str, list[str]]] = Recent(ASKED_CHARS_MAX, weigh=lambda found: 2 * len(found[0]))

Reach = Callable[[int], bool]
"""Tells whether a view says how to read a message in full."""


def told_fates(
    changed: Sequence[Entry], staying: Iterable[Entry], *, before: Digest | None, after: Digest | None, reach: Reach
) -> tuple[Fate, ...]:
    """Return the fates of the steps and the sentences in *changed*, and in the steps of *before* that changed."""
    now = {entry.number: entry for entry in staying}
    place = _Place(after)
    was = _changed_account(before, after)
    counted = (
        _fate(STEP, [*_calls(changed, now, place), *_steps(was, place)], reach),
        _fate(SENTENCE, [*_sentences(changed, now, place), *_said(was, place)], reach),
    )
    return tuple(fate for fate in counted if fate.retained or fate.recoverable or fate.lost)


def sentences_of(text: str) -> list[str]:
    """Return the sentences of *text*, each on one line; what is shorter than a sentence is none."""
    flat = (" ".join(one.split()) for one in _PARTED.split(text))
    return [one for one in flat if len(one) >= SENTENCE_BYTES_MIN or len(one.encode()) >= SENTENCE_BYTES_MIN]


class _Place:
    """Where a digest tells of a message: the step that covers it, and what is said there."""

    def __init__(self, digest: Digest | None) -> None:
        account = digest.account if digest is not None else None
        self.steps = account.steps if account is not None else ()
        self._firsts = [step.first for step in self.steps]
        asked = [_asked(_own(one.text, digest)) for one in account.requests] if account is not None else []
        self._requests = " ".join([flat for flat, _ in asked if flat])
        self._asked = frozenset(chain.from_iterable([sentences for _, sentences in asked]))
        # a list of values and an LLM's prose name no messages: they are looked into as a whole
        self._whole = _flat(digest.prose if account is not None else digest.text) if digest is not None else ""
        self._said: dict[int, str] = {}

    def step(self, number: int) -> AccountStep | None:
        """Return the step that tells of message *number*."""
        at = bisect_right(self._firsts, number) - 1
        return self.steps[at] if at >= 0 and number <= self.steps[at].last else None

    def tells(self, number: int) -> bool:
        """Tell whether a step tells of message *number* alone."""
        step = self.step(number)
        return step is not None and step.level < JOINED_LEVEL

    def says(self, number: int, sentence: str) -> bool:
        """Tell whether *sentence* of message *number* stands where the digest tells of it."""
        if number not in self._said:
            step = self.step(number)
            self._said[number] = _flat(step.said) if step is not None else ""
        if sentence in self._said[number] or sentence in self._asked:
            return True
        # what a user said is long, and most that stands in it stands there as a sentence
        return sentence in self._requests or bool(self._whole and sentence in self._whole)


def _flat(text: str) -> str:
    return " ".join(text.split())


def _asked(text: str) -> tuple[str, list[str]]:
    """Return a user's words on one line, and their sentences: each compaction asks for those of all requests."""
    return _of_requests.found(text, lambda text: (_flat(text), sentences_of(text)))


def _fate(category: str, judged: Iterable[tuple[int, bool]], reach: Reach) -> Fate:
    retained = recoverable = lost = 0
    known: dict[int, bool] = {}
    for number, stands in judged:
        if stands:
            retained += 1
            continue
        if number not in known:
            known[number] = reach(number)
        recoverable += known[number]
        lost += not known[number]
    return Fate(category=category, retained=retained, recoverable=recoverable, lost=lost)


def _calls(changed: Sequence[Entry], now: dict[int, Entry], place: _Place) -> Iterator[tuple[int, bool]]:
    """Yield the message of each call in *changed*, or of a result whose call stays, and whether it is still told."""
    calls: dict[str, int] = {}
    for entry in changed:
        calls |= dict.fromkeys(entry.call_ids, entry.number)
        for result in entry.results:
            calls.setdefault(result.call, entry.number)
    for number in calls.values():
        yield number, number in now or place.tells(number)


def _sentences(changed: Sequence[Entry], now: dict[int, Entry], place: _Place) -> Iterator[tuple[int, bool]]:
    """Yield the message of each sentence in *changed*, and whether it still stands."""
    for entry in changed:
        if entry.role == "tool" or entry.observed:
            continue
        stays = now.get(entry.number)
        there = _flat("\n".join(part.text for part in texts_of((stays,)))) if stays is not None else ""
        for part in texts_of((entry,)):
            if part.trust == "tool" or part.tool or part.instructs:
                continue
            for sentence in sentences_of(part.text):
                yield entry.number, sentence in there if stays is not None else place.says(entry.number, sentence)


def _changed_account(before: Digest | None, after: Digest | None) -> Account:
    """Return those steps and requests of *before* that *after* does not have as they are."""
    was = before.account if before is not None else None
    if was is None:
        return Account()
    now = after.account if after is not None else None
    steps = frozenset(now.steps) if now is not None else frozenset[AccountStep]()
    requests = frozenset(one.text for one in now.requests) if now is not None else frozenset[str]()
    return Account(
        requests=tuple(
            msgspec.structs.replace(one, text=_own(one.text, before))
            for one in was.requests
            if one.text not in requests
        ),
        steps=tuple(step for step in was.steps if step not in steps),
    )


def _own(text: str, told: Digest | None) -> str:
    """Return the user's own words in *text*: the question before them, which form 3 tells, is the assistant's."""
    return own_words(text) if told is not None and told.form >= FORM else text


def _steps(was: Account, place: _Place) -> Iterator[tuple[int, bool]]:
    """Yield the message of each call that *was* told alone, and whether it still is."""
    for step in was.steps:
        if step.level < JOINED_LEVEL:
            yield from [(step.first, place.tells(step.first))] * len(step.acts)


def _said(was: Account, place: _Place) -> Iterator[tuple[int, bool]]:
    """Yield the message of each sentence of *was*, and whether it still stands; a mark of ours is none."""
    said = [(step.first, step.said) for step in was.steps] + [(one.number, one.text) for one in was.requests]
    for number, text in said:
        for sentence in sentences_of(text):
            if not (sentence.startswith("[") and sentence.endswith("]")):
                yield number, place.says(number, sentence)
