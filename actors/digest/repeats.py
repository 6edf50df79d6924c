"""Repeats: what is printed once more in the same words, or said after the user, is told once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from actors.core.message_texts import MessageText
from actors.core.text.gaps import GAP
from actors.core.text.phrases import tells
from protocol.account import AccountRequest

AGAIN_CHARS_MIN = 200
"""Of a message: to say of a shorter one where it is printed again costs as much as the message."""

ASKED_CHARS_MIN = 60
"""Of a sentence of the user that is said after him; a shorter one may say something by standing where it does."""

ASKED_WHOLE_CHARS_MAX = 1_500
"""Of what a user said at once: more may be shortened in the account, and then who repeats it says what counted."""

SPOKEN_CHARS_MAX = 6000
"""A longer text was printed by a program: nobody says so much."""

_PRINTED = re.compile(r"(?i)\s*(?:exit ?code: -?\d+|address: \S+:|\$ \S+|>>> )")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")


@dataclass(kw_only=True)
class Repeats:
    """The long messages of assistants, who also say what was printed, by their text; and what users said."""

    newest: dict[str, int] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    """Long lines of assistants, with the number of the newest message that has each."""
    said: list[str] = field(default_factory=list)
    """What users said, each at once."""
    brief: int = 0
    """The number of the first message of an assistant, where it is known: with several of them it hands the task on."""

    @classmethod
    def of(cls, texts: Sequence[MessageText], requests: Iterable[AccountRequest], *, is_begun: bool) -> Repeats:
        """Look at *texts*, the oldest first, and at what users said before them, as the account has it.

        *is_begun*: there are steps before them, and so the first message of an assistant is none of *texts*.
        """
        repeats = cls()
        for part in texts:
            if part.trust == "user":
                repeats.said.append(part.text)
            elif part.trust == "assistant":
                repeats.brief = repeats.brief or (0 if is_begun else part.number)
                if not part.tool and len(part.text) >= AGAIN_CHARS_MIN:
                    repeats.newest[part.text.strip()] = part.number
                if not part.tool and len(part.text) >= AGAIN_CHARS_MIN and not is_output(part.text):
                    repeats.lines |= dict.fromkeys(filter(_is_long, map(str.strip, part.text.split("\n"))), part.number)
        repeats.said += [request.text for request in requests]
        return repeats

    @cached_property
    def _asked(self) -> frozenset[str]:
        """Return the sentences of users; most compactions need none."""
        lines = (line for said in self.said if len(said) <= ASKED_WHOLE_CHARS_MAX for line in said.split("\n"))
        return frozenset(_plain(sentence) for line in lines for sentence in _SENTENCE_END.split(line))

    def again(self, printed: str, *, after: int) -> str:
        """Return the note that all that message *after* says was *printed* is said again; empty where it is not."""
        number = self.newest.get(printed, 0) if len(printed) >= AGAIN_CHARS_MIN else 0
        return f"[printed again in #{number}]" if number > after else ""

    def without_later(self, words: str, *, number: int) -> str:
        """Return the *words* of message *number* without long lines that an assistant says again later: a gap stands
        for them. Where several plan together, each says the plan anew.

        Later words may be shortened: what tells something, and a message that would say nothing else, stays.
        """
        lines = words.split("\n")
        kept = [line if self.lines.get(line.strip(), 0) <= number or tells(line) else GAP for line in lines]
        if all(line == GAP or not line.strip() for line in kept):
            return words
        return "\n".join(line for line, before in zip(kept, ("", *kept), strict=False) if line != GAP or before != GAP)

    def without_asked(self, words: str, *, number: int) -> str:
        """Return the *words* of message *number*, if it hands the task on, without the sentences of the user: a gap
        stands for them. In any other message the same words may be an answer."""
        if number != self.brief or not self._asked:
            return words
        return "\n".join(map(self._line_without, words.split("\n")))

    def _line_without(self, line: str) -> str:
        if len(line) < ASKED_CHARS_MIN:
            return line
        pieces = _SENTENCE_END.split(line)
        kept = [piece if len(piece) < ASKED_CHARS_MIN or _plain(piece) not in self._asked else GAP for piece in pieces]
        return " ".join(kept) if GAP in kept else line


def _is_long(line: str) -> bool:
    # a row alone says nothing, nor do rows without the names of their columns
    return len(line) >= ASKED_CHARS_MIN and not line.startswith("|")


def is_output(text: str, *, reports: bool = False) -> bool:
    """Tell what was printed by a tool from what somebody says; who *reports* may say much at once."""
    return (len(text) > SPOKEN_CHARS_MAX and not reports) or bool(_PRINTED.match(text))


def _plain(sentence: str) -> str:
    return " ".join(sentence.split()).casefold()
