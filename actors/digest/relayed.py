"""Relayed words: what a user says in the result of a tool: why a call is refused, or answers to what was asked.

Source: Claude Code, OpenCode, mini-swe-agent, Cline, Roo Code, Kilo Code, Gemini CLI, Letta, Amp, as recorded or from
their code.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any, NamedTuple

from actors.core.message_texts import MessageText, opened_text
from actors.core.request_marks import as_said, with_question
from actors.core.text.asked_secrets import without_asked_secret
from actors.core.text.cline import passed_on
from actors.core.text.error_text import error_text
from actors.core.text.kinds import parsed_json
from actors.core.text.secrets import without_secrets
from actors.core.text.spoken import SENT_FRAME

from .calls import CAMEL, arguments_of
from .clips import clipped, one_line
from .failures import undone_in

QUESTION_CHARS, CALL_CHARS = 200, 120
"""Of each question, and of a call that was refused."""

ANSWER_CHARS_MAX = 20_000
"""A longer answer to a tool that asks is no person's, but what a program made of it."""

_REFUSALS = tuple(
    re.compile(rf"\s*(?:{form})", re.DOTALL)
    for form in (
        # Claude Code
        r"(?:The user doesn't want to (?:proceed with this tool use|take this action right now)"
        r"|Permission for this tool use was denied)\.[^\n]{0,300}?(?:The user provided the following reason for the "
        r"rejection|To tell you how to proceed, the user said|The user said):"
        r"(?!\s*The user wants to clarify these questions)(?P<said>.*)",
        # mini-swe-agent
        r"Commands? not executed\. The user rejected your commands? with the following message:(?P<said>.*)",
        # OpenCode
        r"The user rejected permission to use this specific tool call with the following feedback:(?P<said>.*)",
        # Cline, Kilo Code
        r"The user denied this (?:operation|edit)\b[^\n]{0,160}feedback:\s*<feedback>(?P<said>.*)</feedback>.*",
        # Gemini CLI
        r"Plan rejected\. User feedback:(?P<said>.*)\n\nThe plan is stored at: .*",
        # Letta, Amp
        r"(?:Error: )?request to call tool denied\. User reason:(?P<said>.*)",
        r"This tool call was rejected by the user with feedback:(?P<said>.*)",
    )
)
_NOTE = re.compile(r"\n\nNote: The user's next message may contain a correction[^\n]{0,600}\s{0,8}\Z")
_REMARKS = tuple(
    re.compile(rf"\s*(?:{form})\s*", re.DOTALL)
    for form in (
        # Cline, Kilo Code: what the call did stands behind it
        r"The user approved this operation and provided the following context:\s*<feedback>(?P<said>.*)</feedback>.*",
        SENT_FRAME,
    )
)
"""What somebody said with an approval, or meanwhile: the call was done."""

_REPORTS = frozenset(("attempt_completion", "plan_mode_respond"))
"""Tools of Cline and Roo Code by which an assistant shows a person what it did, or what it is about to do."""

_ANSWERS = re.compile(
    r'\s*User has answered your questions: "(?P<pairs>.*)"\. You can now continue with the user\'s answers in mind\.'
    r"\s*",
    re.DOTALL,
)
_ASKS = re.compile(
    r"(?i)(?:mcp__\w{1,40}__)?(?:AskUserQuestion|ask_?(?:the_?)?(?:user|human)(?:_?questions?)?|ask_followup_question"
    r"|(?:request|get)_?(?:user|human)_?input|human_?input)|question"
)
"""The name of a tool that asks a person."""

_MAY_ASK = re.compile(r"(?i)(?:mcp__\w{1,40}__|vscode_)?ask_?questions?")
"""The name of one that may: it asks a person if it has a list of questions, and a server's if it offers answers."""

_SERVERS = "mcp__"
"""Begins the name of a tool that an MCP server has."""

_FETCHES = re.compile(
    r"(?i)fetch|search|brows|scrap|crawl|download|http|web|(?:\A|_)(?:(?<!pull_)(?<!merge_)request|read(?:er)?"
    r"|query|page|view|list|open|get|content|cat|grep|glob|find)(?:_|\Z)"
)
"""In the name of a tool, its words parted: somebody else may have written what it returns."""

