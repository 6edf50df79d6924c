"""Written files: which files a command line writes. What an agent changed by its shell is known by their names."""

from __future__ import annotations

import re

COMMAND_CHARS_MAX = 8_000
"""Of a command line, looked at: a longer one is mostly the text that it writes."""

FILES_MAX = 4

_WRITING = (">", "tee ", "-i", "write_", "open(")
"""One of them stands in every command that writes a file here."""

_FILE = r"[\w./~+-]*[A-Za-z][\w./+-]*"
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n(.*?)(?:\n\2\b|\Z)", re.DOTALL)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"")
_REDIRECTED = re.compile(rf"(?<![-=<>&\w])[12]?>>?\s*({_FILE})|\btee (?:-a )?({_FILE})")
_EDITED = re.compile(rf"\b(?:sed|perl) (?:-\w+ )*-\w*i\S*(?: -e)?((?: +{_FILE})+)")
_SQL = re.compile(r"(?i)\b(?:update|insert into|delete from|drop|alter|create) \w")
_SCRATCH = re.compile(r"/(?:var/)?tmp/")
_OPENED = re.compile(r"\bopen\(\s*(?:['\"]([^'\"\n]{1,200})['\"]|(\w+))\s*,\s*['\"][wax]")
_PATH_WRITTEN = re.compile(r"(?:\bPath\(\s*['\"]([^'\"\n]{1,200})['\"]\s*\)|\b(\w+))\.write_(?:text|bytes)\(")
_NAMED = r"\b{}\s*=\s*(?:[\w.]*Path\(\s*)?['\"]([^'\"\n]{{1,200}})['\"]"


def files_written(command: str) -> list[str]:
    """Return the files that *command* writes: by the shell, or by a program in Python that stands in it."""
    if not any(map(command.__contains__, _WRITING)):
        return []
    text, shell = command[:COMMAND_CHARS_MAX], shell_of(command)
    found = [first or second for first, second in _REDIRECTED.findall(shell)]
    found += [name for names in _EDITED.findall(shell) for name in names.split()]
    for literal, variable in (*_OPENED.findall(text), *_PATH_WRITTEN.findall(text)):
        known = re.search(_NAMED.format(re.escape(variable)), text) if variable else None
        found += filter(None, (literal or (known.group(1) if known else ""),))
    files = [name for name in dict.fromkeys(found) if not name.startswith("/dev/") and name[-1:] != "/"]
    # what is written for a moment says less than what stays
    lasting = [name for name in files if not _SCRATCH.match(name)]
    return (lasting or files)[:FILES_MAX]


def shell_of(command: str) -> str:
    """Return the words of *command* for the shell itself: no programs and no texts in it, but SQL that changes data."""
    text = _HEREDOC.sub(r"\3\n", command[:COMMAND_CHARS_MAX])
    return _QUOTED.sub(lambda found: found.group() if _SQL.search(found.group()) else "", text)
