"""Error texts: whether a result says that its call failed, and in which words.

Told by where it is said and in what form: by how the text begins, by a key of its JSON, by a line with an exit
code. A text about errors, or a log with some, is no failure.
"""

from __future__ import annotations

import json
from typing import Any

import re2

from actors.core.text.kinds import parsed_json
from actors.core.text.shorten.lines import telling_lines
from protocol.formats import messages

ERROR_CHARS = 500
"""Of an error, shown before anything else (HolmesGPT's figure)."""

BEGIN_CHARS = 2000
END_CHARS = 4000
END_LINES = 3
ERROR_LINES_MAX = 6

_BEGINS = re2.compile(
    r"(?i)^\W{0,4}(?:traceback \(most recent call last\)|exception in thread |unhandled exception|uncaught \w|panic: "
    r"|npm err!|(?:fatal|error|exception|failed|failure|err)[\])]?(?:\s?[\[(][\w.:-]{1,40}[\])])?:(?:\s|$)"
    r"|error (?:executing|calling|invoking|running|reading|writing|fetching|loading|parsing|opening|connecting|while"
    r"|during|occurred|from server)\b|(?:bash|sh|zsh): \S.{0,200}: (?:command not found|no such file|permission denied)"
    r"|(?:[a-z_]\w*\.)*[a-z_]\w*(?:error|exception)(?:\s?[\[(][\w.:-]{1,40}[\])])?:(?:\s|$))"
)
_EXIT = re2.compile(
    r"(?i)^\W*(?:(?:command|process|script|program|tool)\b.{0,80}?)?"
    r"\b(?:exit(?:ed)?(?:[ _]?(?:with|code|status))*|return[ _]?code)\W{1,4}(-?[1-9]\d{0,9})\b\W*"
    r"(?:execution failed\W*)?$"
)
_LAST = re2.compile(r"^(?:Caused by: |\[?[\w.$]+(?:Error|Exception|Exit|Interrupt|Failure)\b|panic: |[\w.$]{3,80}: )")

ERROR_KEYS = ("error", "errors", "exception", "err", "traceback", "stderr")
WORDS_KEYS = ("message", "detail", "details", "reason", "msg", "description", "output", "stdout")
CODE_KEYS = ("exit_code", "exitCode", "returncode", "return_code", "exit_status")
EXIT_CODE = "exit code "
FAILED = ("error", "failed", "failure")


def error_text(text: str) -> str:
    """Return the words in which *text* says that its call failed, at most `ERROR_CHARS`; empty: it does not."""
    if text.lstrip()[:1] == "{":
        value = parsed_json(text)
        if isinstance(value, dict):
            return _clipped(_of_object(value))
    begin = messages.without_surrogates(text[:BEGIN_CHARS]).lstrip()
    end = messages.without_surrogates(text[-END_CHARS:])
    if _BEGINS.search(begin):
        return _clipped(_of_trace(begin, end) if "\n" in begin else begin)
    last = [line for line in end.split("\n") if line.strip()][-END_LINES:]
    exits = [line for line in (*begin.split("\n")[:END_LINES], *last) if _EXIT.search(line[:300])]
    if not exits:
        return ""
    lines = end.split("\n")
    told = [lines[number].strip() for number in telling_lines(lines)[-ERROR_LINES_MAX:]]
    return _clipped("\n".join(dict.fromkeys([exits[0].strip(), *told])))


def tells_exit(error: str) -> bool:
    """Tell whether an *error*, as `error_text` returns it, begins with an exit code: what was called did run."""
    return bool(_EXIT.search(error.split("\n", 1)[0][:300])) or error.startswith(EXIT_CODE)


def _of_object(value: dict[str, Any]) -> str:
    code = next((value[key] for key in CODE_KEYS if isinstance(value.get(key), int) and value[key]), 0)
    failed = (
        bool(code)
        or value.get("status") in FAILED
        or value.get("success") is False
        or value.get("ok") is False
        or value.get("isError") is True
        or value.get("is_error") is True
    )
    # what went to stderr is an error only where something else says so
    keys = ERROR_KEYS if failed else ERROR_KEYS[:-1]
    said = [f"{key}: {_told(value[key])}" for key in keys if value.get(key) not in (None, "", [], {}, False, 0)]
    if not said and failed:
        said = [f"{key}: {_told(value[key])}" for key in WORDS_KEYS if value.get(key) not in (None, "", [], {})][:1]
        said = said or ["the call failed"]
    return "\n".join([f"{EXIT_CODE}{code}", *said] if code and said else said)


def _told(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return messages.without_surrogates(text[: ERROR_CHARS * 2])


def _of_trace(begin: str, end: str) -> str:
    """Return the first line and the last that names an error: a trace says it at its end, or in its last cause."""
    first = begin.split("\n", 1)[0].strip()
    named = [line.strip() for line in end.split("\n") if _LAST.search(line[:300])]
    if first.lower().startswith(("traceback", "exception in", "panic", "uncaught", "unhandled")):
        return "\n".join(dict.fromkeys([first, *named[-2:]]))
    return begin


def _clipped(text: str) -> str:
    if len(text) <= ERROR_CHARS:
        return text
    return text[: ERROR_CHARS - 1] + "…"
