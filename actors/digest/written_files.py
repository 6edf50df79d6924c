"""Written files: which files a command line writes, and which of its words a shell itself reads.

What an agent changed by its shell is known by the names of files. A word is read as a shell reads it, so that no text
that is only printed, looked for or written down passes for a command; what no shell could read names nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

COMMAND_CHARS_MAX = 8_000
"""Of a command line, looked at: a longer one is mostly the text that it writes."""

SHELL_CHARS_MAX = 2_000
"""Of what is left for the shell without the texts below it, which is read character by character."""

_WAY = re.compile(r"cd (?:/d )?(\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s;&\"']{1,400}) ?(&&|;) ")
"""How a command begins that first goes to a folder."""

WAY_CHARS_MIN = 20
"""Of the way there: a shorter one is told whole."""

FILES_MAX, DEPTH_MAX = 4, 2
"""Files of one command that are named; and shells within shells."""

_WRITING = (">", "tee", "sed", "perl", "write_", "open(", "apply_patch")
"""One of them stands in every command that writes a file here."""

_HEREDOC = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"]?)([\w.-]+)\2(?!<)")
_QUOTES = re.compile(r"\\.|['\"]")
_NAME = re.compile(r"[\w./~+@-]*[A-Za-z][\w./+@-]*")
_NO_FILE = re.compile(r"/(?:dev|tmp|var/tmp)/|-|(?i:nul)\Z")
"""What does not stay, a switch behind a placeholder (`<GROUP> -J`), and the nothing of Windows."""

_ASSIGNED = re.compile(r"\w+=.*", re.DOTALL)
_BREAKS = frozenset(";&|()\n")
_REDIRECTS = frozenset((">", ">>", "&>", "&>>", ">|"))
_SHELLS = frozenset(("bash", "sh", "zsh", "dash"))
_BEFORE_NAMES = frozenset(("sudo", "env", "time", "nohup", "exec", "then", "do", "else", "if", "while", "!"))
_SQL = re.compile(r"(?i)\b(?:update|insert into|delete from|drop|alter|create) \w")
_PATCHED = re.compile(r"^\*\*\* (?:Add|Update) File: (\S+)$", re.MULTILINE)
_OPENED = re.compile(r"\bopen\(\s*(?:['\"]([^'\"\n]{1,200})['\"]|(\w+))\s*,\s*['\"][wax]")
_PATH_WRITTEN = re.compile(r"(?:\bPath\(\s*['\"]([^'\"\n]{1,200})['\"]\s*\)|\b(\w+))\.write_(?:text|bytes)\(")
_NAMED = r"\b{}\s*=\s*(?:[\w.]*Path\(\s*)?['\"]([^'\"\n]{{1,200}})['\"]\)?\s*(?=[;\n]|\Z)"


@dataclass
class Line:
    """A command line as a shell reads it."""

    words: list[str] = field(default_factory=list)
    """Without texts of several words, but those that are commands themselves."""
    files: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    """The texts that were written into files."""


PATCH = "*** Begin Patch"


def files_written(command: str) -> list[str]:
    """Return the files that *command* writes and that stay: by the shell, or by a program that it runs."""
    if not any(map(command.__contains__, _WRITING)):
        return []
    line = read(command)
    names = filter(_NAME.fullmatch, dict.fromkeys(line.files if line else ()))
    return [name for name in names if name[-1] != "/" and not _NO_FILE.match(name)][:FILES_MAX]


def files_patched(patch: str) -> list[str]:
    """Return the names of the files that a *patch* adds, changes or takes away, in Codex's form, each once."""
    return list(dict.fromkeys(map(str.strip, _PATCHED.findall(patch))))[:FILES_MAX] if PATCH in patch else []


def line_of(words: list[str]) -> str:
    """Return the line that *words* are: what a shell is given as one, or the words themselves."""
    name, *options = words[:-1] or [""]
    is_shell = name.rpartition("/")[2] in _SHELLS and bool(options) and options[-1].endswith("c")
    return words[-1] if is_shell else shlex.join(words)


def without_way(line: str) -> str:
    """Return a command *line* that begins in a folder with the folder's last name alone: the way there is long."""
    found = _WAY.match(line)
    path = found[1].strip("\"'").rstrip("/\\") if found else ""
    folder = re.split(r"[/\\]", path)[-1]
    if not found or len(path) < WAY_CHARS_MIN or folder == path:
        return line
    return f"cd …/{folder} {found[2]} {line[found.end() :]}"


def shell_of(command: str) -> str:
    """Return the words of *command* that a shell reads, on one line; all of it where no shell could read it."""
    line = read(command)
    return command if line is None else " ".join(line.words)


