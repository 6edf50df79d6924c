"""Requests: what the user said, whole, whatever is said later, and how it becomes shorter where it has no room."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Protocol

import msgspec

from actors.core.request_marks import left_out, own_words, question_in
from actors.core.shrink import water_levels
from actors.core.text.count import Count
from actors.core.text.gaps import GAP, with_gaps_once
from actors.core.text.phrases import names_rule, telling
from actors.core.text.recent import Recent
from actors.core.text.sentences import sentences_of
from protocol.account import AccountRequest

from .answers import WORD_CHARS_MAX, asks
from .shorter_requests import not_used, with_fewer_sentences
from .step_rooms import room_in

REQUEST_TOKENS = 4
"""Beside its words."""

TINY_BYTES = 12
QUESTION, RULE = 1, 5
"""How likely it is that a question, and a rule, still hold."""

ASKING_CHARS_MAX = 200
"""Who says more than so much, and ends with a question, does not only ask."""

PROPOSAL_CHARS_MIN, PROPOSED = 60, 3
"""A question so long proposes something, and its answer decides it: at least so likely it still holds."""

LOWER_TRIES = 4
"""Requests are shortened again where a few tokens too many are left, before one leaves."""

QUESTIONS_SHARE = 0.25
"""Of the room: what short messages answer; the user's own words come first."""

NEWEST, NEWEST_MORE = 3, 2
"""So many of the newest messages are so much likelier to hold: they are what is being worked on."""

_OWN = re.compile(
    r"(?i)\b(?:please remember|from now on|my name|i am|i'm|allerg"
    r"|bitte merk|ich bin|ich hei|mein name)"
    r"|请记住|我叫|我对|私の|覚えて|アレルギー"
)
"""What a user says about themselves, in the languages that were tried."""

_QUESTION = re.compile(r"[?？]\W*\Z|(?:か|ますか|ですか|ください|吗|呢|怎么样|如何)[。！]?\Z")
"""How a question ends, before rules 3."""

_FIGURE = re.compile(r"[0-9０-９]|[「『“”\"`][^」』“”\"`]{2,40}[」』“”\"`]")
"""A number, an id, or a name in quotes."""

TASK_SHARE = 0.33
"""Of the room: the first request and the newest one are not shortened below this while others can leave."""

TALK_MIN, TALK_FIRST_SHARE, TALK_FIRST_TOKENS = 12, 0.15, 300
"""Of so many messages the first is one of many, and no task: where it is long, it is shortened to that share of the
room, or to so many tokens, before all others are."""

TALK_NEWER = 2
"""Of a talk: the newest message has so many times more room than the oldest, since what was said last holds."""

_MARK = re.compile(r' ?\[… ([\d,]+) characters: read_artifact\("messages:(\d+)"\) …\] ?')
_COUNTED = re.compile(r"\d{1,3}(?:,\d{3}){0,3}")
"""What a mark of ours counts; a user may write any other."""

DIGITS_MAX = 16
"""Of a number in what looks like a mark: more were written by nobody of ours."""

LEAST_CHARS = 240
"""A request is not shortened below this, before it has to leave."""

STANDING_CHARS_MAX = 400_000
"""Of requests of which is known how likely they still hold, and as many before them: those of two full accounts."""

_standings: Recent[tuple[str, bool], tuple[int, int]] = Recent(STANDING_CHARS_MAX, weigh=lambda found: found[1])
"""By their text, and whether rules 3 judge it: how likely it is, and the characters of the text."""


class Used(Protocol):
    """Tells how many names and figures of a text the assistant said after a message."""

    def __call__(self, text: str, *, after: int) -> int: ...


Sized = tuple[AccountRequest, int]
"""A request and its tokens."""


class Known:
    """What is known of requests in one compaction: for each that leaves, all are asked again, in several tries."""

    def __init__(self, *, rules_3: bool) -> None:
        self.shortened: dict[tuple[AccountRequest, int], AccountRequest] = {}
        """What they became in about so many characters."""
        self.standing = cache(partial(_known_standing, rules_3=rules_3))
        """Tells of a text how likely it still holds."""


