"""Calls: a tool call as a person writes it down: what was called, about what, and whether it changes something."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import re2

from actors.core.entry import Entry
from actors.core.message_texts import MessageText, texts_of
from actors.core.text.gaps import GAP
from actors.core.text.json_lines import flat, flat_rows
from actors.core.text.kinds import FLAT_DEPTH_MAX, is_deep
from actors.core.text.patterns import stands
from actors.core.text.shorten.lines import lines_with
from protocol.formats import messages

from .edits import EDITS, edits_in, edits_text
from .hindsight import Hindsight
from .repeats import is_output

MODE = "command"
"""The argument by which a tool that does several things is told which one; of others it is a whole command line."""

PATHS = ("path", "file_path", "filepath", "file", "filename", "file_name", "uri", "url")
COMMANDS = ("command", "cmd", "query", "script", "code")
LONG_CHARS = 160
SAID_CHARS_MIN = 40
TARGET_CHARS = 60
PATH_CHARS = 120

_CHANGES = re2.compile(
    rb"(?i)(?:^|[\W_])(?:edit|write|create|insert|replace|patch|update|delete|remove|cancel|book|modify|transfer|send"
    rb"|post|put|commit|install|upgrade|apply|move|rename|mv|cp|rm|mkdir|touch|tee|set|add|submit|restart|scale|drain)"
    rb"(?:[\W_]|$)|[^-=<>&]>>?\s?[\w/.~]"
    rb"|\bsed -i|\bgit (?:checkout|reset|restore|stash|merge|rebase|push|revert)\b"
)
_LOOKS = re2.compile(
    rb"(?i)^\W*(?:cd \S+ (?:&&|;) )?(?:view|open|cat|ls|find|grep|rg|head|tail|sed -n|awk|wc"
    rb"|git (?:log|diff|show|status|grep)|search|get|list|read|think|todo\w*|describe)\b"
)
TASK_LIST = "its own list of tasks"
"""What a call is about that writes it (`writes_task_list`)."""

_JOINTS = re.compile(r"\s+|(?<=[。、，；！？])|(?=[。、，；！？])")
"""Where a text may be cut: some scripts have no spaces between words."""

_WORD, LONG_WORD_CHARS = re.compile(r"[\w+=]*"), 40
NAME_CHARS = 12
"""Of a word of 40 characters, that names it."""

_ENDLESS = re.compile(r"(?a:\b(\w{20})[\w+=]{100,})")
_DIGITS = "0123456789.,"
_COMPLAINTS = (
    r"|^\S+(?:\(\d+,\d+\)|:\d+(?::\d+)?): (?:fatal )?error\b|^error(?:\[E\d+\])?: "
    r"|^(?-i:FAILED|FAIL|ERROR)[ :]\S|^=+ (?:FAILURES|ERRORS) =+$"
    r"|^E\s+\w*(?:Error|Exception)\b"
)
_TESTS = re.compile(
    r"(?i)(?<![\w:.,-])[1-9]\d* (?:tests? )?(?-i:[Ff]ailed|FAILED|[Ff]ailures?|[Ee]rrors?)\b" + _COMPLAINTS
)
"""How tests and builds say that something failed; `15:17:26 ERROR` is a line of a log, and `12 ERROR` counts such."""

_TESTS_BEFORE = re.compile(r"(?i)\b[1-9]\d* (?:tests? )?(?:failed|failures?|errors?)\b" + _COMPLAINTS)
_FAILS = ("fail", "error", "exception")
"""One of them stands wherever that does; in other scripts' letters too, which nobody looks for twice."""

_MAY_FAIL = re2.compile(f"(?i){'|'.join(_FAILS)}")

TEST_CHARS = 6000
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")

REFUSAL_CHARS, REFUSAL_LINES = 1500, 12
"""Where it is looked for: at the beginning of a result, and in its last lines."""