def read(command: str, depth: int = 0) -> Line | None:
    """Return *command* as a shell reads it; None for what it would not take."""
    shell, below = _parted(command[:COMMAND_CHARS_MAX])
    line, texts = Line(), iter(below)
    try:
        tokens = _tokens(shell[:SHELL_CHARS_MAX])
    except ValueError:
        return None
    for words, redirected, heredocs in _commands(tokens):
        line.files += redirected
        given = [next(texts, "") for _ in range(heredocs)]
        line.texts |= dict.fromkeys(redirected, "\n".join(given))
        _add(line, words, given, depth)
    return line


def _parted(command: str) -> tuple[str, list[str]]:
    """Return *command* without the texts that stand below it (`<<EOF`), and these texts."""
    kept: list[str] = []
    below: list[str] = []
    lines = iter(command.split("\n"))
    quote = ""
    for line in lines:
        found = [] if quote else [one for one in _HEREDOC.finditer(line) if not _quote(line[: one.start()], "")]
        quote = _quote(line, quote)
        kept.append(_HEREDOC.sub("<< _", line) if found else line)
        for dash, _, end in (one.groups() for one in found):
            text: list[str] = []
            for one in lines:
                if (one.strip() if dash else one) == end:
                    break
                text.append(one)
            below.append("\n".join(text))
    return "\n".join(kept), below


def _quote(text: str, within: str) -> str:
    """Return the quote that is open behind *text*, which begins *within* one, or in none."""
    for sign in _QUOTES.findall(text):
        if not within:
            within = sign if len(sign) == 1 else ""
        elif sign == within:
            within = ""
    return within


def _tokens(shell: str) -> list[str]:
    """Return the words and the signs of a *shell*'s line. Raises `ValueError` where a quote has no end."""
    lexer = shlex.shlex(shell, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    return list(lexer)


def _commands(tokens: list[str]) -> Iterator[tuple[list[str], list[str], int]]:
    """Yield the words of each command, the files that it is redirected to, and how many texts stand below it."""
    words: list[str] = []
    files: list[str] = []
    heredocs = 0
    before = ""
    for token in (*tokens, "\n"):
        if before in _REDIRECTS and not _BREAKS.issuperset(token):
            files.append(token)
        elif before == "<<":
            heredocs += 1
        elif token and _BREAKS.issuperset(token):
            if words or files or heredocs:
                yield words, files, heredocs
            words, files, heredocs = [], [], 0
        elif not set(token) <= set("<>&|"):
            words.append(token)
        before = token


def _add(line: Line, words: list[str], below: list[str], depth: int) -> None:
    """Add one command with these *words*, and the texts *below* it, to *line*."""
    while words and (_ASSIGNED.fullmatch(words[0]) or words[0] in _BEFORE_NAMES):
        words = words[1:]
    name = words[0].rpartition("/")[2] if words else ""
    line.words += [word for word in words if not re.search(r"\s", word) or _SQL.search(word)]
    line.words += [text for text in below if _SQL.search(text)] if "sql" in name else []
    line.words.append(";")
    if name == "tee":
        line.files += [word for word in words[1:] if not word.startswith("-")]
    elif name in ("sed", "gsed", "perl"):
        line.files += _edited(words[1:])
    elif name == "apply_patch":
        line.files += _PATCHED.findall("\n".join((*words, *below)))
    elif name.startswith("python"):
        programs = (*(line.texts.get(word, word) for word in words[1:]), *below)
        line.files += [file for program in programs for file in _written_by(program)]
    elif name in _SHELLS or name == "ssh":
        inner = [word for word in words[1:] if " " in word]
        for text in (*inner, *below) if depth < DEPTH_MAX else ():
            if (within := read(text, depth + 1)) is not None:
                line.words += within.words
                line.files += within.files


def _edited(words: list[str]) -> list[str]:
    """Return the files that `sed` or `perl` with these *words* edits in place."""
    options = [word for word in words if word.startswith("-")]
    in_place = any(re.fullmatch(r"-[A-Za-z]*i\S*|--in-place\S*", word) for word in options)
    if not in_place:
        return []
    given = [word for word in words if word and not word.startswith("-")]
    # behind -e stands a script, and else the first word is one
    scripts = max(1, sum(bool(re.fullmatch(r"-[A-Za-z]*e|--expression", word)) for word in options))
    return given[scripts:]


def _written_by(program: str) -> Iterator[str]:
    """Yield the files that a *program* in Python writes, where it names them."""
    for literal, variable in (*_OPENED.findall(program), *_PATH_WRITTEN.findall(program)):
        named = re.findall(_NAMED.format(re.escape(variable)), program) if variable else []
        yield from (literal,) if literal else named[-1:]