def within(
    requests: Sequence[AccountRequest],
    room: int,
    *,
    count: Count,
    used: Used = not_used,
    rules_3: bool = True,
    known: Known | None = None,
) -> tuple[AccountRequest, ...]:
    """Return *requests* within *room* tokens: the longest are shortened most, the ends last.

    Words and questions leave before the task itself is shortened; what tells something leaves behind it. Of a talk, in
    which many messages tell something, the first is no task, and is shortened before others. *used*, *rules_3* and
    *known* are those of `shortened`.
    """
    out = [(one, count(one.text) + REQUEST_TOKENS) for one in requests]
    if _size(out) <= room or not out:
        return tuple(requests)
    known = known or Known(rules_3=rules_3)
    shorten = partial(shortened, count=count, used=used, rules_3=rules_3, known=known)
    lower = partial(_lower, room=room, count=count, shorten=shorten)
    drop = partial(_drop, room=room, rules_3=rules_3, standing=known.standing)
    newer = 0
    if rules_3:
        _drop_questions(out, int(room * QUESTIONS_SHARE), count)
        if sum(known.standing(one.text) > QUESTION for one, _ in out) >= TALK_MIN:
            newer = TALK_NEWER
            drop(out, standing_max=QUESTION)
            lower(out, [0], least=max(TALK_FIRST_TOKENS, int(room * TALK_FIRST_SHARE)))
    # an answer is short, and questions have their share
    answers = {place for place, (one, _) in enumerate(out) if rules_3 and question_in(one.text)}
    others = [place for place in range(1, len(out) - 1) if place not in answers]
    aim = room
    for _ in range(LOWER_TRIES if rules_3 else 1):
        # sentences are taken or left, so that a few tokens too many may stay: no message leaves for these
        lower(out, others, room=aim, newer=newer)
        if (over := _size(out) - room) <= 0:
            break
        aim -= over
    drop(out, standing_max=QUESTION)
    lower(out, sorted({0, len(out) - 1}), least=int(room * TASK_SHARE))
    drop(out, standing_max=RULE + NEWEST_MORE)
    lower(out, sorted({0, len(out) - 1}))
    return tuple([one for one, _ in out])


def _drop_questions(out: list[Sized], room: int, count: Count) -> None:
    """Take questions out of *out*, until they need no more than *room*: the newest last, before them proposals."""
    asked = {place: question for place, (one, _) in enumerate(out) if (question := question_in(one.text))}
    left = sum(map(count, asked.values()))
    newest = len(out) - NEWEST
    for place in sorted(asked, key=lambda place: (place >= newest, _proposes(asked[place]), place)):
        if left <= room:
            break
        left -= count(asked[place])
        one, _ = out[place]
        bare = msgspec.structs.replace(one, text=own_words(one.text))
        out[place] = (bare, count(bare.text) + REQUEST_TOKENS)


def _proposes(question: str) -> bool:
    return len(question) >= room_in(question, PROPOSAL_CHARS_MIN)


def _size(out: list[Sized]) -> int:
    return sum([tokens for _, tokens in out])


def _lower(
    out: list[Sized],
    places: Sequence[int],
    *,
    room: int,
    count: Count,
    shorten: Callable[[AccountRequest, int], AccountRequest],
    least: int = 0,
    newer: int = 0,
) -> None:
    """Shorten those of *out* at *places*, none below *least*, if all together need more than *room*.

    What is shortened has one height, but for what is *newer*: the newest has so many times more than the oldest.
    """
    tokens_all = _size(out)
    if tokens_all <= room:
        return
    sizes = [out[place][1] for place in places]
    weights = [len(out) + newer * place for place in places]
    heights = water_levels(sizes, weights, room - (tokens_all - sum(sizes)))
    for place, height in zip(places, heights, strict=True):
        one, tokens = out[place]
        if tokens > max(least, height):
            short = shorten(one, max(least, height))
            out[place] = (short, count(short.text) + REQUEST_TOKENS)


def _drop(out: list[Sized], room: int, *, standing_max: int, rules_3: bool, standing: Callable[[str], int]) -> None:
    """Take those out that say least, the oldest first, until *out* needs no more than *room*; never the ends.

    *rules_3*: by rules 3, under which the newest hold longer.
    """
    used = _size(out)
    if used <= room:
        return
    newest = len(out) - NEWEST if rules_3 else len(out)
    order = [
        (standing(one.text) + NEWEST_MORE * (place >= newest), place) for place, (one, _) in enumerate(out[1:-1], 1)
    ]
    gone = set()
    for _, place in sorted(one for one in order if one[0] <= standing_max):
        if used <= room:
            break
        used -= out[place][1]
        gone.add(place)
    out[:] = [one for place, one in enumerate(out) if place not in gone]


def _known_standing(text: str, rules_3: bool) -> int:
    """Return the same as `_standing`: each compaction asks it again of every request."""
    return _standings.found((text, rules_3), lambda key: (_standing(*key), len(text)))[0]


def _standing(text: str, rules_3: bool) -> int:
    """Return how likely it is that what a user said still holds: most for a rule, little for a word or a question.

    By rules 3 (*rules_3*) what is answered counts too where it is long enough to propose something, and what somebody
    wrote at length, and ended with a question, is none.
    """
    question = question_in(text) if rules_3 else ""
    if question:
        return max(_standing(own_words(text), rules_3), PROPOSED * _proposes(question))
    data = text.encode("utf-8", "replace")
    kinds = {kind for kind, _ in telling(data)}
    if "rule" in kinds or _OWN.search(text) or (rules_3 and _gives_rule(text)):
        return RULE
    if kinds:
        return 4
    if len(data) < TINY_BYTES:
        return 0
    if _is_question(text, rules_3):
        return QUESTION
    return 3 if _FIGURE.search(text) else 2