_UNCHANGED = re.compile(
    r"(?i)\bnot (?:been )?(?:applied|changed|saved|modified|performed|updated)\b|\bno (?:replacement|changes?|edits?)"
    r" (?:was|were|made)"
    r"|did not appear|could not be|was rejected|\bno match"
)
_NAMED_ERROR = re.compile(r"\W*((?:[A-Z]\d+ )?[A-Z][A-Za-z]+(?:Error|Exception)\b.{,160})")
REFUSED_CHARS_MAX, REFUSED_LINE_CHARS = 1500, 160
_REFUSED = re.compile(
    r"(?i)\btoo (?:large|long|many)\b|\breject(?:ed|ing)\b|\brefus(?:ed|ing)\b"
    r"|\bnot (?:allowed|permitted|authori[sz]ed|supported)\b"
    r"|\bdenied\b|\b(?:was|been|command|operation|request|call|execution) (?:aborted|cancell?ed|interrupted|killed)\b"
    r"|\btimed out\b|\binvalid (?:\w+ )?(?:argument|parameter|input|format|type|path|option|value)"
)
"""In the first or the last line of a short result: the tool did not do what it was asked."""

TRACE_CHARS = 8000
TRACE_TITLE = "Traceback (most recent call last):"
PLACE_PARTS = 3
"""Of a path, from its end: enough to tell a file from others of its name."""

_RAISED = re.compile(r"[A-Za-z_][\w.]*(?::\s|$)")
"""The line of a trace that says what was raised."""

_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in (\S+)')
RAISED_IN = "(raised in"
_IN_TRACE = re.compile(rf'(?:{GAP} )?(?:  File ".+", line \d|    \S|.*{re.escape(TRACE_TITLE)})')
"""A line of a trace, where one is known to stand: its title, a frame, or the line of the program below it."""

OUTPUT = "output"
"""What was printed, where no call is known for it."""

_THINKS = re.compile(r"(?i)(?:\w+_)?(?:think|thought|reason|reflect)(?:ing)?")
_NOTES = re.compile(
    r"(?i)(?:(?:add|save|write|take|make|store|create|append|keep)_)?(?:an?_)?(?:notes?|memory|memories)"
    r"|remember|memori[sz]e"
)
"""A tool by which an assistant takes a note; one that looks notes up has another verb."""

NOTE_CHARS_MIN = 20
"""Of a note: shorter is the name of one, or what is looked for."""

_EXECUTED = re.compile(r"(?i)\s*exit ?code: -?\d+\b")
"""How an executor in a group chat begins what a program printed; a person begins with a prompt, and asks about it."""

_INSTRUCTIONS = re.compile(
    r"\b(?:AGENTS|CLAUDE|GEMINI|CONTRIBUTING|copilot-instructions)\.md\b|\.cursor/?rules\b|\.windsurfrules\b"
)

_TASK_TOOL = re2.compile(rb"(?i)to_?do|(?:^|_)plan$")
_EDITOR = re2.compile(rb"(?i)edit(?:or)?\w*$|replace")
_CONTENT = re.compile(r"(?i)new|old|content|text|patch|diff|edit|replac|insert|code|body|data")


def clipped(text: str, chars: int, *, head: float = 0.62, names: bool = False) -> str:
    """Return *text* in at most *chars* characters: its beginning (a share, *head*) and its end, cut between words.

    With *names* the beginning of a very long word stays: a key or a hash is known by it.
    """
    if len(text) <= chars:
        return text
    first, last = text[: int(chars * head)], text[len(text) - int(chars * (0.96 - head)) :]
    # from the end on: a search would begin at each of its characters
    start = len(first) - len(_matched(first[::-1])) if names else len(first)
    if names and len(_matched(text[start : start + LONG_WORD_CHARS])) == LONG_WORD_CHARS:
        last = _JOINTS.split(last, maxsplit=1)[-1] if _JOINTS.search(last.rstrip()) else ""
        return f"{first[: start + NAME_CHARS]}{GAP} {last}".rstrip()
    first = _JOINTS.split(first[::-1], maxsplit=1)[-1][::-1] if _JOINTS.search(first) else first.rstrip(_DIGITS)
    last = _JOINTS.split(last, maxsplit=1)[-1] if _JOINTS.search(last.rstrip()) else last.lstrip(_DIGITS)
    return f"{first} {GAP} {last}"


