"""Relayed words: what a user says in the result of a tool: why a call is refused, or answers to what was asked.

Source: Claude Code and OpenCode (refusals, `AskUserQuestion`, `question`), mini-swe-agent (`agents/interactive.py`),
Cline (`ask_followup_question`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from actors.core.message_texts import MessageText, opened_text
from actors.core.request_marks import as_said, with_question
from actors.core.text.error_text import error_text

from .calls import arguments_of, clipped, one_line

QUESTION_CHARS, CALL_CHARS = 200, 120
"""Of each question, and of a call that was refused."""

ANSWER_CHARS_MAX = 4_000
"""A longer answer to a tool that asks is no person's, but what a program made of it."""

_REFUSAL = re.compile(
    r"\s*(?:The user doesn't want to (?:proceed with this tool use|take this action right now)\.[^\n]{0,300}?"
    r"(?:The user provided the following reason for the rejection:|To tell you how to proceed, the user said:)"
    r"|Command not executed\. The user rejected your command with the following message:"
    r"|The user rejected permission to use this specific tool call with the following feedback:)\s*(?P<said>.*)",
    re.DOTALL,
)
_NOTE = re.compile(r"\n\nNote: The user's next message may contain a correction[^\n]*\s*\Z")
_ANSWERS = re.compile(
    r'\s*User has answered your questions: "(?P<pairs>.*)"\. You can now continue with the user\'s answers in mind\.'
    r"\s*",
    re.DOTALL,
)
_ASKS = re.compile(
    r"(?i)AskUserQuestion|question|ask_?(?:the_?)?(?:user|human|followup)(?:_\w{1,20})?"
    r"|(?:request|get)_?(?:user|human)_?(?:input|answer|response|feedback)"
)
"""The name of a tool that asks a person."""

_ELEMENT = re.compile(r"\s*<(answer|feedback|user_message)>(?P<said>.*)</\1>\s*", re.DOTALL)
_QUESTION_KEYS = ("question", "prompt", "message", "text", "query", "questions")


class Relayed(NamedTuple):
    """What a user says in the result of *call*, in message *number*, behind what it answers."""

    number: int
    call: str
    text: str
    refused: bool

    @property
    def outcome(self) -> str:
        """Return the outcome of the call, which tells nothing that the user's words do not."""
        return f"{'refused' if self.refused else 'answered'} by the user, see #{self.number} above"


def relayed(parts: Iterable[MessageText]) -> Iterator[Relayed]:
    """Yield the words that users say in the results among *parts*, whose calls stand before them."""
    calls: dict[str, MessageText] = {}
    for part in parts:
        if part.tool:
            calls[part.call] = part
        elif part.trust == "tool" and (call := calls.get(part.call)) is not None:
            text = opened_text(part)
            refused = _REFUSAL.fullmatch(text)
            said = _reason(refused["said"], call) if refused else _answer(text, call)
            if said:
                yield Relayed(part.number, part.call, said, refused is not None)


def is_relayed(text: str, tool: str) -> bool:
    """Tell whether a user speaks in *text*, the result of a call of *tool*."""
    return bool(_REFUSAL.fullmatch(text) or _ANSWERS.fullmatch(text) or _asks(tool, text))


def _reason(said: str, call: MessageText) -> str:
    reason = as_said(_NOTE.sub("", said))
    head = clipped(one_line(f"{call.tool} {_told(call)}".strip()), CALL_CHARS)
    return with_question(f"[refused] {reason}", f"to run {head}") if reason else ""


def _answer(text: str, call: MessageText) -> str:
    if answered := _ANSWERS.fullmatch(text):
        return "\n".join(with_question(as_said(said), question) for question, said in _pairs(answered["pairs"]))
    if not _asks(call.tool, text):
        return ""
    element = _ELEMENT.fullmatch(text)
    said = as_said(element["said"] if element else text)
    return with_question(said, clipped(one_line(_told(call)), QUESTION_CHARS)) if said else ""


def _asks(tool: str, answer: str) -> bool:
    return bool(_ASKS.fullmatch(tool)) and len(answer) <= ANSWER_CHARS_MAX and not error_text(answer)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield each question and its answer; both are in quotes, with any quotes in them."""
    question, *rest = text.split('"="')
    for place, part in enumerate(rest):
        said, _, following = part.rpartition(', "') if place < len(rest) - 1 else (part, "", "")
        yield clipped(one_line(question), QUESTION_CHARS), said.removesuffix('"')
        question = following


def _told(call: MessageText) -> str:
    """Return the argument of *call* that says what is asked, or the first that is a text."""
    arguments = arguments_of(call)
    texts = {key: value for key, value in arguments.items() if isinstance(value, str) and value.strip()}
    return next((texts[key] for key in _QUESTION_KEYS if key in texts), next(iter(texts.values()), ""))
