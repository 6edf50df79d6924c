"""Account steps: what a unit of the conversation becomes in the account: why, what was called, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import msgspec

from actors.core.account_text import JOINED_LEVEL, WRITES
from actors.core.message_texts import MessageText, redacted_texts
from actors.core.observations import with_calls
from actors.core.text.cline import as_speech
from actors.core.text.error_text import error_text
from actors.core.text.gaps import GAP, with_gaps_once
from actors.core.text.json_lines import ALIKE_HEAD, has_rows, names_columns
from actors.core.text.notices import happened, is_notice
from actors.core.text.table import with_rows
from actors.core.text.told_table import is_summary, shorter_table
from actors.core.units import Unit
from protocol.account import AccountAct, AccountStep

from .call_failures import NOTHING, failure_of
from .calls import (
    OUTPUT,
    TASK_LIST,
    TASK_UPDATE,
    as_line,
    as_said,
    call_text,
    changes_something,
    delegates,
    file_shown_in,
    files_written_by,
    purpose_of,
    reads_file,
    reads_instructions,
    speaker_of,
    target_of,
    thought_in,
    writes_task_list,
)
from .clips import clipped, one_line, without_endless_words
from .edit_blocks import EditBlock, without_blocks
from .failures import TRACE_TITLE, failure_in, raised, trace_before, trace_in, without_frames
from .hindsight import Hindsight
from .records import is_record, record_in, record_text, shorter_record, without_known
from .relayed import relayed, said_beside
from .repeats import is_output
from .step_rooms import (
    ONE_LINE_LEVEL,
    SPOKEN_MORE,
    USED_MIN,
    WHY_CHARS,
    LevelChars,
    Rooms,
    is_report,
    room_in,
    says_edit,
    told_call,
)
from .words import WORDS_LINES_MIN, words_in

CALL_HEAD, EDIT_HEAD = 0.62, 0.96
"""Of a call that is too long, its beginning; an edit says first what is new."""

LEAST_CHARS = 40
"""Of an outcome beside its reason; less says nothing."""

REASON_HEAD = 0.78
"""Of a reason that is too long, its beginning: most say first what was wrong."""

SPOKEN_WORTH, REPORT_WORTH = 2.4, 3.4
"""Levels that an answer to somebody is kept finer: the assistant's own words go last."""

MATTERS_WORTH = 1.0
"""From which on a step did more than look: it changed something, failed, was used, or told the user something."""
INSTRUCTS_WORTH = 2.0

ANSWER_CHARS_MAX = 90
"""Of an outcome where steps are joined."""

WRITTEN_EDIT = "written edit"
"""Stands for a tool where an assistant wrote an edit into its text: whether anybody applied it, no text says."""

NOTED_CHARS_MAX = 200
"""Of a result that only says that a thought or a note was taken."""

TITLE_CHARS_MAX = 120
"""Of the first line of what was printed: a shorter one says what it is."""

FAILED_CHARS = 300
"""Of the words in which a failed call says why, before anything else."""


