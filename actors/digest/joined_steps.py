"""Joined steps: one step of the account that stands for several, and what is left of a call that was made again."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from actors.core.account_text import JOINED_LEVEL
from actors.core.text.gaps import GAP
from actors.core.text.json_lines import head_of
from actors.core.text.line_worths import Sought
from actors.core.text.noise import defines, is_idle
from actors.core.text.told_table import is_summary
from protocol.account import AccountAct, AccountStep

from .account_steps import ANSWER_CHARS_MAX, EDIT_HEAD, REASON_HEAD
from .call_failures import NOTHING
from .calls import OUTPUT, TASK_LIST
from .clips import clipped, one_line
from .edits import NEW_MARK, newest_of
from .pieces import ONE_MORE, named, pieces, pieces_of, told_shortly
from .records import is_record, shorter_record, used_worth, without_ids
from .step_rooms import (
    RECORD_CHARS,
    RECORD_LEAST_CHARS,
    TASK_LIST_CHARS,
    USED_MIN,
    is_report,
    room_in,
    says_edit,
    tells_finding,
)

WANTED_MAX, WANTED_WORTH = 6, 2.0
"""Records in a joined step of which more is told, at most, and what their used values are worth: two names at least."""

REASON_CHARS = 120
"""Of why something failed, where steps are joined."""

OLDER_CHARS_MIN = 160
"""Of the outcome of a call that was made again later: a longer one gives way to its gist."""

ANSWER_CHARS = 32
"""An outcome of so few stands where steps are joined, too: it costs less than its call. A figure, a name
or a date fits, and hardly a line of a listing."""

NEW_CHARS = 64
"""Of what an edit put there, where steps are joined: the newest one of each file."""

ANSWERS_CHARS_MAX = 240
"""Of longer answers in a joined step, together: it has those whose words were used most, then the newest."""

LINKED_CHARS_MAX = 480
"""The same of answers with an id that another tool returned too, as a flight that is booked: beside the others."""

JOINED_HEADS_MAX, JOINED_HEADS_OLDER_MAX = 16, 8
"""Calls that a joined step tells one by one, by today's rules and by those before them; the others are counted."""

OTHERS = "other calls"

_BY_PLACE = re.compile(r"\w+ index \d+\b")
"""How browser-use names an element of a page."""

_INLINE = re.compile(
    r"(?:cd [^\s;]+ ?(?:&&|;) )?(?:\w+=\S+ )*(?:uv run )?(?:\S*/)?(?:python[\d.]*|node|ruby|perl|php|deno|bun) "
    r"(?:-(?=\s)|<<|-[ce](?=\s))"
)
"""How a program begins that is written into a command."""


def joined(
    steps: Sequence[AccountStep],
    *,
    told: Collection[str],
    rules_3: bool,
    sought: Sought,
    is_linked: Callable[[str], bool],
    room: int = 0,
) -> AccountStep:
    """Return one step for several: what they called, about what and how often; of what was said, what is not *told*.

    *is_linked* tells a text with an id that another tool returned too. What was said has *room* characters at least.
    """
    acts = _merged(steps, rules_3=rules_3, sought=sought)
    # of those that are as good, the newest: it says how what was looked for came out
    ranked = sorted(
        reversed(acts) if rules_3 else acts,
        key=lambda act: (not _is_plan(act), -act.instructs, -act.changes, -act.failed, -act.times, -act.used),
    )
    most = JOINED_HEADS_MAX if rules_3 else JOINED_HEADS_OLDER_MAX
    others = [act for act in ranked if act.call == OTHERS]
    if rules_3:
        others += [act for act in ranked if act.call != OTHERS and _says_nothing(act)]
        counted = set(others)
        ranked = [act for act in ranked if act not in counted]
    others += ranked[most:]
    kept = set(ranked[:most]).difference(others)
    silent = _beyond_room([act for act in acts if act in kept], is_linked) if rules_3 else ()
    others += [act for act in silent if _says_nothing(_silent(act))]
    kept.difference_update(others)
    rest = sum(act.times for act in dict.fromkeys(others))
    told_acts = [_silent(act) if act in silent else act for act in acts if act in kept]
    speakers = {step.speaker for step in steps}
    said = [
        _told_by(piece, step.speaker, told, among=len(speakers)) if rules_3 else piece
        for step in steps
        if step.said and (not step.acts or step.level >= JOINED_LEVEL or (rules_3 and tells_finding(step)))
        for piece in (pieces_of(step) or [_piece(step, sought if rules_3 else None)])
    ]
    return AccountStep(
        first=steps[0].first,
        last=steps[-1].last,
        speaker=speakers.pop() if len(speakers) == 1 else "",
        said=pieces(said, told, rules_3=rules_3, room=room),
        acts=(
            *(_ids_once(told_acts) if rules_3 else told_acts),
            *([AccountAct(call=OTHERS, times=rest)] if rest else []),
        ),
        level=JOINED_LEVEL,
    )


