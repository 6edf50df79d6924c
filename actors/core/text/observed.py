"""Observations: what an agent without tool calls gets back. It writes its call in its text, and the answer to it comes
as a user's message, in a frame that its program puts around it."""

from __future__ import annotations

import json
import re
from typing import NamedTuple

LOOKED_AT_CHARS = 400
"""At each end of a text, in which its frame is looked for."""

FENCE = "```"

SHELL = "$"
"""The tool of a call that names none: what stood between fences was for a shell."""

_ELEMENTS = "tool_response|tool_result|tool_output|function_results?|function_response|observation"
_BEGINS = re.compile(
    r"\s*(?:"
    r"(?:OBSERVATION|Observation)(?: \d+)?:"  # ReAct, smolagents, SWE-agent
    r"|EXECUTION RESULT of \[\w+\]:"  # OpenHands
    r"|\[[a-z]\w*(?: for [^\n]{1,300}?)?\] Result:"  # Cline, Roo Code
    r"|\[tool result for [^\]\n]{1,100}\]"  # HolmesGPT, where a provider takes no tools
    r"|<returncode>(?P<returned>-?\d+)</returncode>(?:\s*<output>)?"  # mini-swe-agent
    rf"|<(?:{_ELEMENTS})\b[^>\n]*>"  # Hermes, Qwen, and who follows Anthropic's examples
    r"|Command \w+ returned:"  # AutoGPT
    r"|(?i:exit ?code: (?P<code>-?\d+))\b(?: \(execution \w+\))?"  # AutoGen
    r")[ \t]*\n?"
)
"""How programs begin what they give back; no person writes so. Named with one that does."""

_CLOSES = re.compile(rf"\s*</(?:output|{_ELEMENTS})>\s*\Z")
_ENDS = re.compile(r"(?:\A|\n)(?:\((?:Open file|Current directory|Interactive session): [^\n]*\)\n)*bash-[\d.]*\$\s*\Z")
"""How a shell ends what it gives back: with its prompt (SWE-agent)."""

_SPEAKS = re.compile(r"<(?:feedback|user_feedback|user_message|user_input|answer|task)>")
"""Where a person's words stand in such a frame (Cline, Roo Code)."""

_FUNCTION = re.compile(r"<function=([\w.-]{1,64})>")
_PARAMETER = re.compile(r"\s*<parameter=([\w.-]{1,64})>")
_CHILD = re.compile(r"\s*<([a-z]\w{0,63})>")
_CLOSED = re.compile(r"</([a-z]\w{2,63})>\Z")
_ACTION = re.compile(r"^Action: *([\w.-]{1,64})[ \t]*\n+Action Input: *", re.MULTILINE)

_OBJECTS = ("tool_call", "function_call")
_COMMANDS = frozenset(("command", "execute", "execute_bash", "bash"))
_SHELLS = frozenset(("", "bash", "sh", "shell", "zsh", "console", "terminal", "mswea_bash_command"))
_LABEL = re.compile(r"\A\s*(?:DISCUSSION\b:?|THOUGHTS?:|Thoughts?:)\s*|\s*(?:Action|Code|COMMAND):?\s*\Z")
"""Words that only part what was thought from the call."""


class WrittenCall(NamedTuple):
    """A call that stands in a text: what was said beside it, the tool, and its arguments as JSON."""

    said: str
    tool: str
    arguments: str


def is_observation(text: str) -> bool:
    """Tell whether a program's frame stands around *text*, and nothing in it is said to be a person's."""
    framed = _BEGINS.match(text[:LOOKED_AT_CHARS]) or _ENDS.search(text[-LOOKED_AT_CHARS:])
    return bool(framed) and not _SPEAKS.search(text)


def without_frame(text: str) -> str:
    """Return the words of an observation without its frame; where a program failed, they begin with its exit code."""
    begin = _BEGINS.match(text[:LOOKED_AT_CHARS])
    if begin is None:
        return text
    bare = text[begin.end() :]
    close = _CLOSES.search(bare[-LOOKED_AT_CHARS:])
    bare = bare[: len(bare) - len(close.group())] if close else bare
    code = begin["returned"] or begin["code"] or "0"
    return f"exit code: {code}\n{bare}" if int(code) else bare


