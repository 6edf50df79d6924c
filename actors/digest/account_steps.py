"""Account steps: what a unit of the conversation becomes in the account: why, what was called, and what came of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from actors.core.account_text import JOINED_LEVEL
from actors.core.message_texts import MessageText, texts_of
from actors.core.text.error_text import error_text
from actors.core.text.excerpt import excerpt
from actors.core.text.kinds import parsed_json
from actors.core.units import Unit
from protocol.account import AccountAct, AccountStep

from .calls import (
    TASK_LIST,
    as_said,
    call_text,
    changes_something,
    clipped,
    failure_in,
    one_line,
    refusal_in,
    target_of,
    writes_task_list,
)
from .hindsight import Hindsight


class LevelChars(msgspec.Struct, frozen=True, kw_only=True):
    """Characters that a step may have: what was said, one call, one outcome; half as many for others of a batch."""

    said: int
    call: int
    outcome: int


LEVEL_CHARS = (
    LevelChars(said=1400, call=1400, outcome=900),
    LevelChars(said=600, call=600, outcome=450),
    LevelChars(said=280, call=260, outcome=220),
    LevelChars(said=110, call=130, outcome=110),
    LevelChars(said=0, call=90, outcome=50),
)
"""By level, the finest first; in a small window. The first two grow with the room of all steps."""

SMALL_ROOM_TOKENS = 2400
GROWTH_MAX = 6.0
SPOKEN_MORE = 5
"""Times the room of what was said, where nothing was called: the assistant told somebody something."""

CHANGED_MORE = 2
"""Times the room of a call that changed something."""

WORDS_LINES_MIN = 8
USED_MIN = 3
"""Words of an outcome that the assistant used afterwards, from which on the step did more than look."""

REPORT_CHARS_MIN, REPORT_WORTH = 500, 3.4
SPOKEN_WORTH = 2.4
"""Levels that an answer to somebody is kept finer: the assistant's own words go last."""

MATTERS_WORTH = 1.0
"""From which on a step did more than look: it changed something, failed, was used, or told the user something."""

PIECES = " / "
"""Between what was said in several messages."""

PIECES_CHARS_MAX = 240
_MORE = re.compile(r"\((\d+) more\)")

NOTHING = "(no output)"
FAILED_CHARS, FAILED_SEEN_CHARS = 240, 60
"""Of the words in which a failed call says why, before anything else."""

RECORD_CHARS_MAX = 4000
RECORD_FIELDS_MIN = 4
JOINED_HEADS_MAX = 8


def level_chars(tokens: int) -> tuple[LevelChars, ...]:
    """Return the characters of each level where all steps together have *tokens*."""
    growth = min(GROWTH_MAX, max(1.0, tokens / SMALL_ROOM_TOKENS))
    return (_grown(LEVEL_CHARS[0], growth), _grown(LEVEL_CHARS[1], growth**0.5), *LEVEL_CHARS[2:])


def _grown(most: LevelChars, growth: float) -> LevelChars:
    return LevelChars(said=int(most.said * growth), call=int(most.call * growth), outcome=int(most.outcome * growth))


