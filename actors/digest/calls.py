"""Calls: a tool call as a person writes it down: what was called, about what, and whether it changes something."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec
import re2

from actors.core.account_text import WRITES
from actors.core.entry import Entry
from actors.core.message_texts import MessageText, texts_of
from actors.core.text.gaps import GAP
from actors.core.text.json_lines import flat, flat_rows
from actors.core.text.kinds import FLAT_DEPTH_MAX, is_deep
from actors.core.text.patterns import stands
from protocol.formats import messages

from .clips import clipped, one_line, without_endless_words
from .edits import EDITS, edits_in, edits_text, patch_text
from .habits import PURPOSE_CHARS_MAX, PURPOSES, is_bound
from .hindsight import Hindsight
from .repeats import is_output
from .written_files import files_patched, files_written, line_of, shell_of, without_way

MODE = "command"
"""The argument by which a tool that does several things is told which one; of others it is a whole command line."""

PATHS = ("path", "file_path", "filepath", "file", "filename", "file_name", "uri", "url")
ALL_PATHS = (
    *PATHS,
    *("absolutePath", "absolute_path", "filePath", "target_file", "TargetFile", "AbsolutePath", "notebook_path"),
)
"""The same since rules 3."""
SHELL_LINES = ("command", "cmd")
COMMANDS = (*SHELL_LINES, "query", "script", "code")
LANGUAGES = frozenset(
    ("python", "py", "javascript", "js", "typescript", "ts", "ruby", "sql", "r", "go", "rust", "java")
)
"""Tools by which a program is run, and no shell."""

LONG_CHARS = 160
SHOWN_FILE_CHARS = 400
_SHOWN_FILE = re.compile(r"^\[File: (\S{1,200}) \(\d+ lines? total\)\]$", re.MULTILINE)
"""How SWE-agent's editor begins what it shows: its commands name lines alone."""

SAID_CHARS_MIN = 40
TARGET_CHARS = 60
PATH_CHARS = 120

_CHANGES = re2.compile(
    rb"(?i)(?:^|[\W_])(?:edit|write|create|insert|replace|patch|update|delete|remove|cancel|book|modify|transfer|send"
    rb"|post|put|commit|install|upgrade|apply|move|rename|mv|cp|rm|mkdir|touch|tee|set|add|submit|restart|scale|drain)"
    rb"(?:[\W_]|$)|[^-=<>&]>>?\s?[\w/.~]"
    rb"|\bsed -i|\bgit (?:checkout|reset|restore|stash|merge|rebase|push|revert)\b"
)
_WRITES_NOTHING = re.compile(rb"\d?>>?\s*(?:/dev/null\b|&\d)|[<>]=?\s*-?\d[\d.]*(?![\w./-])")
"""What looks like the name of a file behind `>`, and is none: where output goes to be lost, and figures compared."""

_LOOKS = re2.compile(
    rb"(?i)^\W*(?:cd \S+ (?:&&|;) )?(?:view|open|cat|ls|find|grep|rg|head|tail|sed -n|awk|wc"
    rb"|git (?:log|diff|show|status|grep)|search|get|list|read|think|todo\w*|describe)\b"
)
TASK_LIST = "its own list of tasks"
"""What a call is about that writes it (`writes_task_list`)."""

TASK_UPDATE = "TaskUpdate"
"""The tool by which Claude Code only says how far one of its own tasks is."""

TASK_PROGRESS = "task_progress"
"""The argument in which Cline's models keep such a list, in each call."""

CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
"""Where a word of a name begins."""

OUTPUT = "output"
"""What was printed, where no call is known for it."""

_THINKS = re.compile(r"(?i)(?:\w+_)?(?:think|thought|reason|reflect)(?:ing)?")
_SEQUENTIAL = re.compile(r"(?i)(?:\w+_)?sequential_?thinking")
"""MCP's server by which an assistant thinks in numbered steps."""

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

