"""Relayed words: what a user says in the result of a tool: why a call is refused, or answers to what was asked.

Source: Claude Code, OpenCode, mini-swe-agent, Cline, Roo Code, Kilo Code, Gemini CLI, Letta, Amp, as recorded or from
their code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from actors.core.message_texts import MessageText, opened_text
from actors.core.request_marks import as_said, with_question
from actors.core.text.error_text import error_text
from actors.core.text.spoken import SENT_FRAME

from .calls import arguments_of, clipped, one_line

QUESTION_CHARS, CALL_CHARS = 200, 120
"""Of each question, and of a call that was refused."""

ANSWER_CHARS_MAX = 4_000
"""A longer answer to a tool that asks is no person's, but what a program made of it."""

_REFUSALS = tuple(
    re.compile(rf"\s*(?:{form})", re.DOTALL)
    for form in (
        r"(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
        r"|Permission for this tool use was denied)\.[^\n]{0,300}?(?:The user provided the following reason for the "
        r"rejection|To tell you how to proceed, the user said|The user said):\s*"
        r"(?P<said>(?!The user wants to clarify these questions).*)",
        r"Commands? not executed\. The user rejected your commands? with the following message:\s*(?P<said>.*)",
        r"The user rejected permission to use this specific tool call with the following feedback:\s*(?P<said>.*)",
        r"The user denied this (?:operation|edit)\b[^\n]{0,160}feedback:\s*<feedback>(?P<said>.*?)</feedback>.*",
        r"Plan rejected\. User feedback:\s*(?P<said>.*?)\n\nThe plan is stored at: .*",
        r"(?:Error: )?request to call tool denied\. User reason:\s*(?P<said>.*)",
        r"This tool call was rejected by the user with feedback:\s*(?P<said>.*)",
        r'\{"status": ?"denied",.*"feedback": ?"(?P<said>(?:[^"\\]|\\.)*)"\}\s*',
    )
)
_REMARKS = tuple(
    re.compile(rf"\s*(?:{form})\s*", re.DOTALL)
    for form in (
        r"The user approved this operation and provided the following context:\s*<feedback>(?P<said>.*?)</feedback>.*",
        r'\{"status": ?"approved",.*"feedback": ?"(?P<said>(?:[^"\\]|\\.)*)"\}',
        r"<user_message>(?P<said>.*)</user_message>",
        SENT_FRAME,
    )
)
"""What somebody said with an approval, or of what was done."""

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

UNANSWERED, _SKIPPED = "Unanswered", re.compile(r"(?i)\buser (?:skipped|cancelled|canceled|dismissed|declined)\b")
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
            refused = _first_of(_REFUSALS, text)
            said = _reason(refused, call) if refused else _answer(text, call)
            if said:
                yield Relayed(part.number, part.call, said, bool(refused))


def said_beside(parts: Iterable[MessageText]) -> Iterator[MessageText]:
    """Yield the texts among *parts*, those of calls and their results, that stand beside a result in a user's message.

    Source: Anthropic Messages, where results are a user's, and what somebody says meanwhile stands below them.
    """
    return (part for part in parts if part.trust == "user" and not (part.tool or part.instructs))


def is_relayed(text: str, tool: str) -> bool:
    """Tell whether a user speaks in *text*, the result of a call of *tool*."""
    words = _first_of(_REFUSALS, text) or _first_of(_REMARKS, text)
    return bool(words or _ANSWERS.fullmatch(text) or _asks(tool, text))


def _first_of(forms: Iterable[re.Pattern[str]], text: str) -> str:
    """Return the words in *text*, where one of *forms* is all of it; else an empty text."""
    return next((found["said"].strip() for found in (form.fullmatch(text) for form in forms) if found), "")


def _reason(said: str, call: MessageText) -> str:
    reason = as_said(_NOTE.sub("", said))
    return with_question(f"[refused] {reason}", f"to run {_head(call)}") if reason else ""


def _answer(text: str, call: MessageText) -> str:
    if answered := _ANSWERS.fullmatch(text):
        pairs = [(question, said) for question, said in _pairs(answered["pairs"]) if said != UNANSWERED]
        return "\n".join(with_question(as_said(said), question) for question, said in pairs)
    if remark := _first_of(_REMARKS, text):
        return with_question(as_said(remark), f"to run {_head(call)}")
    if not _asks(call.tool, text):
        return ""
    element = _ELEMENT.fullmatch(text)
    said = as_said(element["said"] if element else text)
    return with_question(said, clipped(one_line(_told(call)), QUESTION_CHARS)) if said else ""


def _head(call: MessageText) -> str:
    return clipped(one_line(f"{call.tool} {_told(call)}".strip()), CALL_CHARS)


def _asks(tool: str, answer: str) -> bool:
    skipped = _SKIPPED.search(answer)
    return bool(_ASKS.fullmatch(tool)) and not skipped and len(answer) <= ANSWER_CHARS_MAX and not error_text(answer)


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
