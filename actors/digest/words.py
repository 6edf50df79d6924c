"""Words: what an assistant said, in fewer characters; the programs between its words come last."""

from __future__ import annotations

from collections.abc import Sequence

from actors.core.text.excerpt import excerpt, sentences_excerpt
from actors.core.text.gaps import GAP

from .hindsight import Hindsight
from .pieces import FENCED

WORDS_LINES_MIN = 8
_FENCES = "\n```\n{}\n```"
PROGRAM_SHARE, PROGRAM_CHARS_MIN = 0.1, 80
"""Of what was said, for programs in it; in less than these characters a program says nothing."""


def words_in(text: str, chars: int, number: int, hindsight: Hindsight) -> str:
    """Return an assistant's words in at most *chars* characters: of many lines, those that mattered."""
    if len(text) <= chars or not chars:
        return text if chars else ""
    if hindsight.rules_3 and (programs := FENCED.findall(text)):
        return _words_first(FENCED.sub("\n", text), programs, chars, number, hindsight)
    sought, clauses = hindsight.seeker(after=number), hindsight.rules_3
    if text.count("\n") < WORDS_LINES_MIN:
        return sentences_excerpt(text, chars=chars, sought=sought, clauses=clauses)
    return excerpt(text, chars=chars, sought=sought, clauses=clauses, ordered=clauses)


def _words_first(words: str, programs: Sequence[str], chars: int, number: int, hindsight: Hindsight) -> str:
    """Return *words* in at most *chars* characters, and of the *programs* between them what there is room for.

    A program is often sent again, and run; why it was written, and what for, is said once.
    """
    told = words_in(words.strip(), chars - int(chars * PROGRAM_SHARE), number, hindsight)
    left = chars - len(told) - len(_FENCES)
    program = "\n".join(filter(None, (program.strip("`\n ") for program in programs)))
    if left < PROGRAM_CHARS_MIN or not program:
        return f"{told.rstrip(f' {GAP}')} {GAP}".lstrip()
    short = excerpt(program, chars=left, sought=hindsight.seeker(after=number), clauses=True)
    return f"{told}{_FENCES.format(short)}".lstrip("\n")
