"""Answer checks: what of a model's text is its answer, and what disqualifies it before anything else is looked at."""

from __future__ import annotations

import re2

from protocol.formats import messages

_TAGS = "think|thinking|analysis|reasoning"
_CLOSED = tuple(re2.compile(rf"(?is)<{tag}>.*?</{tag}>") for tag in _TAGS.split("|"))
_OPEN = re2.compile(rf"(?is)<(?:{_TAGS})>.*\z")
_BEFORE = re2.compile(rf"(?is)\A.*</(?:{_TAGS})>")
_SUMMARY = re2.compile(r"(?is)<summary>(.*?)(?:</summary>|\z)")

ECHO_CHARS_MIN = 200
"""A shorter answer that stands in the input word for word is a good one, not an echo."""

PROMPT_CHARS = 60
"""So much of an instruction, word for word, is no summary of anything."""

TOKEN_CHARS_MAX = 32
"""No text has more on average; what does is not worth being counted."""

LOOP_WORDS_MIN = 60
LOOP_SHARE = 0.3
"""Of its groups of four words, so many are different in any text that says something."""


def cleaned(text: str) -> str:
    """Return the answer in *text*: without private analysis, out of its summary tags if it has them."""
    said = messages.without_surrogates(text)
    for closed in _CLOSED:
        said = closed.sub("", said)
    inside = [found.group(1).strip() for found in _SUMMARY.finditer(said)]
    # some chat templates open the analysis for the model, so that only its end is in the answer
    said = _BEFORE.sub("", inside[-1] if inside else said)
    return str(_OPEN.sub("", said)).strip()


def flaw(answer: str, *, finish_reason: str, tool_calls: bool, tokens_max: int) -> str:
    """Return why a cleaned *answer* is none, or an empty text."""
    if tool_calls:
        return "the model called a tool instead of answering"
    if finish_reason != "stop":
        return f"the answer is not complete: finish reason {finish_reason!r:.40}"
    if not answer:
        return "the answer is empty"
    if len(answer) > tokens_max * TOKEN_CHARS_MAX:
        return f"the answer is longer than was asked for: {len(answer)} characters"
    if _loops(answer):
        return "the answer repeats itself"
    return ""


def echo(answer: str, *, prompt: str, history: str, fence: str) -> str:
    """Return why *answer* says again what it was given, or an empty text."""
    if fence in answer:
        return "the answer repeats the frame of its input"
    said = " ".join(answer.split())
    if any(said.find(prompt[at : at + PROMPT_CHARS]) >= 0 for at in range(0, len(prompt) - PROMPT_CHARS, PROMPT_CHARS)):
        return "the answer repeats its instructions"
    if len(said) < ECHO_CHARS_MIN:
        return ""
    given = " ".join(history.split())
    quarter = len(said) // 4
    if sum(said[at * quarter : (at + 1) * quarter] in given for at in range(4)) >= 3:
        return "the answer is a copy of its input"
    return ""


def _loops(answer: str) -> bool:
    found = answer.split()
    if len(found) < LOOP_WORDS_MIN:
        return False
    groups = len(found) - 3
    return len({tuple(found[at : at + 4]) for at in range(groups)}) < groups * LOOP_SHARE
