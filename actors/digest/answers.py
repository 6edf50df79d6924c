"""Answers: what a short word of the user's answers. A `Yes` alone says nothing once the question is gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from actors.core.entry import Entry
from actors.core.message_texts import redacted_texts, without_lead
from actors.core.text.cline import as_speech
from actors.core.text.gaps import GAP, with_gaps_once
from actors.core.text.sentences import sentences_of
from actors.core.units import speaks
from protocol.formats.messages import INSTRUCTION_ROLES

from .clips import one_line
from .pieces import FENCED
from .step_rooms import room_in

ANSWER_CHARS_MAX = 60
"""Who says more says what it is about."""

QUESTION_CHARS, READ_CHARS = 280, 4_000
"""Of what the assistant asked, from its end: a question often stands below what it is about; and of the message that
is looked at for it."""

ASKED_LAST = 2
"""So many sentences from its end a message asks something; what it asked before, it answered itself."""

WORD_CHARS_MAX = 24
"""So far is looked for the end of a word where a question, or a request, is parted."""

ENDING_CHARS = 64
"""Of a text, in which it is looked for how it ends."""

_ASKS = re.compile(r"[?？][^\w`]*\Z|(?:か|ください|吗|呢|怎么样|如何)[。！]?\Z")
_OPTION = re.compile(r"(?:[-*•+]|\d{1,2}[.)]) ")
OPTIONS_MAX = 9
"""Lines of a list behind a question: what one may choose from."""


def asks(text: str) -> bool:
    """Tell whether *text* ends as a question does."""
    return bool(_ASKS.search(text.rstrip()[-ENDING_CHARS:]))


def questions_before(live: Iterable[Entry]) -> Iterator[tuple[int, int, str]]:
    """Yield the number of each short answer in *live*, that of the message that it answers, and the question.

    Only instructions may stand between both.
    """
    before: Entry | None = None
    following = 0
    for entry in live:
        if before is not None and entry.number == following and (question := question_before(entry, before)):
            yield entry.number, before.number, question
        if entry.role in INSTRUCTION_ROLES and entry.number == following:
            following += 1
        else:
            before, following = entry, entry.number + 1


def question_before(answer: Entry, before: Entry) -> str:
    """Return the assistant's question in *before*, on one line, that a user's short *answer* is for, or nothing."""
    if before.role != "assistant" or before.call_ids or not speaks(answer):
        return ""
    said = _said(answer)
    if not said or len(said) > room_in(said, ANSWER_CHARS_MAX) or asks(said):
        return ""
    sentences = _sentences(before)
    end = len(sentences)
    # of several questions each is an item, too
    while (
        end
        and len(sentences) - end < OPTIONS_MAX
        and _OPTION.match(sentences[end - 1])
        and not asks(sentences[end - 1])
    ):
        end -= 1
    last = next((place for place in range(end - 1, max(-1, end - 1 - ASKED_LAST), -1) if asks(sentences[place])), None)
    if last is None:
        return ""
    options = sentences[end:] if last == end - 1 else []
    return _told(sentences[:last], " ".join([sentences[last], *options]))


def _sentences(before: Entry) -> list[str]:
    """Return the sentences at the end of what the assistant said, each on one line, without programs."""
    said = FENCED.sub(f" {GAP} ", without_lead(as_speech(_said(before))))
    sentences = [told for one in sentences_of(said[-READ_CHARS:]) if (told := one_line(one))]
    # the first may begin in its middle
    return sentences[1:] if len(said) > READ_CHARS and len(sentences) > 1 else sentences


def _told(sentences: list[str], question: str) -> str:
    """Return the *question*, and the *sentences* before it, as many as have room."""
    room = room_in(question, QUESTION_CHARS)
    if len(question) > room:
        end = question[-room:]
        return f"{GAP} {end[end.find(' ', 0, WORD_CHARS_MAX) + 1 :]}"
    first, room = len(sentences), room - len(question)
    while first and len(sentences[first - 1]) < room:
        first -= 1
        room -= len(sentences[first]) + 1
    told = with_gaps_once(" ".join([*sentences[first:], question]))
    return f"{GAP} {told}" if first and not told.startswith(GAP) else told


def _said(entry: Entry) -> str:
    return "\n".join(part.text.strip() for part in redacted_texts((entry,)) if part.trust != "tool").strip()