def _merged(steps: Sequence[AccountStep], *, rules_3: bool, sought: Sought) -> list[AccountAct]:
    """Return the calls of *steps*: those alike as one, with the gist of what the newest returned."""
    acts: dict[tuple[str, str, bool], AccountAct] = {}
    wanted = _wanted_records(steps, sought) if rules_3 else ()
    for act in (act for step in steps for act in step.acts):
        is_count = rules_3 and act.call == OTHERS
        head = OTHERS if is_count else act.call.split(None, 1)[0] if act.call else ""
        key = (head, act.target, act.failed)
        before = acts.get(key)
        times = act.times + (before.times if before else 0)
        acts[key] = msgspec.structs.replace(act, times=times)
    out = []
    for (head, _, _), act in acts.items():
        record_chars = RECORD_LEAST_CHARS if act.outcome in wanted else RECORD_CHARS
        outcome = _gist(act, rules_3=rules_3, sought=sought, record_chars=record_chars)
        instructs = rules_3 and act.instructs
        out.append(msgspec.structs.replace(act, call=head, outcome=outcome, instructs=instructs))
    return out


def _ids_once(acts: Iterable[AccountAct]) -> Iterator[AccountAct]:
    """Yield *acts*, each record without the ids that one before it tells: whose they are, the first says for all."""
    known: set[str] = set()
    for act in acts:
        record, ids = without_ids(act.outcome, known) if is_record(act.outcome) else (act.outcome, set[str]())
        known |= ids
        yield msgspec.structs.replace(act, outcome=record) if record != act.outcome else act


def _beyond_room(acts: Sequence[AccountAct], is_linked: Callable[[str], bool]) -> list[AccountAct]:
    """Return those of *acts* whose longer answers have no room beside those of which more was used."""
    longer = [act for act in acts if _is_longer_answer(act)]
    left = {True: LINKED_CHARS_MAX, False: ANSWERS_CHARS_MAX}
    out = []
    for _, act in sorted(enumerate(longer), key=lambda one: (-one[1].used, -one[0])):
        linked = is_linked(act.outcome)
        left[linked] -= len(act.outcome) - len(head_of(act.outcome))
        if left[linked] < 0:
            out.append(act)
    return out


def _is_longer_answer(act: AccountAct) -> bool:
    told = act.outcome
    return len(told) > ANSWER_CHARS and not (
        act.failed or act.instructs or is_record(told) or is_summary(told) or _is_plan(act)
    )


def _is_plan(act: AccountAct) -> bool:
    """Tell the assistant's own list of tasks, which says what comes next, from what was done."""
    return act.target == TASK_LIST and bool(act.outcome)


def _says_nothing(act: AccountAct) -> bool:
    """Tell what is of no use without its outcome, of which nothing is told: a program that was written into a command
    begins as all do, and what was printed has no name."""
    unnamed = _INLINE.match(act.target) or (act.call == OUTPUT and not act.target)
    return bool(unnamed) and not (act.outcome or act.failed or act.changes)


def _silent(act: AccountAct) -> AccountAct:
    return msgspec.structs.replace(act, outcome="")


def _told_by(piece: str, speaker: str, told: Collection[str], *, among: int) -> str:
    """Return *piece* with the name of its *speaker* where there are several; of an empty one, and of one that is *told*
    with a name or without, that there is one more."""
    by_name = named(piece, speaker)
    if not piece or piece in told or by_name in told:
        return ONE_MORE
    return by_name if among > 1 else piece