def written_call(text: str) -> WrittenCall | None:
    """Return the call that is written in *text*, the last one of several; None where there is none."""
    for found in (_function, _object, _element, _action, _fenced):
        if (call := found(text)) is not None:
            return call
    return None


def _function(text: str) -> WrittenCall | None:
    """Return `<function=NAME><parameter=KEY>VALUE</parameter></function>` (OpenHands)."""
    start = text.rfind("<function=")
    if start < 0 or (found := _FUNCTION.match(text, start)) is None:
        return None
    end = text.find("</function>", found.end())
    end = len(text) if end < 0 else end
    arguments = _children(text[found.end() : end], _PARAMETER, "</parameter>")
    return _call(text, start, end + len("</function>"), found.group(1), arguments)


def _object(text: str) -> WrittenCall | None:
    """Return `<tool_call>{"name": …, "arguments": …}</tool_call>` (Hermes, Qwen)."""
    for name in _OBJECTS:
        end = text.rfind(f"</{name}>")
        start = text.rfind(f"<{name}>", 0, max(0, end))
        if start < 0:
            continue
        told = _json(text[start + len(name) + 2 : end])
        if isinstance(told, dict) and isinstance(told.get("name"), str):
            return _call(text, start, end + len(name) + 3, told["name"], told.get("arguments", {}))
    return None


def _element(text: str) -> WrittenCall | None:
    """Return `<NAME><KEY>VALUE</KEY></NAME>` at the end of a text (Cline, Roo Code), or `<command>…</command>`."""
    bare = text.rstrip()
    closed = _CLOSED.search(bare[-LOOKED_AT_CHARS:])
    start = bare.rfind(f"<{closed.group(1)}>") if closed else -1
    if closed is None or start < 0:
        return None
    name = closed.group(1)
    body = bare[start + len(name) + 2 : len(bare) - len(name) - 3]
    if name in _COMMANDS and not _CHILD.match(body):
        return _call(text, start, len(text), SHELL, {"command": body.strip("\n")})
    arguments = _children(body, _CHILD, "</{}>")
    return _call(text, start, len(text), name, arguments) if arguments else None


def _children(body: str, opening: re.Pattern[str], closing: str) -> dict[str, str]:
    """Return the texts in *body* between each *opening* and its *closing*, by the names that openings give."""
    out: dict[str, str] = {}
    at = 0
    while (found := opening.match(body, at)) is not None:
        close = closing.format(found.group(1))
        end = body.find(close, found.end())
        if end < 0:
            break
        out[found.group(1)] = body[found.end() : end].strip("\n")
        at = end + len(close)
    return out


def _action(text: str) -> WrittenCall | None:
    """Return `Action: NAME` and the `Action Input:` below it (ReAct)."""
    found = _ACTION.search(text)
    if found is None:
        return None
    given = text[found.end() :].partition("\nObservation:")[0].strip()
    arguments = _json(given)
    told = arguments if isinstance(arguments, dict) else {"input": given}
    return _call(text, found.start(), len(text), found.group(1), told)


def _fenced(text: str) -> WrittenCall | None:
    """Return the last program between fences, whose end may be missing (SWE-agent, mini-swe-agent, smolagents)."""
    end = text.rfind(FENCE)
    if end < 0:
        return None
    is_open = text.count(FENCE) % 2 == 1
    start = end if is_open else text.rfind(FENCE, 0, end)
    end = len(text) if is_open else end
    language, _, body = text[start + len(FENCE) : end].partition("\n")
    language = language.strip().lower()
    tool = SHELL if language in _SHELLS or not language.isidentifier() else language
    return _call(text, start, end + len(FENCE), tool, {"command": body.strip("\n")}) if body.strip() else None


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _call(text: str, start: int, end: int, tool: str, arguments: object) -> WrittenCall:
    said = _LABEL.sub("", f"{text[:start].rstrip()}\n{text[end:].strip()}".strip())
    return WrittenCall(said, tool, json.dumps(arguments, ensure_ascii=False))
