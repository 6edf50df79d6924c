"""Noise: what a program prints and nobody needs afterwards: lines that say nothing, frames, a file's rights."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import re2

from .shorten.lines import lines_with

_DRAWN = re.compile(r"\s*([=_~*-])\1{4,}\s+(\S.*\S|\S)\s+\1{5,}\s*")
"""A title between two drawn lines, as a test runner prints it."""

_NOTHING = re.compile(
    r"test session starts|short test summary info|cachedir: \S*\.pytest_cache|collecting \.\.\. collected \d+ items?"
    r"|index [0-9a-f]{7,40}\.\.[0-9a-f]{7,40}(?: \d{6})?"
    r"|.*(?:\d+%\||[━█▏▎▍▌▋▊▉]{3,}|#{5,}|={3,}>).*(?:\d ?[kKMG]?i?B/s|\d ?it/s|\beta\b).*"
    r"|\W*[\d.]+/[\d.]+ [kKMG]?i?B\b.*(?:\?|/s|\beta\b).*"
)
"""What every run of pytest says, the blobs of a diff, and how far a download was: what no file has."""

_IDLE = re.compile(r"(?:Debugger attached\.|Waiting for the debugger to disconnect\.\.\.|\s)+")
"""What every program prints that Node's debugger is attached to."""

_MAY = re2.compile(r"index |test s|\.pytest_cache|collecting |[Bt]/s|/\S+ [kKMG]?i?B\b.*/s|\beta\b|\? eta")
_MARKS = ("/s", "?", "index ", "eta", "collecting", "test s", ".pytest_cache")
"""One of them stands in every line that says nothing; in most lines none does."""

TITLE_CHARS_MAX, LINE_CHARS_MAX = 160, 400
"""A longer line is neither a title nor noise: it is not looked into."""


_LISTED_KINDS, _RIGHTS = "-dlbcps", "-rwxsStT"
_LISTED = re.compile(
    rf"^([{_LISTED_KINDS}])[{_RIGHTS}]{{9}}[+.@]? +\d+ +\S+ +\S+ +([\d.,]+[kKMGT]?) +"
    r"(?:\w{3} +\d+ +[\d:]+|\d+-\d\d-\d\d \S+) +(\S.*)$"
)
"""A line of `ls -l`: kind, size, name. Rights, owner and date say little afterwards."""

_PASSED = re.compile(r"\bPASSED\b|^\s*(?:✓|✔|--- PASS)|\.\.\. ok$")
_PASSED_MARKS = ("PASSED", "... ok", "✓", "✔", "--- PASS")
_FAILED = re.compile(r"\bFAILED\b|^\s*(?:✗|✘|×|--- FAIL)|\.\.\. (?:FAIL|ERROR)$")
"""A test that passed, or did not, as those who run them print it: pytest, unittest, cargo, go, vitest, mocha."""

_LETTER = re.compile(r"[^\W_]")
SHORT_CHARS = 24
"""A longer line without a letter or a figure is a ruler, or a text of another sort."""

_NONE = (">", "null", "None", "nil", "none", "[]", "{}", "N/A", "n/a")
_ABSENT = re.compile(r"\s*[\w ()/.-]+: *(?:<\w+>|null|None|nil|none|\[\]|\{\}|N/A|n/a)")
"""A name without a value, as `Host Port: <none>`."""

FRAGMENT_LETTERS = 3
"""Letters and figures of a line that says something by itself, at least."""

_DEFINES = re.compile(
    r"\s*(?:(?:export|default|public|private|protected|static|final|abstract|async|pub|override|inline) )*"
    r"(?:(?:class|interface|struct|enum|trait|namespace|module) [\w.]+(?:\s*[({:<;]|\s+(?:extends|implements|for)\b|$)"
    r"|(?:def|function|func|fn|fun|sub) (?:\([^)]*\) )?[\w.$]+\s*[(<\[]"
    r"|type \w+ (?:=|struct|interface)|(?:const|let|var) \w+ = (?:async )?(?:function|\([^)]*\) =>))"
)
"""The line of a program that defines a class, a function or a type, as the usual languages write it."""

_IMPORTS = re.compile(r"\s*(?:import\s+[\w{*\"']|from \S+ import\b|#include [<\"]|using [\w.]+;|use [\w:]+|\w+,\s*$)")

_SOURCE_ENDS = tuple("{};(,[")
_SOURCE = re.compile(
    r"\s*(?:(?://|#|/?\*|@\w)|(?:raise|return|throw|import|def|class)\b|from \S+ import\b"
    r"|(?:if|elif|else|for|while|with|try|except|finally)\b.*:\s*$"
    r"|[\w.]+(?:: [\w\[\], |.]+)? [-+*/|&]?= |[\w.]+\(.*\)\s*$)"
)
"""How a line of a program ends, and how others begin."""