def step_of(unit: Unit, hindsight: Hindsight, levels: Sequence[LevelChars]) -> AccountStep:
    """Return the finest step for *unit*, whose assistant spoke; what is shortened in place is read as it was said."""
    parts = with_calls(redacted_texts(map(as_said, unit.entries)), unit.entries)
    beside = list(said_beside(parts)) if hindsight.rules_3 and not unit.opens_block else []
    others = [part for part in parts if part.trust != "tool" and not part.tool and part not in beside]
    spoken = [part.text.strip() for part in others if part.text.strip()]
    spoken = [*map(as_speech, spoken)] if hindsight.rules_3 else spoken
    spoken += filter(None, (thought_in(part, notes=hindsight.rules_3) for part in parts))
    words, blocks = without_blocks("\n".join(spoken)) if hindsight.rules_3 else ("\n".join(spoken), [])
    results: dict[str, str] = {}
    failed = {part.call for part in parts if part.failed} if hindsight.rules_3 else set()
    outcomes = {one.call: one.outcome for one in relayed(parts) if one.outcome} if hindsight.rules_3 else {}
    printed = "\n".join(filter(None, (happened(part.text) for part in beside if is_notice(part.text))))
    for part in parts:
        if part.trust == "tool" and part.call:
            text = outcomes.get(part.call) or hindsight.opened(part, own=unit.first)
            results[part.call] = f"{results[part.call]}\n{text}" if part.call in results else text
        elif part.trust == "tool" and part.number not in hindsight.overtaken:
            printed = f"{printed}\n{part.text}".strip()
    calls = [as_line(part) if hindsight.rules_3 else part for part in parts if part.tool]
    calls += _edits_said(blocks, unit.first)
    speaker = speaker_of(unit.entries[0])
    # where several assistants speak, one of them often runs the tools and says what they printed; one alone reports
    if not calls and is_output(words, reports=hindsight.rules_3 and not speaker):
        printed, words = f"{words}\n{printed}".strip(), ""
    most = (
        levels[0]
        if len(calls) < 2
        else LevelChars(said=levels[0].said, call=levels[0].call // 2, outcome=levels[0].outcome * 5 // 9)
    )
    acts = tuple(
        _act(
            call,
            results.get(call.call, ""),
            most,
            hindsight,
            said=words,
            last=unit.last,
            says_failed=call.call in failed,
        )
        for call in calls
        if not _says_nothing_new(call, results.get(call.call, ""), hindsight)
        and (not writes_task_list(call) or hindsight.newest_call.get(call.tool) == call.number)
    )
    if printed:
        acts = (*acts, _printed(printed, unit.last, most, hindsight))
    if speaker:
        words = hindsight.repeats.without_asked(words, number=unit.first)
    if hindsight.rules_3:
        words = hindsight.repeats.without_later(words, number=unit.last)
    words = with_rows(words) if hindsight.rules_3 else words
    said = most.said if acts or not hindsight.rules_3 else most.said * SPOKEN_MORE
    said = room_in(words, said) if hindsight.rules_3 else said
    return AccountStep(
        first=unit.first,
        last=unit.last,
        said=words_in(words, said, unit.first, hindsight),
        acts=acts,
        speaker=speaker,
    )


def _edits_said(blocks: Sequence[EditBlock], number: int) -> Iterator[MessageText]:
    """Yield the edits that an assistant wrote into its text, one file after the other, as calls of message *number*."""
    for path, some in groupby(blocks, key=lambda one: one.path):
        edits = [{"old_string": one.old, "new_string": one.new} for one in some]
        text = json.dumps({"path": path, "edits": edits}, ensure_ascii=False)
        yield MessageText(number=number, trust="assistant", text=text, tool=WRITTEN_EDIT)


def _says_nothing_new(call: MessageText, result: str, hindsight: Hindsight) -> bool:
    """Tell a call that is told as what was said, or that only keeps the assistant's own list; one that failed, or
    returned more than that it was done, is not."""
    thought = thought_in(call, notes=hindsight.rules_3)
    if not hindsight.rules_3:
        return bool(thought)
    if not thought and call.tool != TASK_UPDATE:
        return False
    return (len(result) <= NOTED_CHARS_MAX or result.strip() in thought) and not error_text(result)


def coarser(step: AccountStep, level: int, hindsight: Hindsight, levels: Sequence[LevelChars]) -> AccountStep:
    """Return *step* at *level*, below that of a joined one."""
    if level <= step.level or step.level >= JOINED_LEVEL:
        return step
    rooms = Rooms(step, level, levels, rules_3=hindsight.rules_3)
    acts = []
    for act in step.acts:
        if hindsight.rules_3:
            act = msgspec.structs.replace(act, call=told_call(act, level))
        call = _shorter_call(act, rooms.call(act), step.last, hindsight)
        room = rooms.outcome(act, len(call))
        short = _shorter_outcome(act, room, step.last, hindsight) if room else ""
        acts.append(
            msgspec.structs.replace(act, call=one_line(call) if level >= ONE_LINE_LEVEL else call, outcome=short)
        )
    words = words_in(step.said, rooms.said, step.last, hindsight)
    return msgspec.structs.replace(
        step,
        said=one_line(words) if level >= ONE_LINE_LEVEL else words,
        acts=tuple(acts),
        level=min(level, len(levels) - 1),
    )


def _shorter_call(act: AccountAct, chars: int, after: int, hindsight: Hindsight) -> str:
    """Return a call in at most *chars* characters: of many lines the first one, and below it those that mattered."""
    if hindsight.rules_3 and says_edit(act):
        return clipped(act.call, chars, head=EDIT_HEAD, names=True).rstrip()
    begin, _, rest = act.call.partition("\n")
    if not hindsight.rules_3 or len(act.call) <= chars or rest.count("\n") < WORDS_LINES_MIN or len(begin) > chars:
        return clipped(act.call, chars, head=CALL_HEAD, names=hindsight.rules_3)
    left = chars - len(begin)
    # the name of the argument says nothing that its text does not
    label, _, text = rest.partition("\n")
    rest = f"{GAP}\n{text}" if label.endswith(":") else rest
    return f"{begin}\n{hindsight.excerpt(rest, chars=left, after=after)}" if left > LEAST_CHARS else f"{begin} {GAP}"


def _shorter_outcome(act: AccountAct, chars: int, after: int, hindsight: Hindsight) -> str:
    """Return an outcome in at most *chars* characters; why something failed stands first and stays."""
    if hindsight.rules_3 and is_record(act.outcome):
        return shorter_record(act.outcome, chars=chars, sought=hindsight.seeker(after=after, own=act.call))

    def shorter(text: str, most: int) -> str:
        return hindsight.excerpt(text, chars=most, after=after, own=act.call) if text else ""

    if len(act.outcome) <= chars:
        return shorter(act.outcome, chars)
    if not act.failed:
        table = shorter_table(act.outcome, chars) if hindsight.rules_3 else ""
        return table or shorter(act.outcome, chars)
    told = without_frames(act.outcome) if hindsight.rules_3 else act.outcome
    reason, _, rest = told.partition("\n")
    reason = clipped(reason, max(WHY_CHARS, chars // 2), head=REASON_HEAD)
    left = chars - len(reason)
    if not rest or left <= LEAST_CHARS:
        return reason
    return f"{reason}\n{shorter(rest, left)}".rstrip()


def without_task_list(step: AccountStep) -> AccountStep:
    """Return *step* without the calls by which the assistant kept its own list: one is newer."""
    if all(act.target != TASK_LIST for act in step.acts):
        return step
    return msgspec.structs.replace(step, acts=tuple(act for act in step.acts if act.target != TASK_LIST))


def with_reruns(step: AccountStep, before: Collection[str]) -> AccountStep:
    """Return *step* with what it ran again marked as used: how that came out now is how things are."""
    if not any(act.call in before for act in step.acts):
        return step
    acts = (
        msgspec.structs.replace(act, used=max(act.used, USED_MIN)) if act.call in before else act for act in step.acts
    )
    return msgspec.structs.replace(step, acts=tuple(acts))


def worth(step: AccountStep) -> float:
    """Return by how many levels a step is kept finer than one that only looked, and whose outcome nobody used."""
    if step.level >= JOINED_LEVEL:
        return 0.0
    if not step.acts:
        return REPORT_WORTH if is_report(step) else SPOKEN_WORTH
    if any(act.instructs for act in step.acts):
        return INSTRUCTS_WORTH
    if any(act.changes or act.failed or act.used >= USED_MIN for act in step.acts):
        return 1.0
    return 0.5 if any(act.used for act in step.acts) else 0.0


def _act(
    call: MessageText,
    result: str,
    most: LevelChars,
    hindsight: Hindsight,
    *,
    said: str,
    last: int,
    says_failed: bool,
) -> AccountAct:
    if writes_task_list(call):
        text = call_text(call, chars=most.outcome, hindsight=hindsight)
        return AccountAct(call=text, target=TASK_LIST)
    told = call_text(call, chars=most.call, hindsight=hindsight, said=said)
    below = hindsight.unframed(result, own=call.text)
    record = {} if hindsight.rules_3 and reads_file(call) else record_in(below, listed=hindsight.rules_3)
    files = files_written_by(call) if hindsight.rules_3 else ""
    changes = bool(files) or changes_something(call, rules_3=hindsight.rules_3)
    written = files.removeprefix(WRITES).split(", ") if files else []
    failed, is_undone = failure_of(
        call, below, says_failed=says_failed, changes=changes, files=written, rules_3=hindsight.rules_3
    )
    files = "" if is_undone else files
    if hindsight.rules_3 and changes and not (files or failed):
        files = file_shown_in(result)
    new = without_known(record, call, hindsight.first_fields)
    if record and hindsight.rules_3 and not failed:
        sought = hindsight.seeker(after=call.number, own=call.text)
        record_told = record_text(new)
        short = shorter_record(record_told, chars=room_in(record_told, most.outcome), sought=sought)
    elif hindsight.rules_3 and delegates(call) and not failed:
        short = words_in(below, room_in(below, most.outcome), last, hindsight) or NOTHING
    elif hindsight.rules_3:
        whole = hindsight.without_end(without_endless_words(below))
        short = hindsight.finest(whole, chars=room_in(whole, most.outcome), after=last, own=told) or NOTHING
    else:
        whole = json.dumps(new, ensure_ascii=False) if record and not failed else below if record else ""
        whole = whole or hindsight.without_end(below)
        short = hindsight.excerpt(whole, chars=most.outcome, after=call.number, own=call.text) or NOTHING
    short = _why_first(raised(failed, below), short, rules_3=hindsight.rules_3) if failed else short
    # which words of a result were used is known before it is shortened, and its words are known already
    used = hindsight.used(result if hindsight.rules_3 else short, after=call.number, own=call.text)
    # an edit that is only written may be the one that somebody makes
    is_written = call.tool == WRITTEN_EDIT
    return AccountAct(
        call=told,
        outcome=short,
        # a record that was looked up is there to be used later
        used=USED_MIN if record or is_written else used,
        changes=changes and not is_written,
        target=files or _target(call, hindsight, changes=changes),
        failed=bool(failed),
        instructs=reads_instructions(call, rules_3=hindsight.rules_3) or (hindsight.rules_3 and delegates(call)),
    )


def _target(call: MessageText, hindsight: Hindsight, *, changes: bool) -> str:
    """Return the target of a *call* that wrote no files, which does not look as if it had."""
    if hindsight.rules_3 and not changes and (purpose := purpose_of(call, hindsight)):
        return purpose
    target = target_of(call, whole_paths=hindsight.rules_3)
    return target.removeprefix(WRITES) if hindsight.rules_3 else target


def _printed(text: str, number: int, most: LevelChars, hindsight: Hindsight) -> AccountAct:
    """Return the act of what was printed, where no call is known for it, under its first line."""
    title, _, below = text.lstrip().partition("\n")
    title = one_line(title) if below and len(title) <= TITLE_CHARS_MAX else ""
    told = hindsight.unframed(below, own=title) if title else text
    call = f"{OUTPUT}: {title}" if title else OUTPUT
    if again := hindsight.repeats.again(text, after=number):
        return AccountAct(call=call, outcome=again, target=title)
    if hindsight.rules_3:
        short = hindsight.finest(told, chars=room_in(told, most.outcome), after=number, own=call)
    else:
        short = hindsight.excerpt(told, chars=most.outcome, after=number)
    failed = error_text(text) or failure_in(text, rules_3=hindsight.rules_3)
    if failed and hindsight.rules_3:
        failed = trace_in(text) or trace_before(text) or failed
    short = _why_first(raised(failed, text), short, rules_3=hindsight.rules_3) if failed else short
    return AccountAct(
        call=call,
        outcome=short,
        target=title,
        failed=bool(failed),
        used=hindsight.used(short, after=number),
    )


def answer_of(act: AccountAct, *, after: int, hindsight: Hindsight) -> str:
    """Return the line of an outcome that says most: of rows that nobody used, how many there were of which kind."""
    last = act.outcome.rsplit("\n", 1)[-1]
    if not act.used and is_summary(last):
        return last
    rows = "\n".join([line for line in act.outcome.split("\n") if not line.lstrip(f"{GAP} ").startswith(ALIKE_HEAD)])
    most = room_in(act.outcome, ANSWER_CHARS_MAX) if hindsight.rules_3 else ANSWER_CHARS_MAX
    lines = hindsight.excerpt(rows or act.outcome, chars=most, after=after, own=act.call).split("\n")
    if has_rows(act.outcome):
        lines = [line if names_columns(line) else f"{line};" for line in lines[:-1]] + lines[-1:]
    answer = one_line("\n".join(lines))
    return with_gaps_once(answer)


def has_answer(act: AccountAct) -> bool:
    """Tell whether the outcome of *act* may be told by its line that says most."""
    return not (act.failed or act.changes or act.instructs or is_record(act.outcome)) and act.outcome != NOTHING


def is_cut(step: AccountStep) -> bool:
    """Tell whether something is left out of what the calls of *step* returned."""
    return any(GAP in act.outcome for act in step.acts)


def is_known(call: str) -> bool:
    """Tell whether *call* says all of what was called; of what an unknown one printed, nobody knows."""
    return GAP not in call and call.split(":", 1)[0] != OUTPUT


def _why_first(failed: str, outcome: str, *, rules_3: bool) -> str:
    """Return *outcome* with the words that say why it *failed* as its first line, and once."""
    why = one_line(failed)
    marks = f"{GAP} -*" if rules_3 else f"{GAP} "
    others = (line for line in outcome.split("\n") if line.strip(marks) not in f"{why}\n{TRACE_TITLE}")
    return "\n".join([clipped(why, FAILED_CHARS, head=REASON_HEAD), *others])