_BUILT_IN = re.compile(r"WebFetch|WebSearch|Read|NotebookRead|Grep|Glob|LS")
"""Claude Code's own of them: it says itself that one failed, and for which refusal."""

_ASKS_FIRST = re.compile(
    r"write_to_file|(?:multi_)?apply_diff|apply_patch|insert_content|search_(?:and_)?replace|(?:edit|delete)_file"
    r"|replace_in_file|execute_command|attempt_completion"
)
"""Cline's, Roo Code's and Kilo Code's tools that ask a person before they do something."""

UNANSWERED = "Unanswered"
_NOT_ASKED = re.compile(r"\s*(?:<tool_use_error>|\[Request interrupted by user)")
"""How a result begins that no person gave, whatever stands in it."""

_ID = re.compile(r"[\w.:-]+")
_OWN = re.compile(r"\b(?:I|by (?:me|us|my|our))\b")
"""Who speaks of himself is no program, though it begins as one's refusal."""

_SKIPPED = re.compile(
    r"(?i)\s*(?:Q\d+:[^\n]*\n)?(?:the )?user (?:has )?(?:skipped|cancell?ed|dismissed|declined)(?: to answer)?"
    r"(?: (?:this|these|the|all|your|any|ask_\w{1,30}))?(?: (?:questions?|selection|dialog|prompt|request|input))?"
    r"(?: without answering)?\.?\s{0,8}"
)
_SAID = re.compile(r"[\"']\s?[=:]\s?|(?:->|→|=>|[=:])\s?")
_BEFORE = re.compile(r"(?:\A|\n)\s{0,8}(?:[-*]\s?)?(?:Q?\d{1,3}[.):]\s?)?[\"']?\Z|(?<=,)\s?[\"']\Z")
BEFORE_CHARS = 40
"""What may stand between a question and its answer, and before a question, in programs that say both."""

_QUESTION_KEYS = ("question", "prompt", "message", "text", "query")


class Relayed(NamedTuple):
    """What a user says in the result of *call*, in message *number*, behind what it answers."""

    number: int
    call: str
    text: str
    outcome: str
    """The outcome of the call, where the words are all that it returned."""


def relayed(parts: Iterable[MessageText]) -> Iterator[Relayed]:
    """Yield the words that users say in the results among *parts*, whose calls stand before them."""
    calls: dict[str, MessageText] = {}
    for part in parts:
        if part.tool:
            calls[part.call] = part
        elif part.trust == "tool" and (call := calls.get(part.call)) is not None:
            text, outcome = _said_in(opened_text(part), call, failed=part.failed, number=part.number)
            if text:
                yield Relayed(part.number, part.call, text, outcome)


def said_beside(parts: Iterable[MessageText]) -> Iterator[MessageText]:
    """Yield the texts among *parts*, those of calls and their results, that stand beside a result in a user's message.

    Source: Anthropic Messages, where results are a user's, and what somebody says meanwhile stands below them.
    """
    return (part for part in parts if part.trust == "user" and part.is_typed and not (part.tool or part.instructs))


def is_relayed(text: str, tool: str) -> bool:
    """Tell whether *text*, all that a call of *tool* returned, may be a user's words: no line of it is left out."""
    call = MessageText(number=0, trust="assistant", text="{}", tool=tool)
    # whether the call failed is not known here: it may have, or not
    return any(all(_said_in(text, call, failed=failed)) for failed in (False, True))


def _said_in(text: str, call: MessageText, *, failed: bool, number: int | None = None) -> tuple[str, str]:
    """Return the words of a user in the result *text* of *call*, and its outcome where they are all of it.

    Of a built-in call that *failed*, its program wrote the result, and not the page that it was to fetch. The result
    stands in message *number*.
    """
    number = call.number if number is None else number
    fetches = not (_asks(call) or _ASKS_FIRST.fullmatch(call.tool)) and _FETCHES.search(
        CAMEL.sub("_", call.tool).replace("-", "_")
    )
    if fetches and not (failed and _BUILT_IN.fullmatch(call.tool)):
        return "", ""
    refused, remark = _first_of(_REFUSALS, text), "" if fetches else _first_of(_REMARKS, text)
    if not (refused or failed) and (said := _answer(text, call, number)):
        return said, "answered by the user"
    if call.tool in _REPORTS and (said := passed_on(text) or ""):
        return with_question(as_said(said), f"to run {_head(call)}"), "answered by the user"
    if not (refused or remark):
        refused, remark = _in_json(text, call, number)
    if said := as_said(_NOTE.sub("", refused)):
        return with_question(f"[refused] {said}", f"to run {_head(call)}"), "refused by the user"
    return (with_question(as_said(remark), f"to run {_head(call)}") if remark else ""), ""


