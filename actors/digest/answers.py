"""Answers: what a short word of the user's answers. A `Yes` alone says nothing once the question is gone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from actors.core.entry import Entry
from actors.core.message_texts import redacted_texts
from actors.core.text.gaps import GAP

from .calls import one_line
from .shorter_requests import sentences_of
from .step_rooms import room_in

ANSWER_CHARS_MAX = 60
"""Who says more says what it is about."""

QUESTION_CHARS, READ_CHARS = 280, 4_000
"""Of what the assistant asked, from its end: a question often stands below what it is about; and of the message that
is looked at for it."""

ASKED_LAST = 2
"""So many sentences from its end a message asks something; what it asked before, it answered itself."""

ENDING_CHARS = 64
"""Of a text, in which it is looked for how it ends."""

_ASKS = re.compile(r"[?？][\s\"'”»）)*_]*\Z|(?:か|ください|吗|呢|怎么样|如何)[。！]?\Z")
_PROGRAM = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


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
        if entry.role == "system" and entry.number == following:
            following += 1
        else:
            before, following = entry, entry.number + 1


def question_before(answer: Entry, before: Entry) -> str:
    """Return the assistant's question in *before*, on one line, that a user's short *answer* is for, or nothing."""
    if before.role != "assistant" or before.call_ids or answer.role != "user":
        return ""
    said = _said(answer)
    if not said or len(said) > room_in(said, ANSWER_CHARS_MAX) or asks(said):
        return ""
    end = _said(before)[-READ_CHARS:]
    sentences = [one_line(one) for one in sentences_of(_PROGRAM.sub(GAP, end))]
    last = next((place for place in _from_end(sentences) if asks(sentences[place])), None)
    return _told(sentences[: last + 1]) if last is not None else ""


def _from_end(sentences: list[str]) -> range:
    return range(len(sentences) - 1, max(-1, len(sentences) - 1 - ASKED_LAST), -1)


def _told(sentences: list[str]) -> str:
    """Return the last of *sentences*, and those before it, as many as have room."""
    question = sentences[-1]
    room = room_in(question, QUESTION_CHARS)
    if len(question) > room:
        return f"{GAP} {question[-room:].split(' ', 1)[-1]}"
    first, room = len(sentences) - 1, room - len(question)
    while first and len(sentences[first - 1]) < room:
        first -= 1
        room -= len(sentences[first]) + 1
    told = " ".join(filter(None, sentences[first:]))
    return f"{GAP} {told}" if first else told


def _said(entry: Entry) -> str:
    return "\n".join(part.text.strip() for part in redacted_texts((entry,)) if part.trust != "tool").strip()