SOURCES_SHARE, SOURCES_LOOKED = 0.5, 40
"""Of the lines of a text that is a program's, how many end or begin so; and how many are looked at before all are."""

_FAILING = re.compile(r">\s{2,}\S")
_RAISED = re.compile(r"E\s{2,}\S")
BELOW_MAX = 4


def without_noise(lines: list[str]) -> list[str]:
    """Return *lines* without those that say nothing; all of them where none says something."""
    noise = {number for number in lines_with(_MAY, lines) if says_nothing(lines[number])}
    return [line for number, line in enumerate(lines) if number not in noise] if len(noise) < len(lines) else lines


def says_nothing(line: str) -> bool:
    """Tell a line of which nobody needs to know afterwards."""
    if len(line) > LINE_CHARS_MAX or not any([mark in line for mark in _MARKS]):
        return False
    return bool(_NOTHING.fullmatch(undrawn(line).strip()))


def is_idle(line: str) -> bool:
    """Tell what a program printed that only says that it runs."""
    return says_nothing(line) or bool(_IDLE.fullmatch(line))


def undrawn(line: str) -> str:
    """Return the title that a *line* draws two lines around, or *line* as it is."""
    if len(line) > TITLE_CHARS_MAX or line.lstrip()[:1] not in ("=", "_", "~", "*", "-"):
        return line
    title = _DRAWN.fullmatch(line)
    return title.group(2) if title else line


def passed_tests(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines of tests that passed, where another one failed."""
    body = "\n".join(lines)
    if not any(mark in body for mark in _PASSED_MARKS):
        return []
    passed = [number for number, line in enumerate(lines) if _PASSED.search(line)]
    return passed if passed and any(map(_FAILED.search, lines)) else []


def wordless(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that only close or part what others say, as a brace does."""
    return [number for number, line in enumerate(lines) if len(line) < SHORT_CHARS and not _LETTER.search(line)]


def absences(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines that say of one thing that there is none."""
    return [number for number, line in enumerate(lines) if line.endswith(_NONE) and _ABSENT.fullmatch(line)]


def fragments(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines too short to say anything without their neighbours, as an argument `-c` is.

    The first and the last one may be an answer.
    """
    return [
        number
        for number, line in enumerate(lines[1:-1], 1)
        if len(line) < SHORT_CHARS and len(_LETTER.findall(line)) < FRAGMENT_LETTERS
    ]


def labels(lines: Sequence[str], program: Collection[int]) -> list[int]:
    """Return the numbers of the lines that announce what stands below them, but for those of a *program*."""
    return [
        number
        for number, line in enumerate(lines[:-1])
        if line.endswith(":") and not line.endswith("):") and number not in program
    ]


def sources(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the lines that are a program's, where most are: what they say of errors, none has seen."""
    some = lines[:: 1 + len(lines) // SOURCES_LOOKED]
    if not _are_sources(sum(map(_is_source, some)), some):
        return frozenset()
    found = frozenset(number for number, line in enumerate(lines) if _is_source(line))
    return found if _are_sources(len(found), lines) else frozenset()


def _is_source(line: str) -> bool:
    return line.rstrip().endswith(_SOURCE_ENDS) or bool(_SOURCE.match(line))


def _are_sources(found: int, lines: Sequence[str]) -> bool:
    return found >= SOURCES_SHARE * len(lines)


def defines(text: str) -> bool:
    """Tell whether a class, a function or a type is defined somewhere in *text*."""
    return bool(_DEFINES.search(text))


def definitions(program: Collection[int], lines: Sequence[str]) -> list[int]:
    """Return the numbers of those *lines* of a *program* that define something: for these it is looked into."""
    return [number for number in program if _DEFINES.match(lines[number])]


def imports(program: Collection[int], lines: Sequence[str]) -> list[int]:
    """Return the numbers of those *lines* of a *program* that name what it uses of others."""
    return [number for number in program if _IMPORTS.match(lines[number])]


def failing_sources(lines: Sequence[str]) -> list[int]:
    """Return the numbers of the lines of a program that failed: pytest marks them, and what was raised below them."""
    return [
        number
        for number, line in enumerate(lines)
        if line[:1] == ">"
        and _FAILING.match(line)
        and any(map(_RAISED.match, lines[number + 1 : number + 1 + BELOW_MAX]))
    ]


def without_rights(line: str) -> str:
    """Return the name of a file that `ls -l` lists, with its size; any other *line* as it is."""
    return _LISTED.sub(_name_listed, line) if line[:1] in _LISTED_KINDS and line[1:2] in _RIGHTS else line


def _name_listed(found: re.Match[str]) -> str:
    """Return the name of a file that `ls -l` lists, with its size; of a folder, its name with a slash."""
    kind, size, name = found.groups()
    return f"{name}/" if kind == "d" else f"{name} {size}"