def _first_of(forms: Iterable[re.Pattern[str]], text: str) -> str:
    """Return the words in *text*, where one of *forms* is all of it; else an empty text."""
    return next((found["said"].strip() for found in (form.fullmatch(text) for form in forms) if found), "")


def _in_json(text: str, call: MessageText, number: int) -> tuple[str, str]:
    """Return why a user refused a *call*, or what was said with an approval, where Roo Code tells that in JSON."""
    value: Any = parsed_json(text) if text.lstrip()[:1] == "{" and _ASKS_FIRST.fullmatch(call.tool) else None
    if not isinstance(value, dict) or not value.keys() <= {"status", "message", "feedback"}:
        return "", ""
    said = value.get("feedback")
    said = _safe(said, call, number) if isinstance(said, str) else ""
    return (said, "") if value.get("status") == "denied" else ("", said if value.get("status") == "approved" else "")


def _asks(call: MessageText) -> bool:
    if _MAY_ASK.fullmatch(call.tool):
        return bool(_questions(call) and (not call.tool.startswith(_SERVERS) or _offered(call)))
    return bool(_ASKS.fullmatch(call.tool))


def _answer(text: str, call: MessageText, number: int) -> str:
    if not _asks(call) or _SKIPPED.fullmatch(text) or _NOT_ASKED.match(text):
        return ""
    if undone_in(text) and not _OWN.search(text):
        return ""
    if listed := _ANSWERS.fullmatch(text):
        pairs = _pairs(listed["pairs"], _questions(call))
        told = [_with_question(said, question, call, number) for question, said in pairs if said != UNANSWERED]
        return "\n".join(told)
    if len(text) > ANSWER_CHARS_MAX or error_text(text):
        return ""
    if answers := _answers_in_json(text):
        known = _named_questions(call)
        told = [
            _with_question(_safe_answer(said, name, known, call, number), known.get(name, name), call, number)
            for name, said in answers.items()
        ]
        return "\n".join(filter(None, told))
    said = passed_on(text)
    if said is None and (both := _lines_of_answers(text, _questions(call))):
        return "\n".join(_with_question(one, question, call, number) for question, one in both)
    return _with_question(text if said is None else said, _told(call), call, number)


def _answers_in_json(text: str) -> dict[str, str]:
    """Return what `{"answers": {…}}` answers to each question (Kimi Code); nothing for a *text* with more."""
    value = parsed_json(text) if text.lstrip()[:1] == "{" else None
    answers = value.get("answers") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(answers, dict):
        return {}
    each = {name: one if isinstance(one, list) else [one] for name, one in answers.items()}
    if not all(isinstance(said, str) for some in each.values() for said in some):
        return {}
    return {name: ", ".join(some) for name, some in each.items()}