def _matched(text: str) -> str:
    """Return the word with which *text* begins."""
    found = _WORD.match(text)
    return found.group() if found else ""


def without_endless_words(text: str) -> str:
    """Return *text* with the beginnings of words that nobody can read, as keys and images written in letters."""
    return _ENDLESS.sub(rf"\1{GAP}", text)


def one_line(text: str) -> str:
    """Return *text* on one line."""
    return " ".join(text.split())


def call_text(call: MessageText, *, chars: int, hindsight: Hindsight, said: str = "") -> str:
    """Return a call as a person writes it: short arguments behind the tool's name, long ones below it.

    What every call of the tool has, and what the assistant *said* beside the call, is left out.
    """
    tool, arguments = call.tool, without_endless_words(call.text) if hindsight.by_fields else call.text
    try:
        value = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict | list) and is_deep(value, FLAT_DEPTH_MAX):
        value = one_line(arguments)
    if not isinstance(value, dict):
        return clipped(
            f"{tool} {value if isinstance(value, str) else flat(value)}".strip(), chars, names=hindsight.by_fields
        )
    told = {key: item for key, item in value.items() if not _is_noise(call, key, item, hindsight, said)}
    if len(told) == 1 and isinstance(only := next(iter(told.values())), str):
        return clipped(f"{tool} {only.strip()}", chars, names=hindsight.by_fields)
    edits, edited = edits_in(told) if hindsight.by_fields and changes_something(call) else ([], frozenset[str]())
    if edits:
        # that it is an edit, + and - say
        besides = [key for key, item in told.items() if key in edited or item in (False, *EDITS)]
        begin = clipped(_begin(tool, told, besides), chars)
        return f"{begin}\n{edits_text(edits, chars - len(begin))}"
    long = [key for key, item in told.items() if isinstance(item, str) and ("\n" in item or len(item) > LONG_CHARS)]
    each = max(80, (chars - 100) // max(1, len(long)))
    if hindsight.by_fields:
        begin = _begin(tool, told, long)
    else:
        short = ", ".join(_named(key, item) for key, item in told.items() if key not in long)
        begin = f"{tool} {short}".strip()
    texts = {key: clipped(told[key].strip("\n"), each, names=hindsight.by_fields) for key in long}
    return "\n".join([begin, *(f"{key}:\n{text}" for key, text in texts.items())])


def _begin(tool: str, told: Mapping[str, Any], besides: Collection[str]) -> str:
    """Return the line of a call: what a tool of several was to do, the file, and the other arguments by their names."""
    bare = [key for key in (MODE, *PATHS) if key not in besides and isinstance(told.get(key), str)]
    bare = [key for key in bare if key != MODE or told[key].isidentifier()]
    others = [f"{key} {flat_rows(item)}" for key, item in told.items() if key not in (*bare, *besides)]
    return " ".join(filter(None, (tool, *(told[key] for key in bare), ", ".join(others))))


def _named(key: str, value: object) -> str:
    return f"{key} [{flat(value)}]" if isinstance(value, list) else f"{key} {flat(value)}"


def _is_noise(call: MessageText, key: str, value: object, hindsight: Hindsight, said: str) -> bool:
    if value in (None, "", [], {}):
        return True
    if isinstance(value, str) and len(value) > SAID_CHARS_MIN and value.strip() in said:
        return True
    return (call.tool, key, flat(value)) in hindsight.habits


def writes_task_list(call: MessageText) -> bool:
    """Tell a call that only writes the assistant's own list of tasks: the newest one says it all."""
    return bool(stands(_TASK_TOOL, call.tool.encode("utf-8", "replace")))


def arguments_of(call: MessageText) -> dict[str, Any]:
    """Return the arguments of *call* as an object; an empty one where they are none, or too deep to be told."""
    try:
        value = json.loads(call.text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) and not is_deep(value, FLAT_DEPTH_MAX) else {}


def target_of(call: MessageText, *, whole_paths: bool = True) -> str:
    """Return the subject of *call*: a path, a command, else its first short arguments.

    With *whole_paths* a path stands whole: those of a project begin alike, and are told apart by their ends.
    """
    value = arguments_of(call)
    for key in (*PATHS, *COMMANDS):
        if isinstance(value.get(key), str) and " " in value[key].strip() + (" " if key in PATHS else ""):
            return _shortly(value[key], whole_paths=whole_paths)
    plain = [item for item in value.values() if isinstance(item, str | int)]
    return _shortly(", ".join(map(str, plain[:3])), whole_paths=whole_paths)


def changes_something(call: MessageText) -> bool:
    """Tell whether *call* changes something, by its verb: the argument `command` where there is one, else the tool."""
    value = arguments_of(call)
    verb = value.get("command") or value.get("cmd")
    told = (verb if isinstance(verb, str) else _CAMEL.sub("_", call.tool))[:400].encode("utf-8", "replace")
    if not stands(_CHANGES, told) or stands(_LOOKS, told):
        return False
    # an editor shows as well as it writes
    edits = isinstance(verb, str) or not stands(_EDITOR, call.tool.encode("utf-8", "replace"))
    return edits or any(_CONTENT.search(key) for key in value)


def only_looks(call: MessageText) -> bool:
    """Tell a call that shows what is there, by its verb: what it shows may tell of failures, and is none."""
    value = arguments_of(call)
    verb = value.get("command") or value.get("cmd")
    told = (verb if isinstance(verb, str) else _CAMEL.sub("_", call.tool))[:400].encode("utf-8", "replace")
    return bool(stands(_LOOKS, told))


def _shortly(text: str, *, whole_paths: bool = False) -> str:
    line = one_line(text)
    if whole_paths and " " not in line:
        return line if len(line) <= PATH_CHARS else f"{GAP}{line[-PATH_CHARS:]}"
    return line if len(line) <= TARGET_CHARS else f"{line[:TARGET_CHARS]}{GAP}"


def refusal_in(result: str, *, by_fields: bool) -> str:
    """Return the line in which a result says that nothing was changed, or an empty text."""
    # under older rules, a line that stands on the bound is parted
    bound = REFUSAL_CHARS + LONG_CHARS if by_fields else REFUSAL_CHARS
    begin = result[:REFUSAL_CHARS] + result[REFUSAL_CHARS:bound].partition("\n")[0]
    rest = result if by_fields else result[REFUSAL_CHARS:]
    lines = [*begin.split("\n"), *rest.rstrip().rsplit("\n", REFUSAL_LINES)[1:]]
    return next((line.strip() for line in lines if _UNCHANGED.search(line[:LONG_CHARS])), "")


def refused_for(result: str) -> str:
    """Return the line in which a *result* names the error for which nothing was changed, or an empty text."""
    lines = result[:REFUSAL_CHARS].split("\n")
    return next((found.group(1) for found in map(_NAMED_ERROR.match, lines) if found), "")


def is_run(entries: Sequence[Entry]) -> bool:
    """Tell whether all that *entries* say was printed: where several speak, who runs programs often is a user."""
    texts = texts_of(entries)
    return bool(texts) and all(part.trust != "tool" and bool(_EXECUTED.match(part.text)) for part in texts)


def thought_in(call: MessageText, *, notes: bool) -> str:
    """Return the assistant's thought, or with *notes* its note, where *call* is a tool for that only; else nothing."""
    is_note = notes and bool(_NOTES.fullmatch(call.tool))
    if not is_note and not _THINKS.fullmatch(call.tool):
        return ""
    values = list(arguments_of(call).values())
    text = values[0].strip() if len(values) == 1 and isinstance(values[0], str) else ""
    return "" if is_note and (len(text) < NOTE_CHARS_MIN or " " not in text) else text


def reads_instructions(call: MessageText) -> bool:
    """Tell a call that shows a file in which a project tells agents what to do."""
    return bool(_INSTRUCTIONS.search(call.text)) and not changes_something(call)


def reads_file(call: MessageText) -> bool:
    """Tell a call that names a file: what it returns is that file's text."""
    return any(isinstance(value, str) and key in PATHS for key, value in arguments_of(call).items())


def speaker_of(entry: Entry) -> str:
    """Return the name of who speaks in *entry*; empty where it has none."""
    value = messages.decode(entry.raw).get("name")
    return _shortly(value) if isinstance(value, str) else ""


def is_printed(entry: Entry) -> bool:
    """Tell what a tool printed, where several assistants speak and one of them says it."""
    if entry.role != "assistant" or entry.call_ids or not speaker_of(entry):
        return False
    return is_output("\n".join(part.text for part in texts_of([entry])))


def rejection_in(result: str) -> str:
    """Return the words in which a short result says that the tool did not do it, or an empty text."""
    lines = result.strip().split("\n") if len(result) <= REFUSED_CHARS_MAX else [""]
    if _REFUSED.search(lines[0]):
        # the second line often says what would be allowed
        return one_line(" ".join(line for line in lines[:2] if len(line) <= REFUSED_LINE_CHARS)) or lines[0].strip()
    return lines[-1].strip() if _REFUSED.search(lines[-1]) else ""


def failure_in(result: str, *, by_fields: bool) -> str:
    """Return the line in which a test run or a build says that something failed, the last one; or an empty text."""
    tests = _TESTS if by_fields else _TESTS_BEFORE
    end = result[-TEST_CHARS:]
    if end.isascii() and not any(map(end.lower().__contains__, _FAILS)):
        return ""
    lines = end.split("\n")
    may = list(lines_with(_MAY_FAIL, lines)) if end.isascii() else range(len(lines))
    return next((lines[number].strip() for number in reversed(may) if tests.search(lines[number][:400])), "")


def trace_in(result: str) -> str:
    """Return the title and the last line of the Python trace with which a *result* ends, or an empty text."""
    _, title, trace = result[-TRACE_CHARS:].rpartition(TRACE_TITLE)
    why = trace.rstrip().rsplit("\n", 1)[-1]
    return f"{title}\n{why}" if title and _RAISED.match(why) else ""


def trace_before(result: str) -> str:
    """Return the title and the last line of a Python trace that stands above what else a *result* has, or nothing.

    Who runs a program for an agent often puts what went to stderr first.
    """
    _, title, trace = result[:TRACE_CHARS].partition(TRACE_TITLE)
    why = next((line for line in trace.split("\n")[1:] if line[:1].strip()), "")
    return f"{title}\n{why}" if title and _RAISED.match(why) else ""


def raised(failed: str, result: str) -> str:
    """Return why something *failed*, where it is a Python trace with the place that raised it for its first line."""
    frames = _FRAME.findall(result[-TRACE_CHARS:]) if failed.startswith(TRACE_TITLE) else []
    if not frames:
        return failed
    path, line, function = frames[-1]
    place = "/".join(path.split("/")[-PLACE_PARTS:])
    return f"{failed.split(chr(10), 1)[-1]} {RAISED_IN} {function}, {place}, line {line})"


def without_frames(outcome: str) -> str:
    """Return an *outcome* whose first line says where it was raised without the frames of its Python trace."""
    why, _, rest = outcome.partition("\n")
    if RAISED_IN not in why:
        return outcome
    return "\n".join([why, *(line for line in rest.split("\n") if not _IN_TRACE.match(line))])


def as_said(entry: Entry) -> Entry:
    """Return *entry* without what was shortened of it, as far as the message still has it."""
    if not entry.shown:
        return entry
    away = {part.pointer for part in entry.parts if part.sha256}
    return msgspec.structs.replace(entry, shown=tuple(one for one in entry.shown if one.pointer in away))
