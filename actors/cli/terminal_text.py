"""Terminal text: text of conversations as a terminal may show it.

It is hostile: an escape sequence in it is shown, not obeyed.
"""

from __future__ import annotations

import re

from protocol.ids import Token, name_of

_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])e--[A-Za-z0-9_-]+")
_CONTROLS = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"}
_REPLACED = {code: 0xFFFD for code in (0x7F, *range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A))}
_TABLE = _CONTROLS | _REPLACED
"""Control characters by their pictures; the rest of them, and what turns the direction of writing, by U+FFFD."""


def plain(text: str) -> str:
    """Return *text* without anything that a terminal would act upon, line ends and tabs aside."""
    return text.translate(_TABLE).encode("utf-8", "replace").decode()


def one_line(text: str, *, chars: int) -> str:
    """Return the beginning of *text* on one line of at most *chars* characters."""
    line = " ".join(plain(text[: chars * 4]).split())
    return line if len(line) <= chars else line[: chars - 1] + "…"


def named(text: str) -> str:
    """Return *text* with ids in it as people typed them, where their safe form still says it."""
    return _TOKEN.sub(lambda found: plain(name_of(Token(found[0]))), text)


def counted(number: int, what: str) -> str:
    """Return *number* and the noun that goes with it."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