def _gives_rule(text: str) -> bool:
    """Tell whether *text* calls something a rule, and does not only ask for one."""
    return names_rule(text) and any(names_rule(one) for one in sentences_of(text) if not asks(one))


def _is_question(text: str, rules_3: bool) -> bool:
    if not rules_3:
        return bool(_QUESTION.search(text.strip()))
    if len(text) > room_in(text, ASKING_CHARS_MAX) or not asks(text):
        return False
    # of what has figures in it, a last question only asks what is thought of it
    return not any(map(_FIGURE.search, sentences_of(text)[:-1]))


def shortened(
    request: AccountRequest,
    tokens: int,
    count: Count,
    *,
    used: Used = not_used,
    rules_3: bool = True,
    known: Known | None = None,
) -> AccountRequest:
    """Return *request* without much of its middle, so that about *tokens* stay.

    Of speech those sentences stay that tell most, and of which most was *used* later; before rules 3, without
    *rules_3*, nothing of the middle does. *known* is what others became, or the same in other rooms.
    """
    text = request.text
    have = max(1, count(text))
    if rules_3 and have > tokens and question_in(text):
        # an answer is short
        return msgspec.structs.replace(request, text=own_words(text))
    chars = max(LEAST_CHARS, int(len(text) * tokens / have) - 60)
    if chars >= len(text):
        return request
    done = known.shortened if known else {}
    if (request, chars) not in done:
        done[request, chars] = _in_chars(request, chars, used, rules_3=rules_3)
    return done[request, chars]


def _in_chars(request: AccountRequest, chars: int, used: Used, *, rules_3: bool) -> AccountRequest:
    """Return *request* in about *chars* characters, fewer than it has; as it is where that saves nothing."""
    text = request.text
    before, told = 0, ""
    if rules_3:
        before, text = _without_marks(text, request.number)
        told = _in_sentences(request.number, text, chars, before, used)
    if not told:
        head, tail = text[: chars * 2 // 3], text[len(text) - chars // 3 :]
        head = head[: at + 1] if (at := head.rfind(" ", len(head) - WORD_CHARS_MAX)) > 0 else head
        tail = tail[at:] if (at := tail.find(" ", 0, WORD_CHARS_MAX)) > 0 else tail
        middle = text[len(head) : len(text) - len(tail)]
        # before rules 3, what was shortened before is counted as it was said here
        gone = before + len(middle) if rules_3 else _gone(middle) + len(_MARK.sub("", middle))
        told = f"{head.rstrip()} {left_out(request.number, gone)} {tail.lstrip()}"
    return msgspec.structs.replace(request, text=told) if len(told) < len(request.text) else request


def _in_sentences(number: int, text: str, chars: int, before: int, used: Used) -> str:
    """Return the sentences of message *number* that tell most, of its *text*; an empty text where that is no speech.

    The widest gap says how many characters are left out of all, with those *before*, and where they are found.
    """
    runs, gaps = with_fewer_sentences(text, chars, partial(used, after=number), again=bool(before))
    if not runs:
        return ""
    mark, widest = left_out(number, sum(gaps) + before), gaps.index(max(gaps))
    if not any(gaps):
        # what was left out before is all that is; a gap that the user typed may have taken its place
        told_again = text.replace(f" {GAP} ", f" {mark} ", 1)
        return text if not before else told_again if mark in told_again else f"{text} {mark}"
    told = [f"{run.strip()} {mark if place == widest else GAP}" for place, run in enumerate(runs[:-1])]
    short = with_gaps_once(" ".join([*told, runs[-1].strip()])).lstrip()
    return short if mark in short else f"{short} {mark}"


def _without_marks(text: str, number: int) -> tuple[int, str]:
    """Return how many characters the marks in *text* of message *number* stand for, and the text with gaps for them."""
    gone = 0

    def counted(found: re.Match[str]) -> str:
        nonlocal gone
        if len(found[2]) > DIGITS_MAX or int(found[2]) != number or not _COUNTED.fullmatch(found[1]):
            return found[0]
        gone += int(found[1].replace(",", ""))
        return f" {GAP} "

    bare = _MARK.sub(counted, text)
    return gone, with_gaps_once(bare) if gone else bare


def _gone(text: str) -> int:
    """Return how many characters the marks in *text* stand for: what was shortened before counts as it was said."""
    counted = [found.replace(",", "") for found, _ in _MARK.findall(text)]
    return sum(int(digits) for digits in counted if digits and len(digits) < DIGITS_MAX)
