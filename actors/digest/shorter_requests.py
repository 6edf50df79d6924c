"""Shorter requests: which sentences of what a user said stay, where not all have room."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import groupby

from actors.core.text.gaps import GAP
from actors.core.text.phrases import names_rule, tells
from actors.core.text.recent import Recent
from actors.core.text.sentences import is_ended, sentences_of

END_SHARE = 0.2
"""Of the room, for the end, which says what is wanted now; many begin with small talk."""

SIGNATURE_CHARS, SIGNATURE_LINES = 60, 3
"""At the end of a letter, with who wrote it: what is wanted stands nowhere near. It has so many lines, or one less
where quotes or dashes close it."""

SENTENCES_MIN = 4
"""Fewer are no speech, or have no sentence to spare."""

SPEECH_SHARE = 0.5
"""Of the sentences, that end as one does. A log or a program has fewer, and its lines say nothing alone."""

NAME_CHARS_MAX, NAMES_SHARE_MAX = 40, 0.6
"""A shorter line without an end is a name, a greeting or a title; of the lines of a letter no more are."""

SIGNS_SHARE_MAX = 0.03
"""Of the characters, that are signs of programs and logs."""

PASTED_WORTH, TOLD_WORTH, FIGURE_WORTH, FIGURES_MAX = -0.5, 2.0, 0.8, 3
"""Of a line that was quoted, of a rule, a decision, an outcome or a reason in a sentence, and of each figure or name in
quotes, so many at most."""

TAKEN_UP_WORTH, TAKEN_UP_MAX = 0.8, 4
"""Of each name or figure that the assistant said later, so many at most."""

SHORT_CHARS = 40
"""Beside the characters of a sentence: what it costs to tell it, as its square root."""

WEIGHED_CHARS_MAX = 400_000
"""Of sentences whose worth is known, and as many before them: those of two full accounts."""

ENTRY_CHARS = 100
"""What is kept of each beside its text."""

_own_worths: Recent[str, tuple[float, int]] = Recent(WEIGHED_CHARS_MAX, weigh=lambda found: found[1] + ENTRY_CHARS)
"""By its text, what a sentence tells by its words, and its characters."""

_speech: Recent[str, tuple[list[str], int]] = Recent(
    WEIGHED_CHARS_MAX, weigh=lambda found: found[1] + ENTRY_CHARS * (1 + len(found[0]))
)
"""By the text of a request: its sentences, and its characters. What has no room is asked in each compaction again."""

_SIGN = re.compile(r"[{}\[\]=<\\_;$#]")
_FIGURE = re.compile(r"\d[\d.,:/-]*|[「『“”\"`„][^」』“”\"`]{2,40}[」』“”\"`]")
_CLOSES = re.compile(r"\A[-=_*~]{2,}\Z|[“”»\"]\Z")
"""How what was pasted ends."""

_WORD = re.compile(r"\w")
_QUOTED = re.compile(r"\s*(?:>|\|)")


def not_used(text: str, *, after: int) -> int:
    """Tell that nothing of *text* was said again."""
    del text, after
    return 0


def with_fewer_sentences(
    text: str, chars: int, taken_up: Callable[[str], int], *, again: bool = False
) -> tuple[list[str], list[int]]:
    """Return the runs of sentences of *text* that stay in about *chars* characters, and the characters left out
    behind each; no runs where *text* is no speech. The first is empty where its beginning is left out.
    *taken_up* tells how many names and figures of a sentence were said later; *again*: sentences were left out before.
    """
    sentences, _ = _speech.found(text, lambda text: (_speech_in(text), len(text)))
    least = 2 if again else SENTENCES_MIN
    if len(sentences) < least or len(sentences[-1]) > chars:
        return [], []
    kept = _kept(sentences, chars, taken_up)
    if len(kept) == 1:
        return [], []
    runs: list[str] = []
    gone: list[int] = []
    for stays, places in groupby(range(len(sentences)), key=kept.__contains__):
        run = "".join([sentences[place] for place in places])
        if stays or not runs:
            runs.append(run if stays else "")
            gone.append(0)
        if not stays:
            gone[-1] = len(run)
    return runs, gone


def _speech_in(text: str) -> list[str]:
    """Return the sentences of *text*, none of what is no speech."""
    sentences = sentences_of(text)
    return sentences if _is_speech(sentences) else []


def _is_speech(sentences: list[str]) -> bool:
    """Tell what somebody wrote from a log or a program.

    How a letter greets, and who signs it, speaks for neither. Where such lines are most of it, it is a list.
    """
    ended = [is_ended(sentence) for sentence in sentences]
    names = sum(not end and len(sentence) < NAME_CHARS_MAX for end, sentence in zip(ended, sentences, strict=True))
    if names > len(sentences) * NAMES_SHARE_MAX or any("```" in sentence for sentence in sentences):
        names = 0
    signs = sum(len(_SIGN.findall(sentence)) for sentence in sentences)
    counted = max(1, len(sentences) - names)
    return sum(ended) >= counted * SPEECH_SHARE and signs <= sum(map(len, sentences)) * SIGNS_SHARE_MAX


def _kept(sentences: list[str], chars: int, taken_up: Callable[[str], int]) -> set[int]:
    """Return the places of those that stay: the end, then those that tell most for their length."""
    last = len(sentences) - 1
    kept, left = {last}, chars - len(sentences[last])
    is_signed = _is_signature(sentences)
    end = (min(SIGNATURE_CHARS, int(chars * END_SHARE)) if is_signed else int(chars * END_SHARE)) - len(sentences[last])
    for place in range(last - 1, -1, -1):
        if (end := end - len(sentences[place])) < 0 or (is_signed and is_ended(sentences[place])):
            break
        kept.add(place)
        left -= len(sentences[place])
    worths = [_density(sentence, taken_up(sentence)) for sentence in sentences]
    for place in sorted(range(last), key=lambda place: (-worths[place], place)):
        cost = len(sentences[place]) + len(GAP)
        if place not in kept and cost <= left and _WORD.search(sentences[place]):
            kept.add(place)
            left -= cost
    return kept


def _is_signature(sentences: list[str]) -> bool:
    """Tell whether names close what was pasted, as below a letter; all else that is short says what is wanted."""
    names = 0
    is_closed = bool(_CLOSES.search(sentences[-1].strip()))
    for sentence in reversed(sentences[-SIGNATURE_LINES : len(sentences) - is_closed]):
        line = sentence.strip()
        if line and (is_ended(line) or len(line) >= NAME_CHARS_MAX or not _is_name(line.split())):
            break
        names += bool(line)
    return names >= SIGNATURE_LINES - is_closed


def _is_name(words: list[str]) -> bool:
    """Tell whether *words* begin with capital letters, but for those of three letters, as in `Clerk of the Town`."""
    return words[0][:1].isupper() and all(word[:1].isupper() or len(word) <= 3 for word in words)


def _density(sentence: str, taken_up: int) -> float:
    """Return what *sentence* tells for its length, of which *taken_up* names and figures were said later."""
    worth = TAKEN_UP_WORTH * min(TAKEN_UP_MAX, taken_up)
    # a sentence that stays is weighed in each compaction again
    worth += _own_worths.found(sentence, lambda text: (_own_worth(text), len(text)))[0]
    return worth / math.sqrt(SHORT_CHARS + len(sentence))


def _own_worth(sentence: str) -> float:
    """Return what *sentence* tells by its words."""
    worth = TOLD_WORTH * (tells(sentence) + names_rule(sentence))
    worth += FIGURE_WORTH * min(FIGURES_MAX, len(_FIGURE.findall(sentence)))
    return worth + PASTED_WORTH * bool(_QUOTED.match(sentence))