def step_of(unit: Unit, hindsight: Hindsight, levels: Sequence[LevelChars]) -> AccountStep:
    """Return the finest step for *unit*, whose assistant spoke; what is shortened in place is read as it was said."""
    parts = texts_of(map(as_said, unit.entries))
    words = "\n".join(
        part.text.strip() for part in parts if part.trust != "tool" and not part.tool and part.text.strip()
    )
    results: dict[str, str] = {}
    loose = ""
    for part in parts:
        if part.trust == "tool" and part.call:
            results[part.call] = f"{results[part.call]}\n{part.text}" if part.call in results else part.text
        elif part.trust == "tool":
            loose = f"{loose}\n{part.text}".strip()
    calls = [part for part in parts if part.tool]
    most = (
        levels[0]
        if len(calls) < 2
        else LevelChars(said=levels[0].said, call=levels[0].call // 2, outcome=levels[0].outcome * 5 // 9)
    )
    acts = tuple(_act(call, results.get(call.call, ""), most, hindsight, words) for call in calls)
    if loose:
        sought = hindsight.seeker(after=unit.last)
        acts = (*acts, AccountAct(call="a result", outcome=excerpt(loose, chars=most.outcome, sought=sought)))
    return AccountStep(
        first=unit.first, last=unit.last, said=_words(words, most.said, unit.first, hindsight), acts=acts
    )


def coarser(step: AccountStep, level: int, hindsight: Hindsight, levels: Sequence[LevelChars]) -> AccountStep:
    """Return *step* at *level*, below that of a joined one."""
    if level <= step.level or step.level >= JOINED_LEVEL:
        return step
    most = levels[min(level, len(levels) - 1)]
    share = 1 if len(step.acts) < 2 else 0.6
    acts = []
    for act in step.acts:
        sought = hindsight.seeker(after=step.last, own=act.call)
        more = CHANGED_MORE if act.changes and level < JOINED_LEVEL - 1 else 1
        call = clipped(act.call, int(most.call * share * more))
        spare = max(0, int(most.call * share) - len(call))
        short = excerpt(act.outcome, chars=int(most.outcome * share) + spare, sought=sought) if act.outcome else ""
        acts.append(msgspec.structs.replace(act, call=one_line(call) if level >= 2 else call, outcome=short))
    words = _words(step.said, most.said if acts else max(300, most.said * SPOKEN_MORE), step.last, hindsight)
    return msgspec.structs.replace(
        step, said=one_line(words) if level >= 2 else words, acts=tuple(acts), level=min(level, len(levels) - 1)
    )


def _words(text: str, chars: int, number: int, hindsight: Hindsight) -> str:
    """Return what an assistant said in at most *chars* characters: of many lines, those that mattered."""
    if len(text) <= chars or not chars:
        return text if chars else ""
    if text.count("\n") < WORDS_LINES_MIN:
        return clipped(text, chars)
    return excerpt(text, chars=chars, sought=hindsight.seeker(after=number))


def without_task_list(step: AccountStep) -> AccountStep:
    """Return *step* with no more than the names of the tools by which the assistant kept its own list: one is newer."""
    acts = (
        msgspec.structs.replace(act, call=act.call.split(None, 1)[0]) if act.target == TASK_LIST else act
        for act in step.acts
    )
    return msgspec.structs.replace(step, acts=tuple(acts))


def joined(steps: Sequence[AccountStep]) -> AccountStep:
    """Return one step for several: what they called, about what and how often; what changed or failed stands first."""
    acts: dict[tuple[str, str, bool], AccountAct] = {}
    for act in (act for step in steps for act in step.acts):
        head = act.call.split(None, 1)[0] if act.call else ""
        key = (head, act.target, act.failed)
        before = acts.get(key)
        times = act.times + (before.times if before else 0)
        acts[key] = AccountAct(
            call=head, target=act.target, changes=act.changes, failed=act.failed, times=times, used=act.used
        )
    ranked = sorted(acts.values(), key=lambda act: (-act.changes, -act.failed, -act.times, -act.used))
    kept = set(ranked[:JOINED_HEADS_MAX])
    said = [
        piece
        for step in steps
        if step.said and (not step.acts or step.level >= JOINED_LEVEL)
        for piece in (step.said.split(PIECES) if step.level >= JOINED_LEVEL else [clipped(one_line(step.said), 90)])
    ]
    return AccountStep(
        first=steps[0].first,
        last=steps[-1].last,
        said=_pieces(said),
        acts=tuple(act for act in acts.values() if act in kept),
        level=JOINED_LEVEL,
    )


def _pieces(said: Sequence[str]) -> str:
    """Return the first and the newest of what was *said*, each whole, and how many are left out between them."""
    more = sum(int(found.group(1)) for one in said if (found := _MORE.fullmatch(one)))
    kept = [one for one in said if not _MORE.fullmatch(one)]
    while len(kept) > 1 and sum(map(len, kept)) > PIECES_CHARS_MAX:
        del kept[1 if len(kept) > 2 else 0]
        more += 1
    return PIECES.join([*kept[:1], *([f"({more} more)"] if more else []), *kept[1:]])


def is_report(step: AccountStep) -> bool:
    """Tell whether the assistant told at length what it had found: that stands for the steps before it."""
    return step.level < JOINED_LEVEL and not step.acts and len(step.said) >= REPORT_CHARS_MIN


def worth(step: AccountStep) -> float:
    """Return by how many levels a step is kept finer than one that only looked, and whose outcome nobody used."""
    if step.level >= JOINED_LEVEL:
        return 0.0
    if not step.acts:
        return REPORT_WORTH if is_report(step) else SPOKEN_WORTH
    if any(act.changes or act.failed or act.used >= USED_MIN for act in step.acts):
        return 1.0
    return 0.5 if any(act.used for act in step.acts) else 0.0


def _act(call: MessageText, result: str, most: LevelChars, hindsight: Hindsight, said: str) -> AccountAct:
    if writes_task_list(call):
        newest = hindsight.newest_call.get(call.tool) == call.number
        text = call_text(call.tool, call.text, chars=most.outcome, hindsight=hindsight) if newest else call.tool
        return AccountAct(call=text, target=TASK_LIST)
    sought = hindsight.seeker(after=call.number, own=call.text)
    result = hindsight.unframed(result, own=call.text)
    changes = changes_something(call)
    failed = error_text(result) or failure_in(result) or (refusal_in(result) if changes else "")
    short = excerpt(result, chars=most.outcome, sought=sought) if result.strip() else NOTHING
    if failed and failed[:FAILED_SEEN_CHARS] not in short:
        short = f"{clipped(one_line(failed), FAILED_CHARS)}\n{short}"
    return AccountAct(
        call=call_text(call.tool, call.text, chars=most.call, hindsight=hindsight, said=said),
        outcome=short,
        # a record that was looked up is there to be used later
        used=USED_MIN if _is_record(result) else hindsight.used(short, after=call.number, own=call.text),
        changes=changes,
        target=target_of(call),
        failed=bool(failed),
    )


def _is_record(result: str) -> bool:
    """Tell a JSON object of several fields, each of them short."""
    value = parsed_json(result) if result.lstrip()[:1] == "{" and len(result) < RECORD_CHARS_MAX else None
    return isinstance(value, dict) and len(value) >= RECORD_FIELDS_MIN
