"""Values that no step tells: each as a fragment of the line it stood in, so that one sees what it is a value of."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from actors.core.account_text import step_text
from actors.core.entry import Entry
from actors.core.extract import SPOKEN, ranked
from actors.core.ledger import Ledger
from actors.core.message_texts import MessageText, opened_text, redacted_texts
from actors.core.text.cline import as_speech
from actors.core.text.count import Count
from actors.core.text.excerpt import readable_lines
from actors.core.text.forms import with_labels
from actors.core.text.json_lines import json_lines
from actors.core.text.noise import says_nothing
from actors.core.text.notices import is_notice
from actors.core.text.patterns import encoded, standing_among
from actors.core.text.sentences import is_ended, sentences_of
from actors.core.text.shorten.lines import shapes_of
from actors.core.text.spoken import spoken
from protocol.account import Account, AccountValue
from protocol.facts import DigestItem

from .calls import arguments_of, as_said, is_printed
from .clips import clipped, one_line
from .edit_blocks import without_blocks
from .fragments import without_parts
from .records import fields_of

KINDS = frozenset(("path", "url", "email", "host", "id", "commit", "version", "amount", "setting", "status", "symbol"))
BESIDE_CHARS = 36
"""On each side of a value."""

ROW_CHARS_MAX, ROW_CELLS_MIN = 90, 4
"""A row of so many cells stands whole: each says what the others are about."""

SENTENCE_CHARS_MAX = 200
WRAPPED_CHARS_MIN = 40
"""A sentence goes on from a line of so many characters."""

ESCAPED_ENDS_MIN = 3
_ESCAPED_END, _IN_PATTERN = r"\n", re.compile(r"\\n(?![\w\s#*\"'-]|\\n|$)")
"""Line ends in a string of a program: so many make it a text of lines, as fewer stand in paths of Windows, too; and one
before another mark is a part of a pattern."""

CANDIDATES_MAX = 600
FRAME_TOKENS = 3
ALIKE_MAX = 2
NAMES = frozenset(("symbol", "setting", "status"))
SLICE_CHARS_MAX = 8
_SLICE = re.compile(rf"[\d:]{{2,{SLICE_CHARS_MAX}}}")
"""A slice in a program (`1::6`), or a time of day: no address."""

AT_ONCE = 400
"""Values that are looked for in one pass: a pass costs as much with a hundred."""

_QUOTIENT = re.compile(r"[\w.]+/\d[\d+\-*/.:]*")
_CALCULATES = re.compile(r"\w\([^()]*\Z|[=+*]\s*\Z")
"""What stands before a quotient (`total/1000`), which is no path: a call, a sign."""

YEARS = range(1900, 2101)
_PROGRESS = re.compile(r"([1-9]\d{,8}|0)/([1-9]\d{,8})")
"""How far something came (`96/114`)."""

_NO_PROSE = ("#", "|", ">")
_BULLET = re.compile(r"\s*[-*•+] ")
LISTED_MAX, TITLES_MAX, LISTED_TITLE_CHARS_MAX = 40, 2, 40
"""Of a list: lines above one of it in which its titles are looked for, and how many and how long they may be."""

_MARKS_OF_TITLE = " #*-•+:"
_BOLD = re.compile(r"\*\*([^*]+)\*\*")

TITLE_CHARS_MAX = 80
_LINK = re.compile(r"\[([^\[\]\n]+)\]\(([^()\s]+)\)")
"""A link in Markdown: its title, and its address."""

_PROGRAM = re.compile(
    r"^\W*(?:\d+\W+)?(?:(?:async )?def|class|import|from|return|raise|assert|const|let|var|export|private|public|static"
    r"|fun|func|fn|use|elif|else|end|try|except|#include|#if\w*)\b|\w\((?!s\))|[;{}]\s*$|=>|->|::|//(?! ?\S+\.)|[!=]="
    r"|\w\.\w+ = |^\W*(?:\d+\W+)?[\w.]+ = |\bimport \w|\b(?:if|for|while) \(|\$\{|^\W*\d+\W+\w+,?$"
    r"|\bFile \"[^\"]+\", line \d|^\s*(?:\* |/\*|#)|^\W*\w+=[^\s,]+,$"
)
"""A line of a program, or of where it was when it failed: who needs a name in it reads the file."""

PROGRAM_CHARS = 300
"""Of a line, looked at for what it is."""

_DIFF = ("diff --git ", "--- a/", "+++ b/", "@@ ")
"""Of a diff, which files it is of: what was changed is told with the call that did."""

_HEAD = re.compile(r"\W*\w+(?:\s*\|\s*\w+){2,}[\s|]*")
_RULER = re.compile(r"[\s|+:-]*-{3}[\s|+:-]*")
"""What stands below the head of a table."""

_IMPORT = re.compile(r"\bfrom [\"'][^\"']+[\"'];?$|^\W*(?:\d+\W+)?(?:import|from|require|use|#include)\b")
_MARKS_AROUND = " \t\"'`,;:()[]{}-*"
_JOINT = re.compile(r"[\s。、，；！？]")
_MARKS = re.compile(r"[/=;,&?|\"'(){}\[\]<>]")
"""Where a long word may be parted, as an address is one."""


def values_beside(
    known: Ledger,
    leaving: Sequence[Entry],
    before: Iterable[AccountValue],
    *,
    told: Account,
    standing: str,
    room: int,
    count: Count,
    rules_3: bool,
) -> tuple[AccountValue, ...]:
    """Return the worthiest of *known* that *standing* does not say, within *room* tokens, oldest first.

    What they stood beside is looked for in the messages *leaving*; of older ones it is known from *before*. *told* is
    what *standing* says of what left: most values are told where their message is.
    """
    earlier = {one.value: one for one in before}
    entries = {entry.number: entry for entry in leaving}

    @cache
    def lines_of(number: int) -> tuple[bool, list[str]]:
        return _lines_of(redacted_texts((as_said(entries[number]),)) if number in entries else [], rules_3=rules_3)

    newest = max((item.number for item in known), default=0)
    # the cheapest question first: of thousands most were only printed
    some = [
        item
        for item in known
        if item.category in KINDS
        and (item.uses >= SPOKEN or not rules_3)
        and (len(item.value) > SLICE_CHARS_MAX or not _SLICE.fullmatch(item.value))
        and not (rules_3 and (_is_progress(item.value) or _is_printed(item, entries)))
    ]
    best = ranked(some, newest, most=CANDIDATES_MAX)
    # what stood beside others, nobody knows any more: most are older than the messages that leave
    wanted = _untold([item for item in best if item.number in entries or item.value in earlier], told)
    chosen: list[AccountValue] = []
    alike = _Alike(rules_3=rules_3)
    said = ""
    for item in _not_in(standing, wanted):
        found = _found(item, earlier, lines_of(item.number), rows=rules_3)
        if found is None or item.value in said:
            continue
        if alike.has_enough(item, found):
            continue
        cost = count(found.text) + FRAME_TOKENS
        if cost > room:
            break
        room -= cost
        said = f"{said}\n{found.text}"
        chosen.append(found)
    if not rules_3:
        return tuple(sorted(chosen, key=lambda one: (one.number, one.value)))
    # as they stood: a price belongs to what stands before it
    before_at = {value: at for at, value in enumerate(earlier)}
    return tuple(
        sorted(
            without_parts(chosen), key=lambda one: (one.number, _place(one.value, lines_of(one.number)[1], before_at))
        )
    )


def _is_printed(item: DigestItem, entries: Mapping[int, Entry]) -> bool:
    """Tell what nobody named though an assistant said it: of what was printed alone, the steps say what matters."""
    return item.number in entries and is_printed(as_said(entries[item.number]))


@dataclass(kw_only=True)
class _Alike:
    """A few say what others are: of links in one message, of its values that stand beside nothing, and of sums that
    stand in the same words."""

    rules_3: bool
    shapes: Counter[str] = field(default_factory=Counter)
    links: Counter[int] = field(default_factory=Counter)
    listed: Counter[int] = field(default_factory=Counter)

    def has_enough(self, item: DigestItem, found: AccountValue) -> bool:
        """Tell whether enough like *found* were chosen; else it is counted as one of them."""
        if self.rules_3 and _is_link(item, found):
            self.links[item.number] += 1
            if self.links[item.number] > ALIKE_MAX:
                return True
        if self.rules_3 and " " not in found.text:
            self.listed[item.number] += 1
            if self.listed[item.number] > ALIKE_MAX:
                return True
        if not self.shapes and item.category != "amount":
            return False
        (shape,) = shapes_of([found.text])
        self.shapes[shape] += item.category == "amount"
        return self.shapes[shape] > ALIKE_MAX


def _place(value: str, lines: Sequence[str], before_at: Mapping[str, int]) -> tuple[int, int]:
    """Return where *value* stands among *lines*; of one whose message left earlier, where it stood before."""
    line = next((at for at, line in enumerate(lines) if value in line), None)
    return (before_at.get(value, 0), 0) if line is None else (line, lines[line].find(value))


def _lines_of(parts: Sequence[MessageText], *, rules_3: bool) -> tuple[bool, list[str]]:
    """Return whether a message is a record, and its lines: of a record the fields, whose names are no values."""
    if rules_3:
        parts = [part for part in parts if not (part.trust == "user" and is_notice(part.text))]
    texts = [_plain_text(part) if rules_3 else part.text for part in parts]
    fields = fields_of(texts[0]) if rules_3 and len(parts) == 1 and _is_answer(parts[0]) else []
    lines = fields or [line for text in texts for line in readable_lines(text)]
    return bool(fields), [piece for line in lines for piece in _unescaped(line)] if rules_3 else lines


def _unescaped(line: str) -> list[str]:
    """Return the lines of a text that was written into a program on one *line*; any other as it is."""
    if line.count(_ESCAPED_END) < ESCAPED_ENDS_MIN or _IN_PATTERN.search(line):
        return [line]
    return line.split(_ESCAPED_END)


def _plain_text(part: MessageText) -> str:
    """Return the words of a result without envelopes, and the arguments of a call without the marks of JSON."""
    if part.tool and (arguments := arguments_of(part)):
        # switches say nothing beside a value
        each = ({name: item} for name, item in arguments.items() if item is not None and not isinstance(item, bool))
        return "\n".join(line for one in each for line in json_lines(one))
    if part.trust == "tool":
        return with_labels(opened_text(part))
    return without_blocks(as_speech(part.text))[0] if part.trust == "assistant" else spoken(part.text)


def _is_progress(value: str) -> bool:
    """Tell how far something came (`96/114`) from the number of a file or an invoice (`2024/0815`, `12/2024`)."""
    found = _PROGRESS.fullmatch(value)
    return found is not None and int(found[1]) <= int(found[2]) and int(found[2]) not in YEARS


def _is_of_program(item: DigestItem, line: str, below: str) -> bool:
    """Tell whether a name, or a path, stands in a line of a program, or a name among nothing but names.

    *below* is the line behind it: the head of a table has a ruler there.
    """
    line = line[:PROGRAM_CHARS]
    if item.category == "path":
        return bool(
            _IMPORT.search(line)
            or (_QUOTIENT.fullmatch(item.value) and _CALCULATES.search(line.partition(item.value)[0]))
        )
    if item.category not in NAMES:
        return False
    is_head = bool(_RULER.fullmatch(below[:PROGRAM_CHARS])) and bool(_HEAD.fullmatch(line))
    return is_head or bool(_PROGRAM.search(line)) or line.strip(_MARKS_AROUND) == item.value


def _is_link(item: DigestItem, found: AccountValue) -> bool:
    """Tell whether a value is an address, or a part of one, that one speaker named at most, or programs alone."""
    return "://" in found.text and item.uses <= SPOKEN


def _untold(items: Iterable[DigestItem], told: Account) -> list[DigestItem]:
    """Return those of *items* whose value does not stand where *told* tells of their message."""
    firsts = [step.first for step in told.steps]
    asked = {one.number: one.text for one in told.requests}

    @cache
    def text_of(place: int) -> str:
        return step_text(told.steps[place])

    out = []
    for item in items:
        place = bisect_right(firsts, item.number) - 1
        if item.value in asked.get(item.number, "") or (place >= 0 and item.value in text_of(place)):
            continue
        out.append(item)
    return out


def _not_in(standing: str, items: Sequence[DigestItem]) -> Iterator[DigestItem]:
    """Yield those of *items* whose value *standing* does not have; many are looked for in one pass."""
    data = encoded(standing)
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        there = standing_among([encoded(item.value) for item in some], data)
        yield from (item for place, item in enumerate(some) if place not in there)


def _found(
    item: DigestItem, earlier: dict[str, AccountValue], there: tuple[bool, list[str]], *, rows: bool
) -> AccountValue | None:
    named, lines = there
    of_value = (at for at, line in enumerate(lines) if item.value in line)
    at = next((at for at in of_value if not (named and lines[at].startswith(f"{item.value} "))), None)
    if at is None:
        return earlier.get(item.value)
    line = lines[at]
    if not rows:
        return AccountValue(number=item.number, value=item.value, text=_fragment(line, item.value, rows=False))
    below = lines[at + 1] if at + 1 < len(lines) else ""
    if _is_of_program(item, line, below) or line.startswith(_DIFF) or says_nothing(line):
        return None
    text = ("" if named else _sentence(lines, at, item.value)) or _fragment(line, item.value, rows=True)
    bullet = _BULLET.match(text)
    bare = _BOLD.sub(r"\1", text[bullet.end() :] if bullet else text)
    titled = ": ".join((*_titles_of(lines, at), bare))
    return AccountValue(number=item.number, value=item.value, text=titled if item.value in titled else text)


def _sentence(lines: Sequence[str], at: int, value: str) -> str:
    """Return the sentence of prose that *value* stands in, in the line at *at*; lines were broken where they were full.

    An empty text where it is no prose, or is too long. No more of a line is looked at than such a sentence may have.
    """
    line, place = lines[at], lines[at].find(value)
    if _BULLET.match(line):
        return ""
    head = line[max(0, place - SENTENCE_CHARS_MAX) : place]
    tail = line[place : place + SENTENCE_CHARS_MAX]
    first = last = at
    while len(head) < SENTENCE_CHARS_MAX and first and _goes_on(lines[first - 1], lines[first]):
        first -= 1
        head = f"{lines[first][-SENTENCE_CHARS_MAX:]} {head}"
    while len(tail) < SENTENCE_CHARS_MAX and last + 1 < len(lines) and _goes_on(lines[last], lines[last + 1]):
        last += 1
        tail = f"{tail} {lines[last][:SENTENCE_CHARS_MAX]}"
    text = one_line(next((one for one in sentences_of(f"{head}{tail}") if value in one), ""))
    return text if len(text) <= SENTENCE_CHARS_MAX and is_ended(text) else ""


def _goes_on(line: str, behind: str) -> bool:
    """Tell whether prose goes on from a full *line* to the one *behind* it: in small letters, and from no heading."""
    is_full = len(line) >= WRAPPED_CHARS_MIN and not is_ended(line[-WRAPPED_CHARS_MIN:])
    return is_full and behind[:1].islower() and not line.startswith(_NO_PROSE)


def _titles_of(lines: Sequence[str], at: int) -> list[str]:
    """Return the titles that the line at *at* of a list stands below, the outermost first: `Option 3` of a price."""
    titles: list[str] = []
    left = _indentation(lines[at])
    if not _BULLET.match(lines[at]):
        return titles
    for line in reversed(lines[max(0, at - LISTED_MAX) : at]):
        within, is_bullet = _indentation(line), bool(_BULLET.match(line))
        if within > left or (within == left and is_bullet):
            continue
        is_title = line.startswith("#") or line.endswith(":")
        if within == left and not is_title:
            break
        title = _BOLD.sub(r"\1", line).strip(_MARKS_OF_TITLE)
        titles += [title] if 0 < len(title) <= LISTED_TITLE_CHARS_MAX else []
        if within == left or len(titles) >= TITLES_MAX:
            break
        left = within
    return titles[::-1]


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip())


def _is_answer(part: MessageText) -> bool:
    """Tell what a program answered on one line from the text of a file."""
    return part.trust == "tool" and "\n" not in part.text.strip()


def _fragment(line: str, value: str, *, rows: bool) -> str:
    """Return *value* with what stands beside it in *line*, cut between words; the whole link that it is part of."""
    at = line.find(value)
    link = next((one for one in _LINK.finditer(line) if one.start() < at < one.end()), None)
    if link:
        return one_line(f"{clipped(link.group(1), TITLE_CHARS_MAX)}: {link.group(2)}")
    if rows and len(line) <= ROW_CHARS_MAX and line.count(", ") >= ROW_CELLS_MIN:
        return one_line(line)
    end = at + len(value)
    start = max(0, at - BESIDE_CHARS)
    stop = min(len(line), end + BESIDE_CHARS)
    before, behind = line[start:at], line[end:stop]
    if start:
        before = _whole_words(before, rows=rows)
    if stop < len(line):
        behind = _whole_words(behind[::-1], rows=rows)[::-1]
    told = one_line(f"{before}{value}{behind}")
    return told.strip(",") if rows else told


def _whole_words(text: str, *, rows: bool) -> str:
    """Return *text* without the word that it begins in the middle of."""
    joint = _JOINT.search(text)
    if joint is None and rows:
        joint = _MARKS.search(text)
        # in a script without spaces a part of a sentence tells something
        return text[joint.end() :] if joint else "" if text.isascii() else text
    return text[joint.end() :] if joint else text
