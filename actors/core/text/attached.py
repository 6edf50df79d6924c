"""Attached: files, pages and logs that a program put beside a person's words since they named them.

Source: Cline, Roo Code, IBM Bob, GitHub Copilot, Cursor, Amp, Crush, pi, Gemini CLI, Codex: their code or runs.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import NamedTuple

from .gaps import GAP

ATTACHED_CHARS_MIN = 600
"""Of all in a text: less stays with the words."""

_BELOW = "file_content|folder_content|url_content|git_commit|terminal_output|workspace_diagnostics"
"""Elements of Cline and Roo Code, which stand below all words."""

_AROUND = "attachments|attached_files|attachedFiles|code_selection"
"""Of GitHub Copilot, Cursor and Amp."""

_PATH = r"(?:path|filePath|name|url|id)"
_ELEMENT = re.compile(
    rf"(?m)^[ \t]{{0,20}}<(?:({_BELOW}|{_AROUND})\b[^>\n]{{0,600}}"
    rf"|(file|document|attachment|attached_file)\s(?=[^>\n]{{0,300}}\b{_PATH}=)[^>\n]{{1,600}})(?<!/)>"
)
"""How an element begins, at the beginning of a line."""

ELEMENTS_MAX = 12
"""That are looked for; what is behind them stays with the words."""

_NAME = re.compile(rf"\b{_PATH}=(?:\"([^\"\n]+)\"|'([^'\n]+)')")
_INSIDE = re.compile(
    rf"(?m)^[ \t]*(?:<(?:attachment|attached_file|file|document|code_selection)\s[^>\n]*?\b{_PATH}="
    r"(?:\"([^\"\n]+)\"|'([^'\n]+)')|```(?:file://)?([\w./~-]+\.\w+)$)"
)
"""What is attached, in an element around all of it."""

_REFERRED, _REFERRED_END = "--- Content from referenced files ---\n", "--- End of content ---"
_REFERRED_NAME = re.compile(r"(?m)^Content from @?(\S[^\n]*):$")
"""Gemini CLI's and Qwen Code's."""

_CODEX = re.compile(r"\A\s*(# Context from my IDE setup:\n.*?\n)?## My request for Codex:\n", re.DOTALL)
_CODEX_NAME = re.compile(r"(?m)^## Active file: (\S[^\n]*)$")
_SELECTED = "\n## Active selection of the file"
"""Without it Codex tells of the editor's state alone."""

_CLOSED_ALONE = re.compile(r"\n</(userRequest|user_query)>\s{0,8}\Z")
"""Of GitHub Copilot and Cursor, around a person's words: what was shortened may not have its beginning."""

_EMPTY = re.compile(r"\s*\d+ ?[|→:]?\s*")
"""A line of a file in which nothing stands but its number."""

_CUT = re.compile(r"(?m)^\[… [\d,]+ (?:lines?|characters)\b")
"""In what was shortened, whose end may be gone."""


def told_lines(text: str) -> str:
    """Return *text* without empty lines, and with marks of ours for what was left out of it before."""
    lines = (GAP if _CUT.match(line) else line for line in text.splitlines())
    return "\n".join(line for line in lines if line.strip() and not _EMPTY.fullmatch(line))


class Attached(NamedTuple):
    """What is attached to a person's words, by the names of what was given, and its text."""

    names: tuple[str, ...]
    text: str

    @property
    def is_cut(self) -> bool:
        """Whether it was shortened before."""
        return _CUT.search(self.text) is not None


def parted(text: str) -> tuple[str, list[Attached]]:
    """Return the words in *text* without what is attached to them, and that; *text* where it is little, or all."""
    asked = _CODEX.match(text)
    bare = text[asked.end() :] if asked else text
    above = ((asked.group(1) if asked else None) or "").strip()
    found = [Attached(tuple(_CODEX_NAME.findall(above)), above)] if _SELECTED in above else []
    words, referred = _referred(bare)
    words, elements = _elements(words)
    found += [*referred, *elements]
    if elements and (left := _CLOSED_ALONE.search(words)) and f"<{left.group(1)}>" not in words:
        words = words[: left.start()]
    if not words.strip() or sum(len(one.text) for one in found) < ATTACHED_CHARS_MIN:
        # a few lines that were selected stay where they stand
        return bare if bare.strip() and _SELECTED not in above else text, []
    return words.strip(), found


def _referred(text: str) -> tuple[str, list[Attached]]:
    """Return *text* without what Gemini CLI puts below it for each `@path` in it, and that."""
    found: list[Attached] = []
    start = text.find(_REFERRED)
    end = text.find(_REFERRED_END, start)
    if 0 <= start < end:
        inner = text[start + len(_REFERRED) : end].strip()
        found.append(Attached(tuple(_REFERRED_NAME.findall(inner)), inner))
        text = f"{text[:start].rstrip()}\n{text[end + len(_REFERRED_END) :].lstrip()}"
    return text, found


def _elements(text: str) -> tuple[str, list[Attached]]:
    """Return *text* without elements of what is attached, and these; one whose end is gone leaves what it has."""
    found: list[Attached] = []
    words: list[str] = []
    at = 0
    for opening in islice(_ELEMENT.finditer(text), ELEMENTS_MAX):
        if opening.start() < at:
            continue  # in what is attached already
        words.append(text[at : opening.start()])
        end, at = _end_of(text, opening)
        if end >= 0:
            inner = text[opening.end() : end].strip("\n")
            given = _NAME.search(opening.group())
            names = [given] if given else _INSIDE.finditer(inner)
            told = tuple(next(filter(None, one.groups())) for one in names)
            found.append(Attached(tuple(dict.fromkeys(told)), inner))
    return "".join([*words, text[at:]]), found


def _end_of(text: str, opening: re.Match[str]) -> tuple[int, int]:
    """Return where an element ends, and where what follows begins; -1 and the end of its opening where it does not end.

    What is in it may have such an element, too, with its end.
    """
    name = opening.group(1) or opening.group(2)
    if text.find(f"</{name}>", opening.end()) < 0:
        is_last = name in _BELOW.split("|") and _CUT.search(text, opening.end())
        return (len(text), len(text)) if is_last else (-1, opening.end())
    depth, first = 1, -1
    for tag in re.compile(rf"<(/?){re.escape(name)}\b[^>\n]{{0,600}}>").finditer(text, opening.end()):
        depth += -1 if tag.group(1) else 1
        first = tag.start() if first < 0 and tag.group(1) else first
        if depth == 0:
            return tag.start(), tag.end()
    # what is in it began one that does not end
    return first, first + len(name) + 3
