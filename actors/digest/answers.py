"""Answers: what a short word of the user's answers. A `Yes` alone says nothing once the question is gone."""

from __future__ import annotations

import re

from actors.core.entry import Entry
from actors.core.message_texts import redacted_texts
from actors.core.text.gaps import GAP

from .calls import one_line
from .shorter_requests import sentences_of
from .step_rooms import room_in

ANSWER_CHARS_MAX = 60
"""Who says more says what it is about."""

QUESTION_CHARS = 280
"""Of what the assistant asked, from its end: a question often stands below what it is about."""

PROPOSAL_CHARS_MIN = 60
"""A shorter question proposes nothing that an answer would make a decision."""

_ANSWERING = re.compile(r'\(asked "(.*)"\) ')
_ASKS = re.compile(r"[?？]\W*\Z|(?:か|ますか|ですか|ください|吗|呢|怎么样|如何)[。！]?\Z")


def asks(text: str) -> bool:
    """Tell whether *text* ends as a question does."""
    return bool(_ASKS.search(text.strip()))


def question_before(answer: Entry, before: Entry | None) -> str:
    """Return the assistant's question, on one line, that a user's short *answer* is for; an empty text for others.

    *before* is the message before it, where that is known.
    """
    if before is None or before.role != "assistant" or before.call_ids or answer.role != "user":
        return ""
    said = _said(answer)
    if not said or len(said) > room_in(said, ANSWER_CHARS_MAX) or asks(said):
        return ""
    sentences = [one_line(one) for one in sentences_of(_said(before))]
    last = next((place for place in range(len(sentences) - 1, -1, -1) if asks(sentences[place])), None)
    if last is None:
        return ""
    first, room = last, room_in(sentences[last], QUESTION_CHARS) - len(sentences[last])
    if room < 0:
        return f"{GAP} {sentences[last][-QUESTION_CHARS:].split(' ', 1)[-1]}"
    while first and len(sentences[first - 1]) < room:
        first -= 1
        room -= len(sentences[first]) + 1
    told = " ".join(filter(None, sentences[first : last + 1]))
    return f"{GAP} {told}" if first else told


def answering(text: str, question: str) -> str:
    """Return *text* with the *question* that it answers before it, where there is one."""
    return f'(asked "{question}") {text}' if question else text


def question_in(text: str) -> str:
    """Return the question that `answering` put before *text*; an empty text where there is none."""
    found = _ANSWERING.match(text)
    return found.group(1) if found else ""


def without_small_question(text: str) -> str:
    """Return *text* without the question before it, unless that is long enough to propose something."""
    question = question_in(text)
    if not question or len(question) >= room_in(question, PROPOSAL_CHARS_MIN):
        return text
    return text.removeprefix(answering("", question))


def _said(entry: Entry) -> str:
    return "\n".join(part.text.strip() for part in redacted_texts((entry,)) if part.trust != "tool").strip()