_PATCHES = re.compile(r"(?i)(?:\w{1,20}[_.-])?(?:apply_?)?patch")
_DELEGATES = re.compile(
    r"(?i)task|agent|(?:run|dispatch|spawn|call)_?(?:sub_?)?agents?|sub_?agents?|delegate(?:_\w{1,20})?"
)
"""The name of a tool that hands a task to another agent: Claude Code, OpenCode, Crush, GitHub Copilot, pi, CrewAI."""

_TASK_TOOL = re2.compile(rb"(?i)to_?do|(?:^|_)plan$")
_EDITOR = re2.compile(rb"(?i)edit(?:or)?\w*$|replace")
_CONTENT = re.compile(r"(?i)new|old|content|text|patch|diff|edit|replac|insert|code|body|data")


def call_text(call: MessageText, *, chars: int, hindsight: Hindsight, said: str = "") -> str:
    """Return a call as a person writes it: short arguments behind the tool's name, long ones below it.

    What every call of the tool has, and what the assistant *said* beside the call, is left out.
    """
    tool, arguments = call.tool, call.text
    if hindsight.rules_3 and patches(call) and (patched := patch_text(tool, _patch_of(call), chars)):
        return patched
    try:
        value = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        value = arguments
    if isinstance(value, dict | list) and is_deep(value, FLAT_DEPTH_MAX):
        value = one_line(arguments)
    if not isinstance(value, dict):
        text = value if isinstance(value, str) else flat(value)
        text = without_endless_words(text) if hindsight.rules_3 else text
        return clipped(f"{tool} {text}".strip(), chars, names=hindsight.rules_3)
    runs = hindsight.rules_3 and any(key in value for key in SHELL_LINES)
    off = (None, False, "false") if runs else (None,)
    given = ((key, one) for key, one in value.items() if one not in off and not (runs and is_bound(key, one)))
    told = {key: one for key, one in given if not _is_noise(call, key, one, hindsight, said)}
    if hindsight.rules_3:
        told = _with_why(told)
        told = {key: without_endless_words(item) if isinstance(item, str) else item for key, item in told.items()}
    only = next(iter(told.values())) if len(told) == 1 else None
    if isinstance(only, str) and not (hindsight.rules_3 and only in ("true", "false")):
        return clipped(f"{tool} {only.strip()}", chars, names=hindsight.rules_3)
    is_edit = hindsight.rules_3 and changes_something(call, rules_3=True)
    edits, edited = edits_in(told) if is_edit else ([], frozenset[str]())
    if edits:
        # that it is an edit, + and - say
        besides = [key for key, item in told.items() if key in edited or item in (False, *EDITS)]
        begin = clipped(_begin(tool, told, besides), chars)
        return f"{begin}\n{edits_text(edits, chars - len(begin))}"
    long = [key for key, item in told.items() if isinstance(item, str) and ("\n" in item or len(item) > LONG_CHARS)]
    each = max(80, (chars - 100) // max(1, len(long)))
    if hindsight.rules_3:
        begin = _begin(tool, told, long)
    else:
        short = ", ".join(_named(key, item) for key, item in told.items() if key not in long)
        begin = f"{tool} {short}".strip()
    texts = {key: clipped(told[key].strip("\n"), each, names=hindsight.rules_3) for key in long}
    return "\n".join([begin, *(f"{key}:\n{text}" for key, text in texts.items())])


def _with_why(told: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments *told* with what a command is for as its comment."""
    line, why = _line_and_why(told)
    if not why:
        return told
    command = told[line].strip()
    commented = f"# {why}\n{command}" if "\n" in command else f"{command}  # {why}"
    return {key: commented if key == line else item for key, item in told.items() if key not in PURPOSES}


def _line_and_why(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """Return the argument that is a command line, and what it is for; empty where nothing says so in a few words."""
    line = next((key for key in SHELL_LINES if isinstance(arguments.get(key), str)), "")
    why = next(filter(None, map(arguments.get, PURPOSES)), None)
    if not line or not isinstance(why, str) or "\n" in why or len(why) > PURPOSE_CHARS_MAX:
        return "", ""
    return line, why.strip()


def _begin(tool: str, told: Mapping[str, Any], besides: Collection[str]) -> str:
    """Return the line of a call: what a tool of several was to do, the file, and the other arguments by their names."""
    bare = [key for key in (MODE, *ALL_PATHS) if key not in besides and isinstance(told.get(key), str)]
    bare = [key for key in bare if key != MODE or told[key].isidentifier()]
    others = [f"{key} {flat_rows(item)}" for key, item in told.items() if key not in (*bare, *besides)]
    return " ".join(filter(None, (tool, *(told[key] for key in bare), ", ".join(others))))


def _named(key: str, value: object) -> str:
    return f"{key} [{flat(value)}]" if isinstance(value, list) else f"{key} {flat(value)}"


def _is_noise(call: MessageText, key: str, value: object, hindsight: Hindsight, said: str) -> bool:
    if value in (None, "", [], {}):
        return True
    if hindsight.rules_3 and key == TASK_PROGRESS and isinstance(value, str) and "- [" in value:
        return True
    if isinstance(value, str) and len(value) > SAID_CHARS_MIN and value.strip() in said:
        return not (hindsight.rules_3 and key in (*ALL_PATHS, *COMMANDS))
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
    paths = ALL_PATHS if whole_paths else PATHS
    for key in (*paths, *COMMANDS):
        if isinstance(value.get(key), str) and " " in value[key].strip() + (" " if key in paths else ""):
            return _shortly(value[key], whole_paths=whole_paths)
    plain = [item for item in value.values() if isinstance(item, str | int)]
    return _shortly(", ".join(map(str, plain[:3])), whole_paths=whole_paths)


def purpose_of(call: MessageText, hindsight: Hindsight) -> str:
    """Return the comment of a long command line, in which its model says what it is for; empty where there is none."""
    value = arguments_of(call)
    line, why = _line_and_why(value)
    if not why or any((call.tool, key, flat(why)) in hindsight.habits for key in PURPOSES):
        return ""
    # the beginning of a short one is all of it
    return _shortly(f"# {why}") if len(one_line(value[line])) > TARGET_CHARS else ""


def as_line(call: MessageText) -> MessageText:
    """Return *call* with a command that is given as a list of words (Codex: `["bash", "-lc", …]`) as a line."""
    value = arguments_of(call)
    for key in SHELL_LINES:
        words = value.get(key)
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            told = json.dumps({**value, key: line_of(words)}, ensure_ascii=False)
            return msgspec.structs.replace(call, text=messages.without_surrogates(told))
    return call


def files_written_by(call: MessageText) -> str:
    """Return the files that a command line or a patch writes, as the target of its *call*; nothing for any other."""
    value = arguments_of(call)
    if patches(call):
        texts = [text for text in value.values() if isinstance(text, str)] or [call.text]
        files = [name for text in texts for name in files_patched(text)]
        return f"{WRITES}{', '.join(_shortly(name, whole_paths=True) for name in files)}" if files else ""
    if call.tool in LANGUAGES or any(key in value for key in ALL_PATHS):
        return ""
    command = next((value[key] for key in SHELL_LINES if isinstance(value.get(key), str)), "")
    files = files_written(command)
    return f"{WRITES}{', '.join(_shortly(name, whole_paths=True) for name in files)}" if files else ""


def file_shown_in(result: str) -> str:
    """Return the file that an editor names above what it shows of it, as the target of the call that edited it."""
    found = _SHOWN_FILE.search(result[:SHOWN_FILE_CHARS])
    return f"{WRITES}{_shortly(found.group(1), whole_paths=True)}" if found else ""


def changes_something(call: MessageText, *, rules_3: bool) -> bool:
    """Tell whether *call* changes something, by its verb: the argument `command` where there is one, else the tool."""
    value = arguments_of(call)
    verb = value.get("command") or value.get("cmd")
    if rules_3 and call.tool == "TaskCreate":
        # nothing but its own list
        return False
    name = verb if isinstance(verb, str) else CAMEL.sub("_", call.tool)
    told = (shell_of(name) if rules_3 else name)[:400].encode("utf-8", "replace")
    told = _WRITES_NOTHING.sub(b" ", told) if rules_3 else told
    if not stands(_CHANGES, told) or stands(_LOOKS, told):
        return False
    # an editor shows as well as it writes
    edits = isinstance(verb, str) or not stands(_EDITOR, call.tool.encode("utf-8", "replace"))
    return edits or any(_CONTENT.search(key) for key in value)


def only_looks(call: MessageText) -> bool:
    """Tell a call that shows what is there, by its verb: what it shows may tell of failures, and is none."""
    value = arguments_of(call)
    verb = value.get("command") or value.get("cmd")
    told = (verb if isinstance(verb, str) else CAMEL.sub("_", call.tool))[:400].encode("utf-8", "replace")
    return bool(stands(_LOOKS, told))


def _shortly(text: str, *, whole_paths: bool = False) -> str:
    line = without_way(one_line(text)) if whole_paths else one_line(text)
    if whole_paths and " " not in line:
        return line if len(line) <= PATH_CHARS else f"{GAP}{line[-PATH_CHARS:]}"
    return line if len(line) <= TARGET_CHARS else f"{line[:TARGET_CHARS]}{GAP}"


def is_run(entries: Sequence[Entry]) -> bool:
    """Tell whether all that *entries* say was printed: where several speak, who runs programs often is a user."""
    texts = texts_of(entries)
    return bool(texts) and all(part.trust != "tool" and bool(_EXECUTED.match(part.text)) for part in texts)


def thought_in(call: MessageText, *, notes: bool) -> str:
    """Return the assistant's thought, or with *notes* its note, where *call* is a tool for that only; else nothing."""
    is_note = notes and bool(_NOTES.fullmatch(call.tool))
    is_sequential = notes and bool(_SEQUENTIAL.fullmatch(call.tool))
    if not is_note and not is_sequential and not _THINKS.fullmatch(call.tool):
        return ""
    arguments = arguments_of(call)
    values = [arguments.get("thought")] if is_sequential else list(arguments.values())
    text = values[0].strip() if len(values) == 1 and isinstance(values[0], str) else ""
    return "" if is_note and (len(text) < NOTE_CHARS_MIN or " " not in text) else text


def reads_instructions(call: MessageText, *, rules_3: bool) -> bool:
    """Tell a call that shows a file in which a project tells agents what to do."""
    return bool(_INSTRUCTIONS.search(call.text)) and not changes_something(call, rules_3=rules_3)


def _patch_of(call: MessageText) -> str:
    """Return the patch in the arguments of a *call*, which may be nothing else."""
    texts = [text for text in arguments_of(call).values() if isinstance(text, str)]
    return next((text for text in texts if files_patched(text)), "" if texts else call.text)


def patches(call: MessageText) -> bool:
    """Tell a call of a tool that takes a patch and changes the files that it names."""
    return bool(_PATCHES.fullmatch(call.tool))


def delegates(call: MessageText) -> bool:
    """Tell a call that hands a task to another agent: what it returns is that agent's report."""
    return bool(_DELEGATES.fullmatch(call.tool))


def reads_file(call: MessageText) -> bool:
    """Tell a call that names a file: what it returns is that file's text."""
    return any(isinstance(value, str) and key in ALL_PATHS for key, value in arguments_of(call).items())


def speaker_of(entry: Entry) -> str:
    """Return the name of who speaks in *entry*; empty where it has none."""
    value = messages.decode(entry.raw).get("name")
    return _shortly(value) if isinstance(value, str) else ""


def is_printed(entry: Entry) -> bool:
    """Tell what a tool printed, where several assistants speak and one of them says it."""
    if entry.role != "assistant" or entry.call_ids or not speaker_of(entry):
        return False
    return is_output("\n".join(part.text for part in texts_of([entry])))


def as_said(entry: Entry) -> Entry:
    """Return *entry* without what was shortened of it, as far as the message still has it."""
    if not entry.shown:
        return entry
    away = {part.pointer for part in entry.parts if part.sha256}
    return msgspec.structs.replace(entry, shown=tuple(one for one in entry.shown if one.pointer in away))