def _named_questions(call: MessageText) -> dict[str, str]:
    """Return the questions of *call* by themselves, and by the id or the header of each."""
    asked = arguments_of(call).get("questions")
    each = [one for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    named = [(one.get(key), one.get("question")) for one in each for key in ("id", "header")]
    known = {name: question for name, question in named if isinstance(name, str) and isinstance(question, str)}
    return known | {question: question for question in _questions(call)}


def _safe_answer(said: str, name: str, known: Container[str], call: MessageText, number: int) -> str:
    """Return the words *said* to the question of that *name*: where it is an id that is not *known*, any is meant."""
    if call.open or name in known or not _ID.fullmatch(name) or not said.strip():
        return said
    return without_asked_secret(said, "\n".join(_strings_of(call)), number)


def _with_question(said: str, question: str, call: MessageText, number: int) -> str:
    """Return the words *said* behind the *question*, or the call where there is none; without a secret asked for."""
    if not said.strip():
        return ""
    if not (call.open or said.strip() in _offered(call)):
        said = without_asked_secret(said, question or "\n".join(_strings_of(call)), number)
    asked = clipped(one_line(question), QUESTION_CHARS) if question.strip() else f"to run {_head(call)}"
    return with_question(as_said(said), asked)


def _pairs(text: str, questions: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each question and its answer; both are in quotes, with any quotes in them.

    Where one question ends and the next begins is known from the *questions* that the call asked.
    """
    quoted = f'"{text}'
    starts = [(quoted.find(f'"{one}"="'), one) for one in questions]
    if starts and min(at for at, _ in starts) >= 0:
        starts.sort()
        for (at, question), (end, _) in zip(starts, [*starts[1:], (len(text), "")], strict=True):
            said = text[at + len(question) + 3 : end]
            yield question, said.removesuffix('", "') if end < len(text) else said
        return
    question, *rest = text.split('"="')
    for place, part in enumerate(rest):
        said, _, following = part.rpartition(', "') if place < len(rest) - 1 else (part, "", "")
        yield question, said.removesuffix('"')
        question = following


def _lines_of_answers(text: str, questions: list[str]) -> list[tuple[str, str]]:
    """Return each of the *questions* with its answer, where *text* is nothing but these, in order; else nothing."""
    places: list[int] = []
    for question in questions:
        begin = places[-1] + len(questions[len(places) - 1]) if places else 0
        places.append(text.find(question, begin))
    if not places or min(places) < 0 or places != sorted(places) or not _BEFORE.match(text[: places[0]].lstrip()):
        return []
    ends = [*places[1:], len(text)]
    told = (text[at + len(one) : end] for at, one, end in zip(places, questions, ends, strict=True))
    return list(zip(questions, map(_bare, told), strict=True))


def _bare(answer: str) -> str:
    """Return an *answer* without what programs put around it, and before the question that follows."""
    begin, end = answer[:-BEFORE_CHARS], answer[-BEFORE_CHARS:]
    said = f"{begin}{_BEFORE.sub('', end)}".strip(" \t\r\n,;")
    said = said[found.end() :] if (found := _SAID.match(said)) else said
    quoted = len(said) > 1 and said[0] in "\"'" and said[0] == said[-1]
    return said[1:-1] if quoted else said


def _questions(call: MessageText) -> list[str]:
    asked = arguments_of(call).get("questions")
    some = [one.get("question") for one in asked if isinstance(one, dict)] if isinstance(asked, list) else []
    return [one for one in some if isinstance(one, str) and one]


def _head(call: MessageText) -> str:
    texts = [value for value in arguments_of(call).values() if isinstance(value, str) and value.strip()]
    return clipped(one_line(_safe(f"{call.tool} {texts[0] if texts else ''}".strip(), call)), CALL_CHARS)


def _told(call: MessageText) -> str:
    """Return the argument of *call* that says what is asked; an empty text where none does."""
    arguments = arguments_of(call)
    asked = [arguments[key] for key in _QUESTION_KEYS if isinstance(arguments.get(key), str)][:1] or _questions(call)
    return _safe(asked[0], call) if len(asked) == 1 else ""


def _strings_of(call: MessageText) -> list[str]:
    return [*_questions(call), *(value for value in arguments_of(call).values() if isinstance(value, str))]


def _offered(call: MessageText) -> set[str]:
    """Return the answers that the questions of *call* offer: one of them is no secret."""
    given = arguments_of(call)
    asked = [given, *(given["questions"] if isinstance(given.get("questions"), list) else [])]
    lists = [one["options"] for one in asked if isinstance(one, dict) and isinstance(one.get("options"), list)]
    return {label for some in lists for one in some if isinstance(label := _label(one), str)}


def _label(option: Any) -> Any:
    return option.get("label") if isinstance(option, dict) else option


def _safe(text: str, call: MessageText, number: int | None = None) -> str:
    """Return *text*, which stood in JSON of message *number*, with handles also for secrets that it had escaped."""
    return text if call.open else without_secrets(text, call.number if number is None else number)
