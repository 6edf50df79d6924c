"""Repeats: what is printed once more in the same words, or said after the user, is told once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from actors.core.message_texts import MessageText
from actors.core.text.gaps import GAP
from protocol.account import AccountRequest

AGAIN_CHARS_MIN = 200
"""Of a message: a shorter one costs less than the word that it is said again."""

ASKED_CHARS_MIN = 60
"""Of a sentence of the user that is said after him; a shorter one may say something by standing where it does."""

ASKED_WHOLE_CHARS_MAX = 1_500
"""Of what a user said at once: more may be shortened in the account, and then who repeats it says what counted."""

_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s+")
_AROUND = " .!?。！？*\"'`"


@dataclass(kw_only=True)
class Repeats:
    """The long messages of assistants, who also say what was printed, by their text; and what users said."""

    newest: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, texts: Iterable[MessageText], requests: Iterable[AccountRequest]) -> Repeats:
        """Look at *texts*, the oldest first, and at what users said before them, as the account has it."""
        repeats = cls()
        for part in texts:
            if part.trust == "user":
                repeats._know_asked(part.text)
            elif part.trust == "assistant" and not part.tool and len(part.text) >= AGAIN_CHARS_MIN:
                repeats.newest[part.text.strip()] = part.number
        for request in requests:
            repeats._know_asked(request.text)
        return repeats

    def _know_asked(self, said: str) -> None:
        if len(said) <= ASKED_WHOLE_CHARS_MAX:
            self.asked.append(_plain(said))

    def again(self, printed: str, *, after: int) -> str:
        """Return where all that message *after* says was *printed* is said again; empty where it is not."""
        number = self.newest.get(printed, 0) if len(printed) >= AGAIN_CHARS_MIN else 0
        return f"[printed again in #{number}]" if number > after else ""

    def without_asked(self, words: str) -> str:
        """Return an assistant's *words* without the sentences that the user said: a gap stands for them."""
        if not self.asked:
            return words
        return "\n".join(
            self._line_without(line) if len(line) >= ASKED_CHARS_MIN else line for line in words.split("\n")
        )

    def _line_without(self, line: str) -> str:
        pieces = [GAP if self._was_asked(piece) else piece for piece in _SENTENCE_END.split(line)]
        return line if GAP not in pieces else " ".join(pieces)

    def _was_asked(self, sentence: str) -> bool:
        """Tell whether a user said *sentence*; the first word may be another one, as of a task that was a question."""
        plain = _plain(sentence)
        if len(plain) < ASKED_CHARS_MIN:
            return False
        behind = plain.split(" ", 1)[-1]
        return any(plain in said or (len(behind) >= ASKED_CHARS_MIN and behind in said) for said in self.asked)


def _plain(text: str) -> str:
    return " ".join(text.split()).strip(_AROUND).casefold()