def _piece(step: AccountStep, sought: Sought | None) -> str:
    return told_shortly(step.said, sought, report=sought is not None and is_report(step))


def _wanted_records(steps: Sequence[AccountStep], sought: Sought) -> list[str]:
    """Return the records of *steps* of which most was used later: of them more is told."""
    records = {act.outcome for step in steps for act in step.acts if is_record(act.outcome)}
    worths = [(used_worth(record, sought), record) for record in sorted(records)]
    return [record for worth, record in sorted(worths, reverse=True)[:WANTED_MAX] if worth >= WANTED_WORTH]


def without_older(step: AccountStep, again: Collection[str], *, newer: int, rules_3: bool) -> AccountStep:
    """Return *step* with the gist alone of what calls returned that *newer* made *again*: that tells how things are."""
    if not any(call in again for call in long_calls(step)):
        return step
    acts = list(step.acts)
    for place, act in enumerate(acts):
        if act.call in again and _is_long(act):
            # nothing of a record: what the newer call returned has its fields
            again_in = f"[called again in #{newer}]" if rules_3 else f"[again in #{newer}]"
            short = f"{_gist(act, rules_3=False, sought=_nothing)} {again_in}".strip()
            acts[place] = msgspec.structs.replace(act, outcome=short)
    return msgspec.structs.replace(step, acts=tuple(acts))


def long_calls(step: AccountStep) -> list[str]:
    """Return the calls of *step* whose outcome gives way where they are made again."""
    return [act.call for act in step.acts if _is_long(act)] if step.level < JOINED_LEVEL else []


def is_by_place(call: str) -> bool:
    """Tell whether *call* names an element by its place on a page: the same words are another call on the next one."""
    return bool(_BY_PLACE.match(call))


def _is_long(act: AccountAct) -> bool:
    return len(act.outcome) > OLDER_CHARS_MIN


def _gist(act: AccountAct, *, rules_3: bool, sought: Sought, record_chars: int = RECORD_CHARS) -> str:
    """Return why *act* failed, the fields of a record that say most, or how its outcome is summed up.

    What was used is told whole where it is short.
    """
    if rules_3 and act.target == TASK_LIST:
        return act.outcome or clipped(one_line(act.call.partition(" ")[2]), TASK_LIST_CHARS)
    if act.failed:
        reason = act.outcome.split("\n", 1)[0]
        return clipped(reason, room_in(reason, REASON_CHARS) if rules_3 else REASON_CHARS, head=REASON_HEAD)
    if rules_3 and act.instructs:
        # what agents are told to do holds on
        return one_line(act.outcome)
    if rules_3 and act.outcome.startswith(NEW_MARK):
        # an edit of steps that were joined before
        return act.outcome
    if rules_3 and says_edit(act):
        new = one_line(newest_of(act.call))
        return f"{NEW_MARK}{clipped(new, room_in(new, NEW_CHARS), head=EDIT_HEAD)}".rstrip()
    if rules_3 and is_record(act.outcome):
        return shorter_record(act.outcome, chars=room_in(act.outcome, record_chars), sought=sought)
    answer = one_line(act.outcome)
    if rules_3 and is_idle(answer.strip(f"{GAP} ")):
        return ""
    if rules_3 and answer and _says_something(act, answer):
        return answer
    last = act.outcome.rsplit("\n", 1)[-1]
    short = len(last) <= REASON_CHARS and (is_summary(last) or (act.used >= USED_MIN and last == act.outcome))
    return last if short else ""


def _says_something(act: AccountAct, answer: str) -> bool:
    """Tell whether an *answer* is short and whole, or a line that defines something or of which something was used.

    So does one that says that nothing is there.
    """
    if answer == NOTHING:
        return not act.changes
    chars = len(answer) - len(head_of(answer))
    if GAP not in answer and chars <= ANSWER_CHARS_MAX and act.outcome.count("\n") < 2:
        return True
    return bool(act.used or defines(answer)) and chars <= ANSWER_CHARS_MAX + len(GAP) * 4


def _nothing(_: str) -> float:
    """Seek no word."""
    return 0.0
